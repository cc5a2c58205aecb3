// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s
//
// Broadcasts become maps, splats scalars, reshapes and slices views.

// CHECK-DAG: #[[BIAS:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: @bias
//  CHECK-SAME: %[[X:.+]]: tensor<8x4xf32>, %[[B:.+]]: tensor<4xf32>
//       CHECK: linalg.generic {indexing_maps = [#{{.+}}, #[[BIAS]], #{{.+}}]{{.*}} ins(%[[X]], %[[B]] :
//   CHECK-NOT: linalg.generic
func.func @bias(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %1 = arith.addf %x, %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// -----

// The broadcast alone gives its size to the reduced loop: it stays.
// CHECK-LABEL: @sum_of_broadcast
//       CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<8x4xf32>)
//       CHECK: linalg.generic {{.*}} ins(%{{.+}} : tensor<8x4xf32>)
func.func @sum_of_broadcast(%b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %1 = mpcomm.reduce sum %0, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A dimension of size 1 that is repeated is read at 0.
// CHECK-DAG: #[[UNIT:.+]] = affine_map<(d0, d1) -> (0, d1)>
// CHECK-LABEL: @unit
//       CHECK: indexing_maps = [#[[UNIT]],
func.func @unit(%b: tensor<1x4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.broadcast_in_dim %b, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// CHECK-LABEL: @splat
//  CHECK-SAME: %[[X:.+]]: tensor<4xf32>
//       CHECK: %[[C:.+]] = arith.constant 2.000000e+00 : f32
//       CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<4xf32>)
//       CHECK: arith.mulf %{{.+}}, %[[C]] : f32
func.func @splat(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<2.0> : tensor<4xf32>
  %0 = arith.mulf %x, %c : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Only dimensions that differ are touched: a slice stays a view.
// CHECK-LABEL: @views
//       CHECK: tensor.extract_slice %arg0[0, 0, 4] [2, 3, 4] [1, 1, 1]
//       CHECK: tensor.expand_shape %{{.+}} {{\[\[}}0], [1], [2, 3]]
func.func @views(%x: tensor<2x3x8xf32>) -> tensor<2x3x2x2xf32> {
  %0 = mpcomm.slice %x, starts = [0, 0, 4], limits = [2, 3, 8], strides = [1, 1, 1] : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %1 = mpcomm.reshape %0 : (tensor<2x3x4xf32>) -> tensor<2x3x2x2xf32>
  return %1 : tensor<2x3x2x2xf32>
}

// -----

// CHECK-LABEL: @reverse
//       CHECK: %[[LAST:.+]] = arith.constant 7
//       CHECK: linalg.generic
//       CHECK: %[[I:.+]] = linalg.index 0
//       CHECK: %[[J:.+]] = linalg.index 1
//       CHECK: %[[AT:.+]] = arith.subi %[[LAST]], %[[J]]
//       CHECK: tensor.extract %arg0[%[[I]], %[[AT]]]
func.func @reverse(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %0 = mpcomm.reverse %x, dims = [1] : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// Heads are concatenated as they are computed, and merged afterwards.
// CHECK-LABEL: @concatenate_heads
//       CHECK: tensor.insert_slice %arg0 into %{{.+}}[0, 0, 0] [8, 4, 2] [1, 1, 1] : {{.*}} into tensor<8x7x2xf32>
//       CHECK: tensor.insert_slice %arg1 into %{{.+}}[0, 4, 0] [8, 3, 2] [1, 1, 1]
//       CHECK: tensor.collapse_shape %{{.+}} {{\[\[}}0], [1, 2]]
func.func @concatenate_heads(%a: tensor<8x4x2xf32>, %b: tensor<8x3x2xf32>) -> tensor<8x14xf32> {
  %0 = mpcomm.reshape %a : (tensor<8x4x2xf32>) -> tensor<8x8xf32>
  %1 = mpcomm.reshape %b : (tensor<8x3x2xf32>) -> tensor<8x6xf32>
  %2 = mpcomm.concatenate %0, %1, dim = 1 : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x14xf32>
  return %2 : tensor<8x14xf32>
}

// -----

// Rows that are grouped in another way are not concatenated before they are
// merged.
// CHECK-LABEL: @concatenate_other_rows
//       CHECK: %[[A:.+]] = tensor.collapse_shape %arg0
//       CHECK: %[[B:.+]] = tensor.collapse_shape %arg1
//       CHECK: tensor.insert_slice %[[A]] into %{{.+}}[0, 0] [6, 5]
//       CHECK: tensor.insert_slice %[[B]] into %{{.+}}[0, 5] [6, 5]
func.func @concatenate_other_rows(%a: tensor<2x3x5xf32>, %b: tensor<3x2x5xf32>) -> tensor<6x10xf32> {
  %0 = mpcomm.reshape %a : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  %1 = mpcomm.reshape %b : (tensor<3x2x5xf32>) -> tensor<6x5xf32>
  %2 = mpcomm.concatenate %0, %1, dim = 1 : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x10xf32>
  return %2 : tensor<6x10xf32>
}

// -----

// CHECK-LABEL: @pad
//       CHECK: %[[BORDER:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<7xf32>)
//       CHECK: tensor.insert_slice %arg0 into %[[BORDER]][1] [3] [2]
func.func @pad(%x: tensor<3xf32>, %v: tensor<f32>) -> tensor<7xf32> {
  %0 = mpcomm.pad %x, %v, low = [1], high = [1], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// Collectives are somebody else's.
mpcomm.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: @collective
//       CHECK: mpcomm.all_reduce
func.func @collective(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  return %0 : tensor<4xf32>
}
