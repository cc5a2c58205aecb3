// Folders and canonicalisations: what moves no data or moves it twice.

// RUN: mpcomm-opt %s --canonicalize --cse --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @transpose_identity
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>
func.func @transpose_identity(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = mpcomm.transpose %x, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: return %[[X]]
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @transpose_of_transpose(%x: tensor<2x3x4xf32>) -> tensor<3x2x4xf32> {
  %0 = mpcomm.transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = mpcomm.transpose %0, dims = [2, 1, 0] : (tensor<4x2x3xf32>) -> tensor<3x2x4xf32>
  // CHECK: %[[R:.*]] = mpcomm.transpose %[[X]], dims = [1, 0, 2]
  // CHECK: return %[[R]]
  return %1 : tensor<3x2x4xf32>
}

// CHECK-LABEL: func.func @transpose_back
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
func.func @transpose_back(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = mpcomm.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = mpcomm.transpose %0, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // CHECK: return %[[X]]
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshape_of_reshape
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @reshape_of_reshape(%x: tensor<2x3x4xf32>) -> (tensor<6x4xf32>, tensor<2x3x4xf32>) {
  %0 = mpcomm.reshape %x : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %1 = mpcomm.reshape %0 : (tensor<24xf32>) -> tensor<6x4xf32>
  %2 = mpcomm.reshape %0 : (tensor<24xf32>) -> tensor<2x3x4xf32>
  // CHECK: %[[R:.*]] = mpcomm.reshape %[[X]] : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  // CHECK: return %[[R]], %[[X]]
  return %1, %2 : tensor<6x4xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @broadcast_of_broadcast
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
func.func @broadcast_of_broadcast(%x: tensor<4xf32>) -> tensor<2x8x4xf32> {
  %0 = mpcomm.broadcast_in_dim %x, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %1 = mpcomm.broadcast_in_dim %0, dims = [1, 2] : (tensor<8x4xf32>) -> tensor<2x8x4xf32>
  // CHECK: %[[R:.*]] = mpcomm.broadcast_in_dim %[[X]], dims = [2] : (tensor<4xf32>) -> tensor<2x8x4xf32>
  // CHECK: return %[[R]]
  return %1 : tensor<2x8x4xf32>
}

// A unit dimension that the second broadcast expands is expanded in one step.
// CHECK-LABEL: func.func @broadcast_of_unit_dim
// CHECK-SAME: %[[X:.*]]: tensor<1xf32>
func.func @broadcast_of_unit_dim(%x: tensor<1xf32>) -> tensor<5x3xf32> {
  %0 = mpcomm.broadcast_in_dim %x, dims = [1] : (tensor<1xf32>) -> tensor<5x1xf32>
  %1 = mpcomm.broadcast_in_dim %0, dims = [0, 1] : (tensor<5x1xf32>) -> tensor<5x3xf32>
  // CHECK: %[[R:.*]] = mpcomm.broadcast_in_dim %[[X]], dims = [1] : (tensor<1xf32>) -> tensor<5x3xf32>
  // CHECK: return %[[R]]
  return %1 : tensor<5x3xf32>
}

// CHECK-LABEL: func.func @splats
func.func @splats() -> (tensor<4x8xf32>, tensor<2xf32>, tensor<16x2xf32>, tensor<3x4x8xf32>) {
  %c = arith.constant dense<2.5> : tensor<4x8xf32>
  %0 = mpcomm.transpose %c, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = mpcomm.transpose %0, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = mpcomm.slice %c, starts = [1, 0], limits = [2, 2], strides = [1, 1] : (tensor<4x8xf32>) -> tensor<1x2xf32>
  %3 = mpcomm.reshape %2 : (tensor<1x2xf32>) -> tensor<2xf32>
  %4 = mpcomm.reshape %c : (tensor<4x8xf32>) -> tensor<16x2xf32>
  %5 = mpcomm.broadcast_in_dim %c, dims = [1, 2] : (tensor<4x8xf32>) -> tensor<3x4x8xf32>
  // CHECK-NOT: mpcomm.
  // CHECK-DAG: arith.constant dense<2.500000e+00> : tensor<4x8xf32>
  // CHECK-DAG: arith.constant dense<2.500000e+00> : tensor<2xf32>
  // CHECK-DAG: arith.constant dense<2.500000e+00> : tensor<16x2xf32>
  // CHECK-DAG: arith.constant dense<2.500000e+00> : tensor<3x4x8xf32>
  return %1, %3, %4, %5 : tensor<4x8xf32>, tensor<2xf32>, tensor<16x2xf32>, tensor<3x4x8xf32>
}

// CHECK-LABEL: func.func @reshape_of_constant
func.func @reshape_of_constant() -> tensor<2x2xi64> {
  %c = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  // CHECK{LITERAL}: arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %0 = mpcomm.reshape %c : (tensor<4xi64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}

// CHECK-LABEL: func.func @nothing_to_do
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>, %[[V:.*]]: tensor<f32>
func.func @nothing_to_do(%x: tensor<8x4xf32>, %v: tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = mpcomm.slice %x, starts = [0, 0], limits = [8, 4], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = mpcomm.concatenate %x, dim = 1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = mpcomm.pad %x, %v, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %3 = mpcomm.reduce sum %x, dims = [] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = mpcomm.broadcast_in_dim %x, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
  return %0, %1, %2, %3, %4 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @reverse
// CHECK-SAME: %[[X:.*]]: tensor<8x1xf32>
func.func @reverse(%x: tensor<8x1xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) {
  %c = arith.constant dense<1.0> : tensor<8x1xf32>
  // CHECK-DAG: %[[C:.*]] = arith.constant
  // CHECK-DAG: %[[R:.*]] = mpcomm.reverse %[[X]], dims = [0]
  %0 = mpcomm.reverse %x, dims = [1] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %1 = mpcomm.reverse %x, dims = [0] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %2 = mpcomm.reverse %1, dims = [0] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %3 = mpcomm.reverse %c, dims = [0] : (tensor<8x1xf32>) -> tensor<8x1xf32>
  // CHECK: return %[[X]], %[[R]], %[[X]], %[[C]]
  return %0, %1, %2, %3 : tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>
}

// Keeps what does something: a stride, a gap.
// CHECK-LABEL: func.func @something_to_do
func.func @something_to_do(%x: tensor<8xf32>, %v: tensor<f32>) -> (tensor<4xf32>, tensor<15xf32>) {
  // CHECK: mpcomm.slice
  %0 = mpcomm.slice %x, starts = [0], limits = [8], strides = [2] : (tensor<8xf32>) -> tensor<4xf32>
  // CHECK: mpcomm.pad
  %1 = mpcomm.pad %x, %v, low = [0], high = [0], interior = [1] : (tensor<8xf32>, tensor<f32>) -> tensor<15xf32>
  return %0, %1 : tensor<4xf32>, tensor<15xf32>
}

// A contraction reads a transposed matrix as it is.
// CHECK-LABEL: func.func @dot_of_transpose
// CHECK-SAME: %[[X:.*]]: tensor<64x8xf32>, %[[W:.*]]: tensor<10x64xf32>
func.func @dot_of_transpose(%x: tensor<64x8xf32>, %w: tensor<10x64xf32>) -> tensor<8x10xf32> {
  %xt = mpcomm.transpose %x, dims = [1, 0] : (tensor<64x8xf32>) -> tensor<8x64xf32>
  %wt = mpcomm.transpose %w, dims = [1, 0] : (tensor<10x64xf32>) -> tensor<64x10xf32>
  // CHECK: %[[R:.*]] = mpcomm.dot_general %[[X]], %[[W]], contracting_dims = [0] x [1]
  // CHECK: return %[[R]]
  %0 = mpcomm.dot_general %xt, %wt, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x10xf32>) -> tensor<8x10xf32>
  return %0 : tensor<8x10xf32>
}

// Not where the free dimensions would change their order.
// CHECK-LABEL: func.func @dot_of_free_transpose
func.func @dot_of_free_transpose(%x: tensor<3x8x4xf32>, %w: tensor<4x10xf32>) -> tensor<8x3x10xf32> {
  // CHECK: mpcomm.transpose
  %xt = mpcomm.transpose %x, dims = [1, 0, 2] : (tensor<3x8x4xf32>) -> tensor<8x3x4xf32>
  // CHECK: mpcomm.dot_general
  %0 = mpcomm.dot_general %xt, %w, contracting_dims = [2] x [0] : (tensor<8x3x4xf32>, tensor<4x10xf32>) -> tensor<8x3x10xf32>
  return %0 : tensor<8x3x10xf32>
}

// A gather of evenly spaced slices is a slice; one of the whole dimension is nothing.
// CHECK-LABEL: func.func @gather_of_ranges
func.func @gather_of_ranges(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<3x4xf32>, tensor<8x2xf32>, tensor<4xf32>) {
  %all = mpcomm.iota dim = 0 : tensor<8xi64>
  %some = arith.constant dense<[1, 4, 7]> : tensor<3xi64>
  %two = mpcomm.iota dim = 0 : tensor<2xi32>
  %one = arith.constant dense<3> : tensor<i64>
  %0 = mpcomm.gather %x, %all : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  // CHECK-DAG: %[[SOME:.*]] = mpcomm.slice %arg0, starts = [1, 0], limits = [8, 4], strides = [3, 1]
  %1 = mpcomm.gather %x, %some : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  // CHECK-DAG: %[[TWO:.*]] = mpcomm.slice %arg0, starts = [0, 0], limits = [8, 2], strides = [1, 1]
  %2 = mpcomm.gather %x, %two dim = 1 : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<8x2xf32>
  // CHECK-DAG: %[[SLICE:.*]] = mpcomm.slice %arg0, starts = [3, 0], limits = [4, 4], strides = [1, 1]
  // CHECK-DAG: %[[ONE:.*]] = mpcomm.reshape %[[SLICE]]
  %3 = mpcomm.gather %x, %one : (tensor<8x4xf32>, tensor<i64>) -> tensor<4xf32>
  // CHECK: return %arg0, %[[SOME]], %[[TWO]], %[[ONE]]
  return %0, %1, %2, %3 : tensor<8x4xf32>, tensor<3x4xf32>, tensor<8x2xf32>, tensor<4xf32>
}

// -----

// Indices that are clamped, and those that are shared, are no range.
// CHECK-LABEL: func.func @gather_of_other_indices
func.func @gather_of_other_indices(%x: tensor<8x4xf32>) -> (tensor<9x4xf32>, tensor<2x4xf32>, tensor<8x8xf32>) {
  // CHECK-COUNT-3: mpcomm.gather
  %all = mpcomm.iota dim = 0 : tensor<9xi64>
  %some = arith.constant dense<[-1, 0]> : tensor<2xi64>
  %each = mpcomm.iota dim = 1 : tensor<8x8xi64>
  %0 = mpcomm.gather %x, %all : (tensor<8x4xf32>, tensor<9xi64>) -> tensor<9x4xf32>
  %1 = mpcomm.gather %x, %some : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %2 = mpcomm.gather %x, %each dim = 1 batch_dims = 1 : (tensor<8x4xf32>, tensor<8x8xi64>) -> tensor<8x8xf32>
  return %0, %1, %2 : tensor<9x4xf32>, tensor<2x4xf32>, tensor<8x8xf32>
}

// -----

// CHECK-LABEL: func.func @gather_of_splat
func.func @gather_of_splat(%i: tensor<3xi64>, %x: tensor<8x4xf32>, %none: tensor<0xi64>, %u: tensor<0x4xf32>) -> (tensor<3x4xi1>, tensor<8x4xf32>) {
  // CHECK: %[[SPLAT:.*]] = arith.constant dense<true> : tensor<3x4xi1>
  // CHECK: return %[[SPLAT]], %arg1
  %splat = arith.constant dense<true> : tensor<8x4xi1>
  %0 = mpcomm.gather %splat, %i : (tensor<8x4xi1>, tensor<3xi64>) -> tensor<3x4xi1>
  %1 = mpcomm.scatter %x, %none, %u reduction sum : (tensor<8x4xf32>, tensor<0xi64>, tensor<0x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<3x4xi1>, tensor<8x4xf32>
}

// -----

// CHECK-LABEL: func.func @unused
func.func @unused(%x: tensor<8x4xf32>) {
  // CHECK-NEXT: return
  %0 = mpcomm.softmax %x, dim = 1 : tensor<8x4xf32>
  %1 = mpcomm.gelu %0 : tensor<8x4xf32>
  return
}

// -----

// Generic passes neither drop nor merge nor reorder collectives.
mpcomm.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: func.func @collectives_stay
func.func @collectives_stay(%x: tensor<4xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] sum
  // CHECK-NEXT: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] sum
  // CHECK-NEXT: mpcomm.barrier
  // CHECK-NEXT: return
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %1 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  return
}

// -----

// In a module's body values may depend on themselves; folding ends all the same.
// CHECK-LABEL: module @cycles
module @cycles {
  %0 = mpcomm.reshape %2 : (tensor<4xf32>) -> tensor<4x1xf32>
  %1 = mpcomm.reshape %0 : (tensor<4x1xf32>) -> tensor<2x2xf32>
  %2 = mpcomm.reshape %1 : (tensor<2x2xf32>) -> tensor<4xf32>
  %3 = mpcomm.transpose %4, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = mpcomm.transpose %3, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = mpcomm.broadcast_in_dim %5, dims = [0] : (tensor<1xf32>) -> tensor<1xf32>
  %6 = mpcomm.reduce sum %6, dims = [] : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: func.func private @end
  func.func private @end()
}
