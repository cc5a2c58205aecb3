// Messages travel in the narrower type that all of their kind come from, or all
// go into. What may meet changes together.

// RUN: mpcomm-opt %s --mpcomm-move-casts --split-input-file --mpcomm-verify-communication | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-move-casts --split-input-file --remarks-filter="mpcomm-move-casts" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// 8 elements in 2 bytes each instead of 4.
// REMARK-DAG: CastMoved{{.*}}Function=train_step.rank0 | bytes=16
// REMARK-DAG: CastMoved{{.*}}Function=train_step.rank1 | bytes=16
// REMARK-DAG: MoveCasts{{.*}}Function=train_step.rank0 | moved=1, narrowed=0

mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.rank0, @train_step.rank1]

// CHECK-LABEL: func.func @train_step.rank0
func.func @train_step.rank0(%x: tensor<2x4xbf16>) {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.reshape %arg0 : (tensor<2x4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: mpcomm.async
  // CHECK-NEXT: mpcomm.send(%[[F]]) {{.*}} : tensor<8xbf16>
  %w = arith.extf %x : tensor<2x4xbf16> to tensor<2x4xf32>
  %f = mpcomm.reshape %w : (tensor<2x4xf32>) -> tensor<8xf32>
  %s = mpcomm.async {
    mpcomm.send(%f) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<8xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  mpcomm.await %s : !mpcomm.future<>
  return
}

// CHECK-LABEL: func.func @train_step.rank1
func.func @train_step.rank1() -> tensor<8xf32> {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK-NEXT: %[[R:.*]] = mpcomm.recv {{.*}} : tensor<8xbf16>
  // CHECK-NEXT: mpcomm.yield %[[R]] : tensor<8xbf16>
  // CHECK-NEXT: } : !mpcomm.future<tensor<8xbf16>>
  // CHECK-NEXT: %[[V:.*]] = mpcomm.await %[[F]] : !mpcomm.future<tensor<8xbf16>>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[V]] : tensor<8xbf16> to tensor<8xf32>
  // CHECK-NEXT: return %[[W]]
  %f = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<8xf32>
    mpcomm.yield %r : tensor<8xf32>
  } : !mpcomm.future<tensor<8xf32>>
  %v = mpcomm.await %f : !mpcomm.future<tensor<8xf32>>
  return %v : tensor<8xf32>
}

// -----

mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@narrowed.rank0, @narrowed.rank1]

// CHECK-LABEL: func.func @narrowed.rank0
func.func @narrowed.rank0(%x: tensor<8xf32>) {
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %arg0 : tensor<8xf32> to tensor<8xf16>
  // CHECK-NEXT: mpcomm.send(%[[N]]) {{.*}} : tensor<8xf16>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @narrowed.rank1
func.func @narrowed.rank1() -> (tensor<2x4xf16>, tensor<8xf16>) {
  // CHECK-NEXT: %[[R:.*]] = mpcomm.recv {{.*}} : tensor<8xf16>
  // CHECK-NEXT: %[[F:.*]] = mpcomm.reshape %[[R]] : (tensor<8xf16>) -> tensor<2x4xf16>
  // CHECK-NEXT: return %[[F]], %[[R]]
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<8xf32>
  %f = mpcomm.reshape %r : (tensor<8xf32>) -> tensor<2x4xf32>
  %a = arith.truncf %f : tensor<2x4xf32> to tensor<2x4xf16>
  %b = arith.truncf %r : tensor<8xf32> to tensor<8xf16>
  return %a, %b : tensor<2x4xf16>, tensor<8xf16>
}

// -----

// One of those that may meet needs all bits: they all keep them. Neither does a
// factor cross a message.

mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@kept.rank0, @kept.rank1]

// CHECK-LABEL: func.func @kept.rank0
func.func @kept.rank0(%x: tensor<8xbf16>, %y: tensor<8xf32>) -> tensor<8xbf16> {
  // CHECK: mpcomm.send({{.*}}) {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.send({{.*}}) {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.recv {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.recv {{.*}} : tensor<8xf32>
  %w = arith.extf %x : tensor<8xbf16> to tensor<8xf32>
  mpcomm.send(%w) on @mesh axes ["pp"] to = 1 : tensor<8xf32>
  mpcomm.send(%y) on @mesh axes ["pp"] to = 1 : tensor<8xf32>
  %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 1 : tensor<8xf32>
  %s = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 1 : tensor<8xf32>
  %n = arith.truncf %r : tensor<8xf32> to tensor<8xbf16>
  %two = arith.constant dense<2.0> : tensor<8xf32>
  %m = arith.mulf %s, %two : tensor<8xf32>
  %o = arith.truncf %m : tensor<8xf32> to tensor<8xbf16>
  %t = arith.addf %n, %o : tensor<8xbf16>
  return %t : tensor<8xbf16>
}

// CHECK-LABEL: func.func @kept.rank1
func.func @kept.rank1(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: mpcomm.recv {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.recv {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.send({{.*}}) {{.*}} : tensor<8xf32>
  // CHECK: mpcomm.send({{.*}}) {{.*}} : tensor<8xf32>
  %a = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<8xf32>
  %b = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<8xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 1 : tensor<8xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 1 : tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
