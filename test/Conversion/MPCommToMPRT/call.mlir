// A call of a private function becomes one of a part of the step, in destination
// style; what nothing donates is made in a new buffer.

// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt -split-input-file -verify-diagnostics | FileCheck %s

func.func private @part(%x: tensor<4xf32>, %sum: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> (tensor<4xf32>, tensor<f32>) {
  %s = arith.addf %sum, %x : tensor<4xf32>
  %c = arith.constant dense<0.0> : tensor<f32>
  return %s, %c : tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[SUM:.*]]: tensor<4xf32>)
func.func @step(%x: tensor<4xf32>, %sum: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  // CHECK: %[[INIT:.*]] = tensor.empty() : tensor<f32>
  // CHECK: %[[R:.*]]:2 = mprt.call @part ins(%[[X]] : tensor<4xf32>) outs(%[[SUM]], %[[INIT]] : tensor<4xf32>, tensor<f32>)
  %r:2 = call @part(%x, %sum) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  // CHECK: return %[[R]]#0, %[[R]]#1
  return %r#0, %r#1 : tensor<4xf32>, tensor<f32>
}

// -----

func.func @part(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expects @part to be a private function with a body}}
  %r = call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

func.func private @part(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
func.func @step(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{expects ranked tensors of static shape, got 'tensor<?xf32>'}}
  %r = call @part(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
