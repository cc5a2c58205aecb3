// Training graphs that keep the contract of Form 1 pass unchanged.

// RUN: mpcomm-opt %s -split-input-file --mpcomm-verify-training-graph | FileCheck %s

// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.momentum", mpcomm.donated = 2 : i64},
    %mask: tensor<8xi1> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "mask"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 2>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.momentum"}) {
  %z = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<8x2xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  // A linalg op is as welcome: its regions are pure.
  %e = tensor.empty() : tensor<4x2xf32>
  %one = arith.constant 1.0 : f32
  %g = linalg.fill ins(%one : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
  %w1, %b1 = mpcomm.sgd_update %w, %g, %lr, %b, momentum = 0.9, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
  return %loss, %w1, %b1 : tensor<f32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// CHECK-LABEL: func.func @evaluate
func.func @evaluate(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 2>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8x2xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "output", mpcomm.targets = "y"}) {
  %z = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<8x2xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return %loss, %z : tensor<f32>, tensor<8x2xf32>
}

func.func private @helper(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// A mesh may be there before the axis of data parallelism is; a frozen
// parameter has no result.
// CHECK: mpcomm.mesh
mpcomm.mesh @mesh <["tp" = 2]>
func.func @train_step(%w: tensor<f32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %w : tensor<f32>
}
