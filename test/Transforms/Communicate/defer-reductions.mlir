// A gradient becomes state, and the next step begins with its reduction and the
// update, which a first step does not have; a function does so without a step.

// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=16" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=16" --mpcomm-verify-communication --mpcomm-verify-shardings -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=0" | FileCheck %s --check-prefix=NONE
// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=1000" --remarks-filter="mpcomm-defer-reductions" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNTS

// NONE-NOT: pending

// The update of the third parameter takes two gradients.
// COUNTS: [Missed] NotDeferred
// COUNTS: [Analysis] Deferred
// COUNTS-SAME: bytes=16, possible=1, reductions=1

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4xf32> {mpcomm.donated = 0 : i64, mpcomm.name = "w"
// CHECK-SAME: %[[V:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[C:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32>
// CHECK-SAME: %[[FLAG:[^:]*]]: tensor<f32> {mpcomm.added = "transient", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 4 : i64, mpcomm.name = "pending", mpcomm.role = #mpcomm.role<optimizer_state>}
// CHECK-SAME: %[[RATE:[^:]*]]: tensor<f32> {mpcomm.added = "transient", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 5 : i64, mpcomm.name = "pending.0"
// CHECK-SAME: %[[LEFT:[^:]*]]: tensor<4xf32> {mpcomm.added = "transient", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 6 : i64, mpcomm.name = "w.pending", mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], local = ["dp"]>}
// CHECK: %[[IS:.*]] = arith.cmpf ogt, %[[FLAG]]
// CHECK: %[[R:.*]] = mpcomm.all_reduce(%[[LEFT]]) on @mesh axes ["dp"] mean {mpcomm.pending}
// CHECK: %[[U:.*]] = mpcomm.sgd_update %[[W]], %[[R]], %[[RATE]]
// CHECK: %[[NOW:.*]] = arith.select %{{.*}}, %[[U]], %[[W]]
// CHECK: %[[G:.*]] = arith.mulf %[[X]], %[[NOW]]
// CHECK-NOT: sgd_update %[[W]]
// CHECK: mpcomm.all_reduce
// CHECK: return %[[NOW]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[LR]], %[[G]]

// CHECK-LABEL: func.func @apply_pending(
// CHECK-SAME: "pending"
// CHECK: mpcomm.all_reduce
// CHECK: mpcomm.sgd_update
// CHECK: %[[NOW:.*]] = arith.select
// CHECK: %[[NO:.*]] = arith.constant dense<0.000000e+00> : tensor<f32>
// CHECK: return %[[NOW]], %[[NO]] : tensor<4xf32>, tensor<f32>

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 1 : i64},
    %c: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "c", mpcomm.donated = 2 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "c"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %g = arith.mulf %x, %w : tensor<4xf32>
  %h = arith.mulf %g, %v : tensor<4xf32>
  %k = arith.mulf %h, %c : tensor<4xf32>
  %own = mpcomm.reduce sum %k, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %loss = mpcomm.all_reduce(%own) on @mesh axes ["dp"] mean : tensor<f32>
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = mpcomm.all_reduce(%h) on @mesh axes ["dp"] mean : tensor<4xf32>
  %t = mpcomm.all_reduce(%k) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v1 = mpcomm.sgd_update %v, %s, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %most = mpcomm.reduce max %t, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %all = mpcomm.broadcast_in_dim %most, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %u = arith.divf %t, %all : tensor<4xf32>
  %z = arith.addf %u, %s : tensor<4xf32>
  %c1 = mpcomm.sgd_update %c, %z, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %w1, %v1, %c1, %loss : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
