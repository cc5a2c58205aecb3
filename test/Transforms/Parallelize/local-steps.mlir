// Two steps of a rank between two meetings: the first is a call, the last is in
// place; ranks average what both did to the parameter, which an outer optimizer
// applies. The momentum of the inner one stays with the rank.

// RUN: mpcomm-opt %s --mpcomm-local-steps="steps=2 outer-lr=0.7 outer-momentum=0.9" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-local-steps="steps=2" --mpcomm-data-parallel="size=2" | FileCheck %s --check-prefix=RANKS
// RUN: mpcomm-opt %s --mpcomm-local-steps="steps=2" --mpcomm-data-parallel="size=2" --mpcomm-verify-shardings -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-local-steps="steps=1" | FileCheck %s --check-prefix=ONE
// RUN: not mpcomm-opt %s --mpcomm-local-steps="steps=0" 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not mpcomm-opt %s --mpcomm-local-steps="steps=2 outer-lr=0" 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not mpcomm-opt %s --mpcomm-local-steps="steps=2 outer-momentum=1" 2>&1 | FileCheck %s --check-prefix=MOMENTUM

// STEPS: error: expected a number of local steps in [1, 4096], got 0
// RATE: error: expected a positive outer learning rate, got 0
// MOMENTUM: error: expected an outer momentum in [0, 1), got 1

// ONE-NOT: local_step
// ONE: tensor<8x4xf32> {mpcomm.name = "x"

// CHECK-LABEL: func.func private @train_step.local_step(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {mpcomm.donated = 0 : i64}
// CHECK-SAME: tensor<8x4xf32>
// CHECK: mpcomm.sgd_update %[[W]], {{.*}} {mpcomm.local_update}

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[B:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[X:[^:]*]]: tensor<16x4xf32>
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32>
// CHECK-SAME: %[[OUTER:[^:]*]]: tensor<4xf32> {mpcomm.added = "kept", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 3 : i64, mpcomm.name = "w.outer_momentum"
// CHECK: %[[X0:.*]] = mpcomm.slice %[[X]], starts = [0, 0], limits = [8, 4]
// CHECK: %[[S:.*]]:3 = call @train_step.local_step(%[[W]], %[[B]], %[[X0]], %[[LR]])
// CHECK: %[[X1:.*]] = mpcomm.slice %[[X]], starts = [8, 0], limits = [16, 4]
// CHECK: %[[G:.*]] = mpcomm.reduce sum %[[X1]]
// CHECK: %[[W2:.*]], %[[B2:.*]] = mpcomm.sgd_update %[[S]]#0, %[[G]], %[[LR]], %[[S]]#1, {{.*}} {mpcomm.local_update}
// CHECK: %[[SUM:.*]] = arith.addf %[[S]]#2, %{{.*}} : tensor<f32>
// CHECK: %[[LOSS:.*]] = arith.mulf %[[SUM]], %{{.*}} : tensor<f32>
// CHECK: %[[D:.*]] = arith.subf %[[W]], %[[W2]] : tensor<4xf32>
// CHECK: %[[NEW:.*]], %[[OUTER2:.*]] = mpcomm.sgd_update %[[W]], %[[D]], %{{.*}}, %[[OUTER]], momentum = 9.000000e-01, weight_decay = 0.000000e+00 {nesterov}
// CHECK: return %[[NEW]], %[[B2]], %[[LOSS]], %[[OUTER2]]

// RANKS-LABEL: func.func @train_step(
// RANKS-SAME: %[[W:[^:]*]]: tensor<4xf32> {mpcomm.donated = 0 : i64, mpcomm.name = "w", mpcomm.role = #mpcomm.role<parameter>}
// RANKS-SAME: "w.momentum", mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], local = ["dp"]>}
// RANKS-NOT: all_reduce
// RANKS: arith.mulf
// RANKS-DAG: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>
// RANKS-DAG: %[[D:.*]] = arith.subf %[[W]],
// RANKS-DAG: %[[MEAN:.*]] = mpcomm.all_reduce(%[[D]]) on @mesh axes ["dp"] mean : tensor<4xf32>
// RANKS: mpcomm.sgd_update %[[W]], %[[MEAN]]

func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.momentum", mpcomm.donated = 1 : i64},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.momentum"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %g = mpcomm.reduce sum %x, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  %p = arith.mulf %g, %w : tensor<4xf32>
  %loss = mpcomm.reduce sum %p, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %w1, %b1 = mpcomm.sgd_update %w, %g, %lr, %b, momentum = 0.9, weight_decay = 0.0
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %w1, %b1, %loss : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
