// A contraction's operand that is a view is copied where no one matrix product
// can read, or write, it as it lies; else it stays where it is.

// RUN: mpcomm-opt %s --mpcomm-bufferize-step --split-input-file | FileCheck %s

// Rows that lie apart, but whose elements are neighbours.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT: memref.copy
// CHECK: %[[A:.*]] = memref.subview {{.*}} to memref<8x4xbf16, strided<[16, 1]>>
// CHECK-NOT: memref.copy
// CHECK: linalg.contract {{.*}} ins(%[[A]], %{{.*}} :
// CHECK-NOT: memref.copy
func.func @rows(%a: tensor<8x16xbf16>, %b: tensor<4x6xbf16>) -> tensor<8x6xbf16> {
  %s = tensor.extract_slice %a[0, 0] [8, 4] [1, 1] : tensor<8x16xbf16> to tensor<8x4xbf16>
  %e = tensor.empty() : tensor<8x6xbf16>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%s, %b : tensor<8x4xbf16>, tensor<4x6xbf16>) outs(%e : tensor<8x6xbf16>) -> tensor<8x6xbf16>
  return %p : tensor<8x6xbf16>
}

// -----

// Two summed dimensions that are one in the whole tensor are two in its slice:
// two products would round in between. The other view can stay.
// CHECK-LABEL: func.func @two_sums(
// CHECK-DAG: %[[A:.*]] = memref.subview {{.*}} to memref<8x2x4xbf16, strided<[16, 8, 1]>>
// CHECK-DAG: %[[B:.*]] = memref.subview {{.*}} to memref<2x4x6xbf16, strided<[40, 10, 1]>>
// CHECK-DAG: %[[PACKED:.*]] = memref.alloc(){{.*}} : memref<8x2x4xbf16>
// CHECK: memref.copy %[[A]], %[[PACKED]]
// CHECK-NOT: memref.copy
// CHECK: linalg.contract {{.*}} ins(%[[PACKED]], %[[B]] :
// CHECK-NOT: memref.copy
func.func @two_sums(%a: tensor<8x2x8xbf16>, %b: tensor<2x4x10xbf16>) -> tensor<8x6xbf16> {
  %s = tensor.extract_slice %a[0, 0, 0] [8, 2, 4] [1, 1, 1] : tensor<8x2x8xbf16> to tensor<8x2x4xbf16>
  %t = tensor.extract_slice %b[0, 0, 0] [2, 4, 6] [1, 1, 1] : tensor<2x4x10xbf16> to tensor<2x4x6xbf16>
  %e = tensor.empty() : tensor<8x6xbf16>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>]
      ins(%s, %t : tensor<8x2x4xbf16>, tensor<2x4x6xbf16>) outs(%e : tensor<8x6xbf16>) -> tensor<8x6xbf16>
  return %p : tensor<8x6xbf16>
}

// -----

// A vector written to a column.
// CHECK-LABEL: func.func @column(
// CHECK: %[[COLUMN:.*]] = memref.subview {{.*}} to memref<3xf32, strided<[2], offset: 1>>
// CHECK: %[[PACKED:.*]] = memref.alloc(){{.*}} : memref<3xf32>
// CHECK: linalg.contract {{.*}} outs(%[[PACKED]] :
// CHECK: memref.copy %[[PACKED]], %[[COLUMN]]
func.func @column(%a: tensor<7xf32>, %b: tensor<7x3xf32>, %h: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %e = tensor.empty() : tensor<3x2xf32>
  %w = linalg.copy ins(%h : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
  %o = tensor.empty() : tensor<3xf32>
  %p = linalg.contract indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (k, n)>, affine_map<(n, k) -> (n)>]
      ins(%a, %b : tensor<7xf32>, tensor<7x3xf32>) outs(%o : tensor<3xf32>) -> tensor<3xf32>
  %r = tensor.insert_slice %p into %w[0, 1] [3, 1] [1, 1] : tensor<3xf32> into tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// -----

// Two products in 32 bits cost less than a copy of what they read.
// CHECK-LABEL: func.func @large(
// CHECK-NOT: memref.copy
// CHECK: linalg.contract
func.func @large(%a: tensor<4096x2x4096xf32>, %b: tensor<2x2048x8xf32>) -> tensor<4096x8xf32> {
  %s = tensor.extract_slice %a[0, 0, 0] [4096, 2, 2048] [1, 1, 1] : tensor<4096x2x4096xf32> to tensor<4096x2x2048xf32>
  %e = tensor.empty() : tensor<4096x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (m, j, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>]
      ins(%s, %b : tensor<4096x2x2048xf32>, tensor<2x2048x8xf32>) outs(%e : tensor<4096x8xf32>) -> tensor<4096x8xf32>
  return %p : tensor<4096x8xf32>
}

// -----

// What has no product is left to who says so.
// CHECK-LABEL: func.func @complex(
// CHECK: linalg.contract
func.func @complex(%a: tensor<8x16xcomplex<f32>>, %b: tensor<4x6xcomplex<f32>>) -> tensor<8x6xcomplex<f32>> {
  %s = tensor.extract_slice %a[0, 0] [8, 4] [1, 2] : tensor<8x16xcomplex<f32>> to tensor<8x4xcomplex<f32>>
  %e = tensor.empty() : tensor<8x6xcomplex<f32>>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%s, %b : tensor<8x4xcomplex<f32>>, tensor<4x6xcomplex<f32>>) outs(%e : tensor<8x6xcomplex<f32>>) -> tensor<8x6xcomplex<f32>>
  return %p : tensor<8x6xcomplex<f32>>
}
