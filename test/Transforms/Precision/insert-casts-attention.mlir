// Attention that is written as an op keeps the type in which it is written: its
// lse has no narrower one. What it reads and makes is cast as for any op in f32.

// RUN: mpcomm-opt %s --mpcomm-insert-casts="policy=bf16 compute=lower_precision" | FileCheck %s

// CHECK: %[[H:.*]] = mpcomm.dot_general %{{.*}} -> tensor<2x8x16xbf16>
// CHECK: %[[Q:.*]] = mpcomm.reshape %[[H]] : (tensor<2x8x16xbf16>) -> tensor<2x8x1x16xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[Q]]
// CHECK: mpcomm.attention %[[W]], %[[W]], %[[W]] scale = 2.500000e-01 : (tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32>) -> (tensor<2x8x1x16xf32>, tensor<2x1x8xf32>)
func.func @train_step(
    %w: tensor<4x16xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<2x8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x16xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %h = mpcomm.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<2x8x4xf32>, tensor<4x16xf32>) -> tensor<2x8x16xf32>
  %q = mpcomm.reshape %h : (tensor<2x8x16xf32>) -> tensor<2x8x1x16xf32>
  %o, %lse = mpcomm.attention %q, %q, %q scale = 0.25 : (tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32>) -> (tensor<2x8x1x16xf32>, tensor<2x1x8xf32>)
  %loss = mpcomm.reduce sum %o, dims = [0, 1, 2, 3] : (tensor<2x8x1x16xf32>) -> tensor<f32>
  return %loss, %w : tensor<f32>, tensor<4x16xf32>
}
