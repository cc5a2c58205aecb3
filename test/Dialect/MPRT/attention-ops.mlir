// mprt.attention: what is printed is what was parsed.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func @tensors(
func.func @tensors(%q: tensor<2x37x3x48xbf16>, %k: tensor<2x50x3x48xbf16>, %l: tensor<2x3x37xf32>) {
  // CHECK: mprt.attention "attention" scale = 1.250000e-01 ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x37x3x48xbf16>, tensor<2x50x3x48xbf16>, tensor<2x50x3x48xbf16>) outs(%{{.*}}, %{{.*}} : tensor<2x37x3x48xbf16>, tensor<2x3x37xf32>) -> (tensor<2x37x3x48xbf16>, tensor<2x3x37xf32>)
  %r:2 = mprt.attention "attention" scale = 1.25e-01 ins(%q, %k, %k : tensor<2x37x3x48xbf16>, tensor<2x50x3x48xbf16>, tensor<2x50x3x48xbf16>) outs(%q, %l : tensor<2x37x3x48xbf16>, tensor<2x3x37xf32>) -> (tensor<2x37x3x48xbf16>, tensor<2x3x37xf32>)
  return
}

// CHECK-LABEL: func.func @buffers(
func.func @buffers(%qkv: memref<2x64x192xf16>, %o: memref<2x64x4x16xf16>, %l: memref<2x4x64xf32>, %m: memref<64x64xi1>) {
  %e = memref.expand_shape %qkv [[0], [1], [2, 3, 4]] output_shape [2, 64, 3, 4, 16] : memref<2x64x192xf16> into memref<2x64x3x4x16xf16>
  %q = memref.subview %e[0, 0, 0, 0, 0] [2, 64, 1, 4, 16] [1, 1, 1, 1, 1] : memref<2x64x3x4x16xf16> to memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>
  // CHECK: mprt.attention "attention" scale = 2.500000e-01 ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<64x64xi1>) outs(%{{.*}}, %{{.*}} : memref<2x64x4x16xf16>, memref<2x4x64xf32>)
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %m : memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<2x64x4x16xf16, strided<[12288, 192, 16, 1]>>, memref<64x64xi1>) outs(%o, %l : memref<2x64x4x16xf16>, memref<2x4x64xf32>)
  return
}

// CHECK-LABEL: func.func @grad(
func.func @grad(%q: memref<1x5x1x128xbf16>, %k: memref<1x7x1x128xbf16>, %l: memref<1x1x5xf32>, %m: memref<5x7xi1>) {
  // CHECK: mprt.attention "attention_grad" scale = -1.000000e+00 ins(%{{[^:]*}} : memref<1x5x1x128xbf16>, memref<1x5x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x5x1x128xbf16>, memref<1x1x5xf32>, memref<5x7xi1>) outs(%{{[^:]*}} : memref<1x5x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x7x1x128xbf16>)
  mprt.attention "attention_grad" scale = -1.0 ins(%q, %q, %k, %k, %q, %l, %m : memref<1x5x1x128xbf16>, memref<1x5x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x5x1x128xbf16>, memref<1x1x5xf32>, memref<5x7xi1>) outs(%q, %k, %k : memref<1x5x1x128xbf16>, memref<1x7x1x128xbf16>, memref<1x7x1x128xbf16>)
  return
}

// A bias with a mask and without one.
// CHECK-LABEL: func.func @bias(
func.func @bias(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %m: memref<8x9xi1>, %b: memref<1x3x1x9xf16>) {
  // CHECK: mprt.attention "attention" scale = 2.500000e-01 safe ins(%{{.*}} : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x1x9xf16>) outs(%{{.*}} : memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>)
  mprt.attention "attention" scale = 0.25 safe ins(%q, %k, %k, %b : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x1x9xf16>) outs(%q, %l : memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>)
  // CHECK: mprt.attention "attention_grad" scale = 2.500000e-01 ins({{.*}} memref<2x3x8x2xf32>, memref<8x9xi1>, memref<1x3x1x9xf16>) outs(
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %m, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<8x9xi1>, memref<1x3x1x9xf16>) outs(%q, %k, %k : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>)
  return
}

// The gradient of a bias, which is the same for all batches, into a part of a
// larger buffer.
// CHECK-LABEL: func.func @bias_grad(
func.func @bias_grad(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %b: memref<1x3x8x9xbf16>, %d: memref<1x3x8x9xf32, strided<[240, 80, 10, 1]>>) {
  // CHECK: mprt.attention "attention_grad" scale = 2.500000e-01 ins({{.*}} memref<1x3x8x9xbf16>) outs({{.*}} memref<1x3x8x9xf32, strided<[240, 80, 10, 1]>>)
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<1x3x8x9xbf16>) outs(%q, %k, %k, %d : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x8x9xf32, strided<[240, 80, 10, 1]>>)
  return
}
