// RUN: mpcomm-opt %s --convert-linalg-to-mprt | FileCheck %s

// Contractions of any dimension order become strided matrix products; what is
// contiguous is merged into one dimension.

// CHECK-LABEL: @plain
// CHECK: mprt.gemm %{{.*}}, %{{.*}}, %{{.*}} m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
// CHECK-NOT: accumulate
func.func @plain(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {mprt.overwrite}
      ins(%a, %b : memref<8x4xf32>, memref<4x16xf32>) outs(%c : memref<8x16xf32>)
  return
}

// Without mprt.overwrite the product adds to C.
// CHECK-LABEL: @accumulate
// CHECK: -> [] accumulate
func.func @accumulate(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<8x4xf32>, memref<4x16xf32>) outs(%c : memref<8x16xf32>)
  return
}

// A weight gradient contracts batch and time, which are one dimension of 24.
// CHECK-LABEL: @weight_gradient
// CHECK: m = 4 n = 16 k = 24 strides [1, 4] x [16, 1] -> [16, 1] batch []
func.func @weight_gradient(%x: memref<3x8x4xf32>, %dy: memref<3x8x16xf32>, %dw: memref<4x16xf32>) {
  linalg.contract indexing_maps = [affine_map<(b, t, m, n) -> (b, t, m)>, affine_map<(b, t, m, n) -> (b, t, n)>, affine_map<(b, t, m, n) -> (m, n)>] {mprt.overwrite}
      ins(%x, %dy : memref<3x8x4xf32>, memref<3x8x16xf32>) outs(%dw : memref<4x16xf32>)
  return
}

// Heads of attention, read where the projection left them: q, k: [b, t, h, d].
// CHECK-LABEL: @attention
// CHECK: m = 8 n = 8 k = 4 strides [8, 1] x [1, 8] -> [8, 1] batch [3, 2] strides [64, 4] x [64, 4] -> [128, 64]
func.func @attention(%q: memref<3x8x2x4xf32>, %k: memref<3x8x2x4xf32>, %s: memref<3x2x8x8xf32>) {
  linalg.contract indexing_maps = [affine_map<(b, h, t, u, d) -> (b, t, h, d)>, affine_map<(b, h, t, u, d) -> (b, u, h, d)>, affine_map<(b, h, t, u, d) -> (b, h, t, u)>] {mprt.overwrite}
      ins(%q, %k : memref<3x8x2x4xf32>, memref<3x8x2x4xf32>) outs(%s : memref<3x2x8x8xf32>)
  return
}

// C has its unit stride along M: the transposed product is computed.
// CHECK-LABEL: @transposed_result
// CHECK-SAME: (%[[A:.*]]: memref<8x4xf32>, %[[B:.*]]: memref<4x16xf32>, %[[C:.*]]: memref<16x8xf32>)
// CHECK: mprt.gemm %[[B]], %[[A]], %[[C]] m = 16 n = 8 k = 4 strides [1, 16] x [1, 4] -> [8, 1]
func.func @transposed_result(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<16x8xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (n, m)>] {mprt.overwrite}
      ins(%a, %b : memref<8x4xf32>, memref<4x16xf32>) outs(%c : memref<16x8xf32>)
  return
}

// Two sums that are not one range: two products, the second adds.
// CHECK-LABEL: @split_sum
// CHECK-COUNT-1: m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] :
// CHECK-COUNT-1: m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] accumulate
// CHECK-NOT: mprt.gemm
func.func @split_sum(%a: memref<2x8x4xf32>, %b: memref<2x4x16xf32>, %c: memref<8x16xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, j, k) -> (j, m, k)>, affine_map<(m, n, j, k) -> (j, k, n)>, affine_map<(m, n, j, k) -> (m, n)>] {mprt.overwrite}
      ins(%a, %b : memref<2x8x4xf32>, memref<2x4x16xf32>) outs(%c : memref<8x16xf32>)
  return
}

// An empty sum is zero.
// CHECK-LABEL: @empty_sum
// CHECK: mprt.zero
// CHECK-NOT: mprt.gemm
func.func @empty_sum(%a: memref<8x0xf32>, %b: memref<0x16xf32>, %c: memref<8x16xf32>) {
  linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {mprt.overwrite}
      ins(%a, %b : memref<8x0xf32>, memref<0x16xf32>) outs(%c : memref<8x16xf32>)
  return
}

// CHECK-LABEL: @copies
// CHECK: mprt.copy
// CHECK: mprt.zero
// CHECK: mprt.launch @copy ins(%{{.*}} : memref<4x4xf32, strided<[8, 1]>>) outs(%{{.*}} : memref<4x4xf32>)
func.func @copies(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4x4xf32>) {
  %z = arith.constant 0.0 : f32
  memref.copy %a, %b : memref<4x8xf32> to memref<4x8xf32>
  linalg.fill ins(%z : f32) outs(%a : memref<4x8xf32>)
  %v = memref.subview %a[0, 0] [4, 4] [1, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  memref.copy %v, %c : memref<4x4xf32, strided<[8, 1]>> to memref<4x4xf32>
  return
}
// CHECK: func.func private @copy(%{{.*}}: tensor<4x4xf32>, %{{.*}}: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {mpcomm.kernel}
