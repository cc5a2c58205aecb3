// mprt.convolution and mprt.pool: what is printed is what was parsed.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func @tensors(
func.func @tensors(%a: tensor<2x3x8x8xf32>, %b: tensor<4x3x3x3xf32>, %c: tensor<2x4x6x6xf32>) {
  // CHECK: mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%{{.*}}, %{{.*}} : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%{{.*}} : tensor<2x4x6x6xf32>) -> (tensor<2x4x6x6xf32>)
  %r = mprt.convolution "convolution" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%c : tensor<2x4x6x6xf32>) -> (tensor<2x4x6x6xf32>)
  return
}

// CHECK-LABEL: func.func @buffers(
func.func @buffers(%a: memref<2x6x6x4xbf16>, %b: memref<2x8x8x3xbf16>, %c: memref<4x3x3x3xbf16>) {
  // CHECK: mprt.convolution "convolution_filter_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 channels_last ins(%{{.*}}, %{{.*}} : memref<2x6x6x4xbf16>, memref<2x8x8x3xbf16>) outs(%{{.*}} : memref<4x3x3x3xbf16>)
  mprt.convolution "convolution_filter_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 channels_last ins(%a, %b : memref<2x6x6x4xbf16>, memref<2x8x8x3xbf16>) outs(%c : memref<4x3x3x3xbf16>)
  return
}

// CHECK-LABEL: func.func @grad(
func.func @grad(%a: memref<2x4x6x6xf32>, %b: memref<4x3x3x3xf32>, %c: memref<2x3x8x8xf32>) {
  // CHECK: mprt.convolution "convolution_input_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%{{.*}}, %{{.*}} : memref<2x4x6x6xf32>, memref<4x3x3x3xf32>) outs(%{{.*}} : memref<2x3x8x8xf32>)
  mprt.convolution "convolution_input_grad" strides = [1, 1] low = [0, 0] high = [0, 0] dilation = [1, 1] groups = 1 ins(%a, %b : memref<2x4x6x6xf32>, memref<4x3x3x3xf32>) outs(%c : memref<2x3x8x8xf32>)
  return
}

// CHECK-LABEL: func.func @max(
func.func @max(%a: memref<2x3x3x3xf32>, %b: memref<2x3x8x8xf32>, %c: memref<2x3x8x8xf32>) {
  // CHECK: mprt.pool "max_pool_grad" window = [3, 3] strides = [2, 2] low = [0, 0] high = [0, 0] ins(%{{.*}}, %{{.*}} : memref<2x3x3x3xf32>, memref<2x3x8x8xf32>) outs(%{{.*}} : memref<2x3x8x8xf32>)
  mprt.pool "max_pool_grad" window = [3, 3] strides = [2, 2] low = [0, 0] high = [0, 0] ins(%a, %b : memref<2x3x3x3xf32>, memref<2x3x8x8xf32>) outs(%c : memref<2x3x8x8xf32>)
  return
}

// CHECK-LABEL: func.func @avg(
func.func @avg(%a: memref<2x3x8x8xf32>, %b: memref<2x3x4x4xf32>) {
  // CHECK: mprt.pool "avg_pool" window = [3, 3] strides = [2, 2] low = [1, 1] high = [1, 1] count_padding ins(%{{.*}} : memref<2x3x8x8xf32>) outs(%{{.*}} : memref<2x3x4x4xf32>)
  mprt.pool "avg_pool" window = [3, 3] strides = [2, 2] low = [1, 1] high = [1, 1] count_padding ins(%a : memref<2x3x8x8xf32>) outs(%b : memref<2x3x4x4xf32>)
  return
}

// CHECK-LABEL: func.func @avg_grad(
func.func @avg_grad(%a: memref<2x3x3x3xf32, strided<[64, 9, 3, 1], offset: 5>>, %b: memref<2x3x8x8xf32>) {
  // CHECK: mprt.pool "avg_pool_grad" window = [3, 3] strides = [2, 2] low = [0, 0] high = [0, 0] ins(%{{.*}} : memref<2x3x3x3xf32, strided<[64, 9, 3, 1], offset: 5>>) outs(%{{.*}} : memref<2x3x8x8xf32>)
  mprt.pool "avg_pool_grad" window = [3, 3] strides = [2, 2] low = [0, 0] high = [0, 0] ins(%a : memref<2x3x3x3xf32, strided<[64, 9, 3, 1], offset: 5>>) outs(%b : memref<2x3x8x8xf32>)
  return
}
