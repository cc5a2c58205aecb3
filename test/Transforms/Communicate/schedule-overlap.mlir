// What frees a gradient comes sooner, its all_reduce starts at once and is
// awaited after what it can hide under; a memory bound is kept, and told.

// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json reorder-compute=false" | FileCheck %s --check-prefix=FIXED
// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json" --mpcomm-verify-scheduled-programs --mpcomm-verify-shardings -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json max-nodes=1" --mpcomm-verify-scheduled-programs --mpcomm-verify-shardings -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not mpcomm-opt %s --mpcomm-schedule-overlap="memory-bytes=-1" 2>&1 | FileCheck %s --check-prefix=BOUND
// BOUND: expects memory-bytes of at least 0, got -1

mpcomm.mesh @mesh <["dp" = 2]>

// REMARK: ScheduleOverlap{{.*}}Function=weight_gradient_first
// REMARK: LeftAlone{{.*}}Function=barrier{{.*}}a collective is synchronous

// %dw is ready to be computed before the chain %a, %b, and its all_reduce can
// run under them.
// CHECK-LABEL: func.func @weight_gradient_first
// FIXED-LABEL: func.func @weight_gradient_first
func.func @weight_gradient_first(%x: tensor<64x64xf32>, %dy: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK-NEXT: %[[DW:.*]] = mpcomm.dot_general %arg0, %arg1
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK: %[[A:.*]] = mpcomm.dot_general %arg1, %arg1
  // CHECK-NEXT: %[[B:.*]] = mpcomm.dot_general %[[A]], %arg1
  // CHECK-NEXT: %[[R:.*]] = mpcomm.await %[[F]]
  // CHECK-NEXT: return %[[R]], %[[B]]
  // FIXED-NEXT: mpcomm.dot_general %arg1, %arg1
  // FIXED-NEXT: mpcomm.dot_general
  // FIXED-NEXT: mpcomm.dot_general %arg0, %arg1
  // FIXED-NEXT: mpcomm.async
  %a = mpcomm.dot_general %dy, %dy, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = mpcomm.dot_general %a, %dy, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dw = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f = mpcomm.async {
    %0 = mpcomm.all_reduce(%dw) on @mesh axes ["dp"] mean : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %r = mpcomm.await %f : !mpcomm.future<tensor<64x64xf32>>
  return %r, %b : tensor<64x64xf32>, tensor<64x64xf32>
}

// CHECK-LABEL: func.func @barrier
func.func @barrier(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: mpcomm.async
  // CHECK: mpcomm.await
  // CHECK-NEXT: mpcomm.barrier
  // CHECK-NEXT: return
  %f = mpcomm.async {
    %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %0 : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %r = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  mpcomm.barrier on @mesh axes ["dp"]
  return %r : tensor<4xf32>
}

// The update writes over %w: it stays after the product that reads %w, though
// nothing but the argument ties them together.
// CHECK-LABEL: func.func @in_place
func.func @in_place(%w: tensor<64x64xf32> {mpcomm.donated = 0 : i64}, %g: tensor<64x64xf32>, %lr: tensor<f32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK: mpcomm.dot_general %arg0, %arg0
  // CHECK: mpcomm.sgd_update %arg0
  // CHECK-NOT: mpcomm.dot_general
  // CHECK: return
  %f = mpcomm.async {
    %0 = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %d = mpcomm.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = mpcomm.await %f : !mpcomm.future<tensor<64x64xf32>>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %w1, %d : tensor<64x64xf32>, tensor<64x64xf32>
}

// Collectives on two channels of a group are in flight together, those of one
// channel one after the other: 64 x 64 f32 take 10 + 8.2 us scattered and 10 +
// 16.4 us gathered, each product 524 us.
// CHECK-LABEL: func.func @two_channels
// CHECK: %[[F:.*]] = mpcomm.async
// CHECK: %[[G:.*]] = mpcomm.async
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.await
// CHECK: mpcomm.await
func.func @two_channels(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<32x64xf32>, tensor<128x64xf32>, tensor<64x64xf32>) {
  %f = mpcomm.async {
    %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<64x64xf32>) -> tensor<32x64xf32>
    mpcomm.yield %0 : tensor<32x64xf32>
  } : !mpcomm.future<tensor<32x64xf32>>
  %s = mpcomm.await %f : !mpcomm.future<tensor<32x64xf32>>
  %g = mpcomm.async {
    %0 = mpcomm.all_gather(%w) on @mesh axes ["dp"] dims = [0] channel = 1 : (tensor<64x64xf32>) -> tensor<128x64xf32>
    mpcomm.yield %0 : tensor<128x64xf32>
  } : !mpcomm.future<tensor<128x64xf32>>
  %a = mpcomm.await %g : !mpcomm.future<tensor<128x64xf32>>
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %s, %a, %p : tensor<32x64xf32>, tensor<128x64xf32>, tensor<64x64xf32>
}
