// Which 8-bit form a tensor has: E4M3 for all that the forward pass makes,
// products and what is moved for both passes too, and one form for all readers.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=fp8 compute=lower_precision" | FileCheck %s
// RUN: mpcomm-opt %s --split-input-file --mpcomm-insert-casts="policy=fp8 compute=fp32" | FileCheck %s

// A product reads what another one gives, in the forward pass and in the
// backward pass.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: "x.fp8.scale"
// CHECK-SAME: "w1.fp8.scale"
// CHECK-SAME: "fp8.activation.0.scale"
// CHECK-SAME: "w2.fp8.scale"
// CHECK-SAME: "fp8.gradient.0.scale"
// CHECK-SAME: "fp8.gradient.1.scale"
// CHECK-SAME: -> (
// CHECK: arith.truncf {{.*}} to tensor<8x6xf8E4M3FN>
// CHECK: arith.truncf {{.*}} to tensor<6x8xf8E4M3FN>
// CHECK: arith.truncf {{.*}} to tensor<8x8xf8E4M3FN>
// CHECK: arith.truncf {{.*}} to tensor<8x4xf8E4M3FN>
// CHECK: arith.truncf {{.*}} to tensor<8x4xf8E5M2>
// CHECK: arith.truncf {{.*}} to tensor<8x8xf8E5M2>
// CHECK-NOT: to tensor<{{[0-9x]+}}xf8E
func.func @train_step(
    %w1: tensor<6x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 1 : i64},
    %w2: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2", mpcomm.donated = 2 : i64},
    %x: tensor<8x6xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 4>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<6x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %lr = arith.constant dense<0.25> : tensor<f32>
  %h = mpcomm.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %z = mpcomm.dot_general %h, %w2, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %dz = mpcomm.cross_entropy_grad %one, %z, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<8x4xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x4xf32>
  %dw2 = mpcomm.dot_general %h, %dz, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %dh = mpcomm.dot_general %dz, %w2, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %dw1 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x6xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %n2 = mpcomm.sgd_update %w2, %dw2, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %loss, %n1, %n2 : tensor<f32>, tensor<6x8xf32>, tensor<8x4xf32>
}

// -----

// Half of the weights, which the backward pass would cut out again, from a
// tensor that is there anyway: one form.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: "x.fp8.scale"
// CHECK-SAME: "fp8.activation.0.scale"
// CHECK-SAME: "fp8.gradient.0.scale"
// CHECK-SAME: -> (
// CHECK: mpcomm.slice
// CHECK: %[[W8:.*]] = arith.truncf {{.*}} to tensor<6x4xf8E4M3FN>
// CHECK: arith.truncf {{.*}} to tensor<8x6xf8E4M3FN>
// CHECK-NOT: mpcomm.slice
// CHECK: arith.truncf {{.*}} to tensor<8x4xf8E5M2>
// CHECK: %[[W:.*]] = arith.extf %[[W8]]
// CHECK: mpcomm.dot_general {{.*}}, %[[W]], contracting_dims = [1] x [1]
// CHECK-NOT: to tensor<{{[0-9x]+}}xf8E
func.func @train_step(
    %w: tensor<6x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %x: tensor<8x6xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y", mpcomm.range = array<i64: 0, 4>})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8x6xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "dx"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %half = mpcomm.slice %w, starts = [0, 4], limits = [6, 8], strides = [1, 1] : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %z = mpcomm.dot_general %x, %half, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %loss, %lse = mpcomm.cross_entropy %z, %y mean ignore_index = -100 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %dz = mpcomm.cross_entropy_grad %one, %z, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<8x4xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x4xf32>
  %dx = mpcomm.dot_general %dz, %half, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  return %loss, %dx : tensor<f32>, tensor<8x6xf32>
}
