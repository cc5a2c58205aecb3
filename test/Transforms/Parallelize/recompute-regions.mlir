// Ops with regions are recomputed from what is recomputed, and read it.

// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" --mpcomm-recompute=policy=stage | FileCheck %s

// CHECK: %[[H:.*]] = mpcomm.dot_general %[[X:.*]], %[[W:.*]], contracting_dims = [1] x [0]
// CHECK: mpcomm.reduce
// CHECK: %[[H2:.*]] = mpcomm.dot_general %[[X]], %[[W]], contracting_dims = [1] x [0]
// CHECK: %[[T2:.*]] = scf.if
// CHECK-NEXT: math.tanh %[[H2]]
// CHECK: scf.yield %[[H2]]
// CHECK: %[[DT:.*]] = scf.if
// CHECK-NEXT: arith.addf %[[T2]], %[[T2]]
// CHECK: scf.yield %[[T2]]
// CHECK: mpcomm.dot_general %[[X]], %[[DT]]

func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %c: tensor<i1> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "c"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %b = tensor.extract %c[] : tensor<i1>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %t = scf.if %b -> (tensor<8x4xf32>) {
    %a = math.tanh %h : tensor<8x4xf32>
    scf.yield %a : tensor<8x4xf32>
  } else {
    scf.yield %h : tensor<8x4xf32>
  }
  %loss = mpcomm.reduce sum %t, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dt = scf.if %b -> (tensor<8x4xf32>) {
    %a = arith.addf %t, %t : tensor<8x4xf32>
    scf.yield %a : tensor<8x4xf32>
  } else {
    scf.yield %t : tensor<8x4xf32>
  }
  %dw = mpcomm.dot_general %x, %dt, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n : tensor<f32>, tensor<4x4xf32>
}
