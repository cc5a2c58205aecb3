// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 wire=bf16" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 wire=f32" | FileCheck %s --check-prefix=WIDE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=4 average=before" --mpcomm-verify-shardings | FileCheck %s --check-prefix=BEFORE
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

// What is sent is divided first. How, the lowering says.
// BEFORE: %[[G:.*]] = mpcomm.dot_general
// BEFORE: %[[PART:.*]] = mpcomm.predivide %[[G]] on @mesh axes ["dp"] : tensor<4x2xf32>
// BEFORE: mpcomm.all_reduce(%[[PART]]) on @mesh axes ["dp"] sum : tensor<4x2xf32>
// BEFORE: %[[PART16:.*]] = mpcomm.predivide %{{.*}} on @mesh axes ["dp"] : tensor<2xf16>
// BEFORE: mpcomm.all_reduce(%[[PART16]]) on @mesh axes ["dp"] sum accumulate f32 : tensor<2xf16>
// BEFORE: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>

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
