// The gradient of the loss is replaced by the scale, gradients are unscaled in
// one op before the updates, and parameters and optimizer state are chosen
// between old and new; the loss and other uses of the constant 1 stay.

// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=dynamic scale=1024 interval=4 min=2 max=4096 hysteresis=2" \
// RUN:   --mpcomm-verify-training-graph | FileCheck %s --implicit-check-not=unscale
// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=static scale=8" --mpcomm-verify-training-graph | FileCheck %s --check-prefix=STATIC
// RUN: mpcomm-opt %s --mpcomm-scale-loss="clip-norm=0.5" --mpcomm-verify-training-graph | FileCheck %s --check-prefix=CLIP
// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=dynamic clip-norm=0.5 check-gradients" --mpcomm-verify-training-graph | FileCheck %s --check-prefix=CHECKED
// RUN: mpcomm-opt %s --mpcomm-scale-loss="check-gradients" --mpcomm-verify-training-graph | FileCheck %s --check-prefix=ONLY
// RUN: mpcomm-opt %s --mpcomm-scale-loss | FileCheck %s --check-prefix=NONE
// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=dynamic" --mpcomm-data-parallel=size=2 --mpcomm-verify-shardings | FileCheck %s --check-prefix=RANKS
// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=dynamic" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Two gradients, one constant replaced; w, b, m and step may be skipped.
// REMARK: ScaleLoss{{.*}}gradients=2, places=1, skippable=4

// NONE-NOT: scale
// NONE: return

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x2xf32> {mpcomm.donated = 1
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<4x2xf32> {mpcomm.donated = 3
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 4
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {mpcomm.default = 1.024000e+03 : f32, mpcomm.donated = 5 : i64, mpcomm.name = "loss_scale", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: %[[GOOD:[a-z0-9]+]]: tensor<i32> {mpcomm.default = 0 : i32, mpcomm.donated = 6 : i64, mpcomm.name = "loss_scale.good_steps", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: %[[HYST:[a-z0-9]+]]: tensor<i32> {mpcomm.default = 2 : i32, mpcomm.donated = 7 : i64, mpcomm.name = "loss_scale.hysteresis", mpcomm.role = #mpcomm.role<loss_scale>}
// CHECK-SAME: %[[SKIPPED:[a-z0-9]+]]: tensor<i32> {mpcomm.default = 0 : i32, mpcomm.donated = 8 : i64, mpcomm.name = "loss_scale.skipped", mpcomm.role = #mpcomm.role<loss_scale>}
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %m: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m", mpcomm.donated = 3 : i64},
    %step: tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 2>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m"},
        tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %dot = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %bias = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<8x2xf32>
  %logits = arith.addf %dot, %bias : tensor<8x2xf32>
  // CHECK: %[[LOSS:[a-z0-9_]+]], %{{.*}} = mpcomm.cross_entropy %
  %loss, %lse = mpcomm.cross_entropy %logits, %y mean ignore_index = -100 : (tensor<8x2xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  // CHECK: mpcomm.cross_entropy_grad %[[S]], %
  // STATIC: %[[S:.*]] = arith.constant dense<8.0{{.*}}> : tensor<f32>
  // STATIC: mpcomm.cross_entropy_grad %[[S]], %
  %d = mpcomm.cross_entropy_grad %one, %logits, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<8x2xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x2xf32>
  %gb = mpcomm.reduce sum %d, dims = [0] : (tensor<8x2xf32>) -> tensor<2xf32>
  // The count of steps takes the 1 as before.
  // CHECK: %[[NEXT:.*]] = arith.addf %[[STEP]], %cst : tensor<f32>
  %next = arith.addf %step, %one : tensor<f32>
  // An update that was before a gradient now comes after it.
  %b1 = mpcomm.sgd_update %b, %gb, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: %[[GW:.*]] = mpcomm.dot_general
  %gw = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // CHECK: %[[U:.*]]:2, %[[FOUND:.*]] = mpcomm.unscale(%{{.*}}, %[[GW]]) by %[[S]] : (tensor<2xf32>, tensor<4x2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<4x2xf32>, tensor<f32>)
  // CHECK: mpcomm.sgd_update %{{.*}}, %[[U]]#0
  // CHECK: %[[W1:[a-z0-9_]+]], %[[M1:[a-z0-9_]+]] = mpcomm.sgd_update %[[W]], %[[U]]#1
  // STATIC: mpcomm.unscale
  // STATIC-NOT: select
  // CLIP-NOT: loss_scale
  // CLIP-NOT: unscale
  // CLIP: %[[C:.*]]:2, %{{.*}} = mpcomm.clip_by_global_norm(%{{.*}}, %{{.*}}) max_norm = 5.{{0+}}e-01
  // CLIP: mpcomm.sgd_update %{{.*}}, %[[C]]#0
  // CLIP: mpcomm.sgd_update %{{.*}}, %[[C]]#1
  // One flag a gradient, b's first; returned in the order of parameters.
  // CHECKED: tensor<2xf32> {mpcomm.name = "nonfinite", mpcomm.role = #mpcomm.role<output>}
  // CHECKED: %[[U:.*]]:2, %[[EACH:.*]] = mpcomm.unscale(%{{.*}}, %{{.*}}) by %{{.*}} each
  // CHECKED: %[[FW:.*]] = mpcomm.slice %[[EACH]], starts = [1], limits = [2]
  // CHECKED: %[[FB:.*]] = mpcomm.slice %[[EACH]], starts = [0], limits = [1]
  // CHECKED: %[[FLAGS:.*]] = mpcomm.concatenate %[[FW]], %[[FB]], dim = 0
  // CHECKED: %[[FOUND:.*]] = mpcomm.reduce max %[[EACH]], dims = [0]
  // CHECKED: mpcomm.clip_by_global_norm(%[[U]]#0, %[[U]]#1)
  // CHECKED: arith.cmpf ogt, %[[FOUND]]
  // CHECKED: return {{.*}}%[[FLAGS]]
  // Without a scale only the flags are added: nothing is skipped.
  // ONLY: mpcomm.unscale(%{{.*}}, %{{.*}}) by %cst{{.*}} each
  // ONLY-NOT: select
  // ONLY: return
  // One all_reduce a gradient, and the loss; none after unscale.
  // RANKS-COUNT-3: mpcomm.all_reduce
  // RANKS: mpcomm.unscale
  // RANKS-NOT: mpcomm.all_reduce
  %w1, %m1 = mpcomm.sgd_update %w, %gw, %lr, %m, momentum = 0.9, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
  // CHECK: %[[SKIP:.*]] = arith.cmpf ogt, %[[FOUND]], %
  // CHECK: %[[ALL:.*]] = mpcomm.broadcast_in_dim %[[SKIP]], dims = [] : (tensor<i1>) -> tensor<4x2xi1>
  // CHECK: %[[W2:.*]] = arith.select %[[ALL]], %[[W]], %[[W1]]
  // CHECK: %[[M2:.*]] = arith.select %{{.*}}, %[[M]], %[[M1]]
  // CHECK: %[[STEP2:.*]] = arith.select %[[SKIP]], %[[STEP]], %[[NEXT]] : tensor<i1>, tensor<f32>
  // CHECK: %[[S1:.*]], %[[GOOD1:.*]], %[[HYST1:.*]] = mpcomm.update_loss_scale %[[S]], %[[GOOD]], %[[HYST]], %[[FOUND]], growth = 2.{{.*}}, backoff = 5.{{.*}}e-01, interval = 4, min = 2.{{.*}}, max = 4.096{{.*}}, hysteresis = 2
  // CHECK: %[[MORE:.*]] = arith.fptosi %[[FOUND]]
  // CHECK: %[[TOTAL:.*]] = arith.addi %[[SKIPPED]], %[[MORE]]
  // CHECK: return %[[LOSS]], %[[W2]], %{{.*}}, %[[M2]], %[[STEP2]], %[[S1]], %[[GOOD1]], %[[HYST1]], %[[TOTAL]]
  return %loss, %w1, %b1, %m1, %next : tensor<f32>, tensor<4x2xf32>, tensor<2xf32>, tensor<4x2xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: scale
func.func @evaluate(%x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "out"}) {
  return %x : tensor<8x4xf32>
}
