// RUN: mpcomm-opt %s --mpcomm-bufferize-step | FileCheck %s

// Attention reads views of where q, k and v lie side by side, and writes to the
// results' buffers.

// CHECK-LABEL: func.func @f
// CHECK-SAME: (%[[X:.*]]: memref<2x64x3x4x16xbf16>, %[[O:[^:]*]]: memref<2x64x4x16xbf16>, %[[L:[^:]*]]: memref<2x4x64xf32>)
// CHECK-NOT: memref.copy
// CHECK: %[[Q:.*]] = memref.subview %[[X]][0, 0, 0, 0, 0]
// CHECK: %[[K:.*]] = memref.subview %[[X]][0, 0, 1, 0, 0]
// CHECK: mprt.attention "attention" scale = 2.500000e-01 ins(%[[Q]], %[[K]], %[[K]] : memref<2x64x4x16xbf16, strided<[12288, 192, 16, 1]>>, memref<2x64x4x16xbf16, strided<[12288, 192, 16, 1], offset: 64>>, {{.*}}) outs(%[[O]], %[[L]] : memref<2x64x4x16xbf16>, memref<2x4x64xf32>)
// CHECK-NOT: memref.copy
// CHECK: return
func.func @f(%x: tensor<2x64x3x4x16xbf16>) -> (tensor<2x64x4x16xbf16>, tensor<2x4x64xf32>) {
  %q = tensor.extract_slice %x[0, 0, 0, 0, 0] [2, 64, 1, 4, 16] [1, 1, 1, 1, 1] : tensor<2x64x3x4x16xbf16> to tensor<2x64x4x16xbf16>
  %k = tensor.extract_slice %x[0, 0, 1, 0, 0] [2, 64, 1, 4, 16] [1, 1, 1, 1, 1] : tensor<2x64x3x4x16xbf16> to tensor<2x64x4x16xbf16>
  %o = tensor.empty() : tensor<2x64x4x16xbf16>
  %l = tensor.empty() : tensor<2x4x64xf32>
  %r:2 = mprt.attention "attention" scale = 0.25 ins(%q, %k, %k : tensor<2x64x4x16xbf16>, tensor<2x64x4x16xbf16>, tensor<2x64x4x16xbf16>) outs(%o, %l : tensor<2x64x4x16xbf16>, tensor<2x4x64xf32>) -> (tensor<2x64x4x16xbf16>, tensor<2x4x64xf32>)
  return %r#0, %r#1 : tensor<2x64x4x16xbf16>, tensor<2x4x64xf32>
}
