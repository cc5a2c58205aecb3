// What depends on a collective goes after what does not, by the last collective
// that it depends on, else in the old order; nothing crosses an op that fixes an
// order.

// RUN: mpcomm-opt %s --mpcomm-sink-updates | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-sink-updates --mpcomm-sink-updates | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-sink-updates --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

mpcomm.mesh @mesh <["dp" = 2]>

// REMARK: SinkUpdates{{.*}}Function=updates | moved=2
// REMARK: SinkUpdates{{.*}}Function=dependent_collective | moved=2
// REMARK: SinkUpdates{{.*}}Function=barrier | moved=0
// REMARK: SinkUpdates{{.*}}Function=nested | moved=1
// REMARK: SinkUpdates{{.*}}Function=nothing_to_do | moved=0
// REMARK: SinkUpdates{{.*}}Function=gathers | moved=1

// CHECK-LABEL: func.func @updates
// CHECK-SAME: %[[W:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>, %[[LR:.*]]: tensor<f32>
func.func @updates(%w: tensor<4xf32>, %x: tensor<4xf32>, %lr: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[R0:.*]] = mpcomm.all_reduce(%[[X]])
  // CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[X]], %[[W]]
  // CHECK-NEXT: %[[R1:.*]] = mpcomm.all_reduce(%[[Y]])
  // CHECK-NEXT: %[[Z:.*]] = arith.addf %[[Y]], %[[W]]
  // CHECK-NEXT: %[[W0:.*]] = mpcomm.sgd_update %[[W]], %[[R0]]
  // CHECK-NEXT: %[[W1:.*]] = mpcomm.sgd_update %[[W0]], %[[R1]]
  // CHECK-NEXT: return %[[W1]], %[[Z]]
  %r0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w0 = mpcomm.sgd_update %w, %r0, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = arith.mulf %x, %w : tensor<4xf32>
  %r1 = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w0, %r1, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %z = arith.addf %y, %w : tensor<4xf32>
  return %w1, %z : tensor<4xf32>, tensor<4xf32>
}

// A collective that needs another one moves with what depends on it.
// CHECK-LABEL: func.func @dependent_collective
func.func @dependent_collective(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0) {{.*}} mean
  // CHECK-NEXT: %[[Y:.*]] = arith.mulf %arg0, %arg0
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[Y]]) {{.*}} mean
  // CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[A]]
  // CHECK-NEXT: %[[C:.*]] = mpcomm.all_reduce(%[[S]]) {{.*}} max
  // CHECK-NEXT: return %[[C]], %[[B]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = arith.addf %a, %a : tensor<4xf32>
  %c = mpcomm.all_reduce(%s) on @mesh axes ["dp"] max : tensor<4xf32>
  %y = arith.mulf %x, %x : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %c, %b : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @barrier
func.func @barrier(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: mpcomm.barrier
  // CHECK-NEXT: arith.mulf
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = arith.addf %a, %a : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  %y = arith.mulf %x, %x : tensor<4xf32>
  return %s, %y : tensor<4xf32>, tensor<4xf32>
}

// A use inside of a region is a use of the op around it.
// CHECK-LABEL: func.func @nested
func.func @nested(%x: tensor<4xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: scf.if
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = scf.if %c -> tensor<4xf32> {
    %t = arith.addf %a, %a : tensor<4xf32>
    scf.yield %t : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  %y = arith.mulf %x, %x : tensor<4xf32>
  return %s, %y : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @nothing_to_do
func.func @nothing_to_do(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: return
  %y = arith.mulf %x, %x : tensor<4xf32>
  %a = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %a : tensor<4xf32>
}

func.func private @declaration(tensor<4xf32>)

// What depends on gathers alone is computation: the update moves, the product
// does not.
// CHECK-LABEL: func.func @gathers
func.func @gathers(%w: tensor<4xf32>, %s: tensor<2xf32>, %lr: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%arg0)
  // CHECK-NEXT: %[[G:.*]] = mpcomm.all_gather(%arg1)
  // CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[G]], %arg0
  // CHECK-NEXT: mpcomm.all_gather(%arg1) {{.*}} channel = 1
  // CHECK-NEXT: %[[Z:.*]] = arith.mulf %[[Y]]
  // CHECK-NEXT: mpcomm.sgd_update %arg0, %[[R]]
  // CHECK-NEXT: return
  %r = mpcomm.all_reduce(%w) on @mesh axes ["dp"] mean : tensor<4xf32>
  %u = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %g = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
  %y = arith.mulf %g, %w : tensor<4xf32>
  %h = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] channel = 1 : (tensor<2xf32>) -> tensor<4xf32>
  %z = arith.mulf %y, %h : tensor<4xf32>
  return %u, %z : tensor<4xf32>, tensor<4xf32>
}

// Updates go by the order of their collectives, not by that of parameters. What
// only gives a gathered parameter its shape goes to the end.
// REMARK: SinkUpdates{{.*}}Function=order | moved=3
// CHECK-LABEL: func.func @order
func.func @order(%w: tensor<2xf32>, %v: tensor<2xf32>, %x: tensor<4xf32>, %y: tensor<4xf32>, %lr: tensor<f32>) -> (tensor<2x2xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[R0:.*]] = mpcomm.reduce_scatter(%arg2)
  // CHECK-NEXT: %[[R1:.*]] = mpcomm.reduce_scatter(%arg3)
  // CHECK-NEXT: %[[V1:.*]] = mpcomm.sgd_update %arg1, %[[R0]]
  // CHECK-NEXT: %[[V2:.*]] = mpcomm.all_gather(%[[V1]])
  // CHECK-NEXT: %[[W1:.*]] = mpcomm.sgd_update %arg0, %[[R1]]
  // CHECK-NEXT: %[[W2:.*]] = mpcomm.all_gather(%[[W1]])
  // CHECK-NEXT: %[[W3:.*]] = mpcomm.reshape %[[W2]]
  // CHECK-NEXT: return %[[W3]], %[[V2]]
  %r0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  %r1 = mpcomm.reduce_scatter(%y) on @mesh axes ["dp"] mean dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  %w1 = mpcomm.sgd_update %w, %r1, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %w2 = mpcomm.all_gather(%w1) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
  %w3 = mpcomm.reshape %w2 : (tensor<4xf32>) -> tensor<2x2xf32>
  %v1 = mpcomm.sgd_update %v, %r0, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %v2 = mpcomm.all_gather(%v1) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
  return %w3, %v2 : tensor<2x2xf32>, tensor<4xf32>
}
