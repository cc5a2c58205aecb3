// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
//
// The passes over a row of composite ops. Their numbers: composites.py.

// CHECK-LABEL: @softmax
//       CHECK: iterator_types = ["parallel", "reduction"]
//       CHECK: arith.maxnumf
//       CHECK: math.exp
//       CHECK: iterator_types = ["parallel", "reduction"]
//       CHECK: arith.addf
// One division a row.
//       CHECK: iterator_types = ["parallel"]
//       CHECK: arith.divf
//       CHECK: arith.mulf
// The origin is kept.
//       CHECK: fused<"softmax">
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = mpcomm.softmax %x, dim = 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Along another dimension: that one is made the last.
// CHECK-LABEL: @softmax_of_columns
//       CHECK: linalg.transpose
//       CHECK: math.exp
//       CHECK: linalg.transpose
func.func @softmax_of_columns(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = mpcomm.softmax %x, dim = 0 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// 16-bit rows are summed in f32.
// CHECK-LABEL: @layer_norm_narrow
//       CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4x8xbf16>) outs(%{{.+}} : tensor<4xf32>)
//       CHECK: arith.extf
//       CHECK: arith.addf %{{.+}} : f32
func.func @layer_norm_narrow(%x: tensor<4x8xbf16>, %g: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %y, %m, %r = mpcomm.layer_norm %x, %g, %g, eps = 1.0e-05 : (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4xbf16>, tensor<4xbf16>)
  return %y : tensor<4x8xbf16>
}

// -----

// Trailing and other dimensions: columns first, then rows.
// CHECK-LABEL: @reduce_both
//       CHECK: iterator_types = ["parallel", "parallel", "reduction"]
//       CHECK: iterator_types = ["reduction", "parallel"]
func.func @reduce_both(%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %0 = mpcomm.reduce sum %x, dims = [0, 2] : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Bias corrections are 0-d and in f64.
// CHECK-LABEL: @adamw
//       CHECK: iterator_types = []
//       CHECK: math.exp %{{.+}} : f64
//       CHECK: iterator_types = ["parallel"]
//       CHECK: math.sqrt %{{.+}} : f32
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %step: tensor<f32>, %lr: tensor<f32>) -> tensor<8xf32> {
  %p1, %m1, %v1 = mpcomm.adamw_update %p, %g, %m, %v, %step, %lr, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %p1 : tensor<8xf32>
}

// -----

// A sum of booleans is their disjunction, a product their conjunction.
// CHECK-LABEL: func.func @any
//       CHECK: linalg.generic
//       CHECK: arith.ori
// CHECK-LABEL: func.func @all
//       CHECK: linalg.generic
//       CHECK: arith.muli
func.func @any(%x: tensor<4x8xi1>) -> tensor<4xi1> {
  %0 = mpcomm.reduce sum %x, dims = [1] : (tensor<4x8xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
func.func @all(%x: tensor<4x8xi1>) -> tensor<4xi1> {
  %0 = mpcomm.reduce prod %x, dims = [1] : (tensor<4x8xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
