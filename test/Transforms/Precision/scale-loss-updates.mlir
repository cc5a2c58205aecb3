// What mpcomm.gradient hands on is unscaled with the gradient.

// RUN: mpcomm-opt %s --mpcomm-scale-loss="mode=static scale=4" | FileCheck %s

// CHECK-LABEL: @train_step
// CHECK: %[[G:.*]], %{{.*}} = mpcomm.unscale(
// CHECK: %[[H:.*]] = mpcomm.gradient %[[G]]
// CHECK: %[[N:.*]] = mpcomm.reduce sum %[[H]]
// CHECK: mpcomm.update %{{.*}}, %[[H]], %[[N]]
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 1 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"}) {
  %m = arith.mulf %p, %x : tensor<4xf32>
  %l = mpcomm.reduce sum %m, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %dy = mpcomm.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %g = arith.mulf %dy, %x : tensor<4xf32>
  %h = mpcomm.gradient %g : tensor<4xf32>
  %n = mpcomm.reduce sum %h, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %p1 = mpcomm.update %p, %h, %n {optimizer = "SGD"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32> {
  ^bb0(%q: tensor<4xf32>, %d: tensor<4xf32>, %r: tensor<f32>):
    %w = mpcomm.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %z = arith.mulf %w, %d : tensor<4xf32>
    %s = arith.subf %q, %z : tensor<4xf32>
    mpcomm.yield %s : tensor<4xf32>
  }
  return %l, %p1 : tensor<f32>, tensor<4xf32>
}
