// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s
//
// dot_general becomes a contraction onto zeros whose maps hold all transposes
// that a strided matrix product can do.

// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG: #[[B:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[C:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: @linear
//  CHECK-SAME: %[[X:.+]]: tensor<8x16x4xf32>, %[[W:.+]]: tensor<6x4xf32>
//       CHECK: %[[ZERO:.+]] = linalg.fill ins(%{{.+}} : f32)
//       CHECK: linalg.contract indexing_maps = [#[[A]], #[[B]], #[[C]]]
//  CHECK-SAME: ins(%[[X]], %[[W]] : {{.*}}) outs(%[[ZERO]]
func.func @linear(%x: tensor<8x16x4xf32>, %w: tensor<6x4xf32>) -> tensor<8x16x6xf32> {
  %r = mpcomm.dot_general %x, %w, contracting_dims = [2] x [1] : (tensor<8x16x4xf32>, tensor<6x4xf32>) -> tensor<8x16x6xf32>
  return %r : tensor<8x16x6xf32>
}

// -----

// Heads are in the middle of the operands, and of the result after its
// transpose: nothing is copied.
// CHECK-DAG: #[[A:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d4)>
// CHECK-DAG: #[[C:.+]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d1, d3)>
// CHECK-LABEL: @heads
//   CHECK-NOT: linalg.transpose
//       CHECK: linalg.contract indexing_maps = [#[[A]], #{{.+}}, #[[C]]]
//  CHECK-SAME: -> tensor<2x8x4x8xf32>
//   CHECK-NOT: linalg.transpose
func.func @heads(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x4x16xf32>) -> tensor<2x8x4x8xf32> {
  %s = mpcomm.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> tensor<2x4x8x8xf32>
  %t = mpcomm.transpose %s, dims = [0, 2, 1, 3] : (tensor<2x4x8x8xf32>) -> tensor<2x8x4x8xf32>
  return %t : tensor<2x8x4x8xf32>
}

// -----

// Elementwise work between product and transpose lets it through.
// CHECK-LABEL: @scaled_heads
//   CHECK-NOT: linalg.transpose
//       CHECK: linalg.contract {{.*}} -> tensor<8x2x8xf32>
//       CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<8x2x8xf32>)
//   CHECK-NOT: linalg.transpose
func.func @scaled_heads(%p: tensor<2x8x8xf32>, %v: tensor<2x8x8xf32>) -> tensor<8x2x8xf32> {
  %two = arith.constant dense<2.0> : tensor<2x8x8xf32>
  %s = mpcomm.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %m = arith.divf %s, %two : tensor<2x8x8xf32>
  %t = mpcomm.transpose %m, dims = [1, 0, 2] : (tensor<2x8x8xf32>) -> tensor<8x2x8xf32>
  return %t : tensor<8x2x8xf32>
}

// -----

// So does what repeats a vector along three of the dimensions, whose map turns
// with the transpose: three dimensions in a circle, so that the way back is
// another one.
// CHECK-DAG: #[[ROWS:.+]] = affine_map<(d0, d1, d2, d3) -> (d0)>
// CHECK-LABEL: @cycle_after_elementwise
//   CHECK-NOT: linalg.transpose
//       CHECK: linalg.contract {{.*}} -> tensor<3x4x2x16xf32>
//       CHECK: linalg.generic {indexing_maps = [#{{.+}}, #[[ROWS]], #{{.+}}], {{.*}} ins(%{{.+}}, %arg2 : tensor<3x4x2x16xf32>, tensor<3xf32>)
//   CHECK-NOT: linalg.transpose
func.func @cycle_after_elementwise(%x: tensor<2x3x4x8xf32>, %w: tensor<2x8x16xf32>, %y: tensor<3xf32>) -> tensor<3x4x2x16xf32> {
  %s = mpcomm.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [3] x [1] : (tensor<2x3x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x3x4x16xf32>
  %b = mpcomm.broadcast_in_dim %y, dims = [1] : (tensor<3xf32>) -> tensor<2x3x4x16xf32>
  %m = arith.addf %s, %b : tensor<2x3x4x16xf32>
  %t = mpcomm.transpose %m, dims = [1, 2, 0, 3] : (tensor<2x3x4x16xf32>) -> tensor<3x4x2x16xf32>
  return %t : tensor<3x4x2x16xf32>
}

// -----

// A result whose batch would come last has no contiguous rows: the transpose
// stays.
// CHECK-LABEL: @batch_last
//       CHECK: linalg.contract {{.*}} -> tensor<2x8x8xf32>
//       CHECK: linalg.transpose
func.func @batch_last(%p: tensor<2x8x4xf32>, %v: tensor<2x4x8xf32>) -> tensor<8x8x2xf32> {
  %s = mpcomm.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x8x4xf32>, tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  %t = mpcomm.transpose %s, dims = [1, 2, 0] : (tensor<2x8x8xf32>) -> tensor<8x8x2xf32>
  return %t : tensor<8x8x2xf32>
}

// -----

// The first operand's batch comes last: it is put in order.
// CHECK-LABEL: @operand_in_order
//       CHECK: linalg.transpose ins(%arg0 {{.*}} permutation = [2, 0, 1]
//       CHECK: linalg.contract
func.func @operand_in_order(%a: tensor<3x4x5xf32>, %b: tensor<5x4x2xf32>) -> tensor<5x3x2xf32> {
  %r = mpcomm.dot_general %a, %b, batching_dims = [2] x [0], contracting_dims = [1] x [1] : (tensor<3x4x5xf32>, tensor<5x4x2xf32>) -> tensor<5x3x2xf32>
  return %r : tensor<5x3x2xf32>
}

// -----

// Sums of 16-bit operands are taken in f32 by the product itself, which rounds
// them into its result: no kernel does.
// CHECK-LABEL: @narrow
//       CHECK: %[[SUM:.+]] = linalg.contract {{.*}} tensor<4x4xbf16>) outs(%{{.+}} : tensor<4x4xbf16>)
//  CHECK-NEXT: return %[[SUM]]
func.func @narrow(%a: tensor<4x4xbf16>, %b: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %r = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return %r : tensor<4x4xbf16>
}

// -----

// Without a sum there is no contraction.
// CHECK-LABEL: @outer_product
//   CHECK-NOT: linalg.contract
//       CHECK: arith.mulf
func.func @outer_product(%a: tensor<3xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %r = mpcomm.dot_general %a, %b, contracting_dims = [] x [] : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}
