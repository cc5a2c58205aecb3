// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 wire=bf16" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 wire=f32" | FileCheck %s --check-prefix=WIDE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 average=before" | FileCheck %s --check-prefix=BEFORE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=3 average=before" | FileCheck %s --check-prefix=THIRD
// RUN: not mpcomm-opt %s --mpcomm-data-parallel="size=4 wire=i8" 2>&1 | FileCheck %s --check-prefix=WIRE

// Gradients travel in the type that is asked for, unless theirs is as narrow;
// what travels in 16 bits is summed in f32. The loss keeps its type.

// CHECK-LABEL: func.func @train_step
// CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean wire bf16 accumulate f32 : tensor<4x2xf32>
// CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean accumulate f32 : tensor<2xf16>
// CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>

// WIDE: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean accumulate f32 : tensor<4x2xf32>
// WIDE: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean accumulate f32 : tensor<2xf16>
// WIDE: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>

// BEFORE: %[[G:.*]] = mpcomm.dot_general
// BEFORE: %[[SHARE:.*]] = arith.constant dense<2.500000e-01> : tensor<4x2xf32>
// BEFORE: %[[PART:.*]] = arith.mulf %[[G]], %[[SHARE]] : tensor<4x2xf32>
// BEFORE: mpcomm.all_reduce(%[[PART]]) on @mesh axes ["dp"] sum : tensor<4x2xf32>
// BEFORE: %[[PART16:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<2xf16>
// BEFORE: mpcomm.all_reduce(%[[PART16]]) on @mesh axes ["dp"] sum accumulate f32 : tensor<2xf16>
// BEFORE: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>

// A third is a division, and of 16 bits one in f32: bf16 has no 1/3, and no 1,000.
// THIRD: %[[THREE:.*]] = arith.constant dense<3.000000e+00> : tensor<4x2xf32>
// THIRD: arith.divf %{{.*}}, %[[THREE]] : tensor<4x2xf32>
// THIRD: %[[F32:.*]] = arith.extf %{{.*}} : tensor<2xf16> to tensor<2xf32>
// THIRD: %[[PART:.*]] = arith.divf %[[F32]], %{{.*}} : tensor<2xf32>
// THIRD: %[[NARROW:.*]] = arith.truncf %[[PART]]
// THIRD: mpcomm.all_reduce(%[[NARROW]]) on @mesh axes ["dp"] sum accumulate f32 : tensor<2xf16>

// WIRE: error: cannot send gradients as 'i8', expected f32, f16 or bf16
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2xf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %lr16: tensor<f16> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr16", mpcomm.default = 0.1 : f16},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %dy: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"}) {
  %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %low = arith.truncf %dy : tensor<8x2xf32> to tensor<8x2xf16>
  %gb = mpcomm.reduce sum %low, dims = [0] : (tensor<8x2xf16>) -> tensor<2xf16>
  %loss = mpcomm.reduce sum %dy, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %b1 = mpcomm.sgd_update %b, %gb, %lr16, weight_decay = 0.0 : (tensor<2xf16>, tensor<2xf16>, tensor<f16>) -> tensor<2xf16>
  return %loss, %w1, %b1 : tensor<f32>, tensor<4x2xf32>, tensor<2xf16>
}
