// A gradient that is widened for its update alone is averaged before that: narrow.

// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel=size=2 | FileCheck %s

#parameter = #mpcomm.role<parameter>

// CHECK-LABEL: func.func @train_step(
// CHECK: %[[G:.*]] = arith.truncf
// CHECK-NEXT: %[[M:.*]] = mpcomm.all_reduce(%[[G]]) {{.*}} : tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[M]]
// CHECK-NEXT: mpcomm.sgd_update %{{.*}}, %[[W]]
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #parameter, mpcomm.name = "w", mpcomm.donated = 0 : i64},
                      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
                      %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #parameter, mpcomm.name = "w"}) {
  %g = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
  %f = arith.extf %g : tensor<4xbf16> to tensor<4xf32>
  %n = mpcomm.sgd_update %w, %f, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %n : tensor<4xf32>
}

// -----

// Somebody else reads the widened one: it is what this rank made.
// CHECK-LABEL: func.func @train_step(
// CHECK: %[[F:.*]] = arith.extf
// CHECK-NEXT: %[[M:.*]] = mpcomm.all_reduce(%[[F]]) {{.*}} : tensor<4xf32>
// CHECK-NEXT: mpcomm.sgd_update %{{.*}}, %[[M]]
// CHECK: arith.addf %[[F]], %[[F]]
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
                      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
                      %x: tensor<4xbf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "twice"}) {
  %f = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %n = mpcomm.sgd_update %w, %f, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = arith.addf %f, %f : tensor<4xf32>
  return %n, %t : tensor<4xf32>, tensor<4xf32>
}
