// Convolutions, pools and batch norms: what is printed is what was parsed.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func @convolution
func.func @convolution(%x: tensor<8x6x9x8xf32>, %w: tensor<4x3x3x2xf32>, %dy: tensor<8x4x5x8xf32>) {
  // CHECK: mpcomm.convolution %{{.*}}, %{{.*}}, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<8x4x5x8xf32>
  %y = mpcomm.convolution %x, %w, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x6x9x8xf32>, tensor<4x3x3x2xf32>) -> tensor<8x4x5x8xf32>
  // CHECK: mpcomm.convolution_input_grad %{{.*}}, %{{.*}}, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x4x5x8xf32>, tensor<4x3x3x2xf32>) -> tensor<8x6x9x8xf32>
  %dx = mpcomm.convolution_input_grad %dy, %w, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x4x5x8xf32>, tensor<4x3x3x2xf32>) -> tensor<8x6x9x8xf32>
  // CHECK: mpcomm.convolution_filter_grad %{{.*}}, %{{.*}}, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x4x5x8xf32>, tensor<8x6x9x8xf32>) -> tensor<4x3x3x2xf32>
  %dw = mpcomm.convolution_filter_grad %dy, %x, strides = [2, 1], low = [1, 1], high = [1, 1], dilation = [1, 2], groups = 2 : (tensor<8x4x5x8xf32>, tensor<8x6x9x8xf32>) -> tensor<4x3x3x2xf32>
  return
}

// An empty batch, and paddings that differ.
// CHECK-LABEL: func.func @channels_last
func.func @channels_last(%x: tensor<0x9x8x6xbf16>, %w: tensor<4x6x3x3xbf16>) {
  // CHECK: mpcomm.convolution %{{.*}}, %{{.*}}, strides = [1, 1], low = [2, 0], high = [0, 1], dilation = [1, 1], groups = 1 {channels_last} : (tensor<0x9x8x6xbf16>, tensor<4x6x3x3xbf16>) -> tensor<0x9x7x4xbf16>
  %y = mpcomm.convolution %x, %w, strides = [1, 1], low = [2, 0], high = [0, 1], dilation = [1, 1], groups = 1 {channels_last} : (tensor<0x9x8x6xbf16>, tensor<4x6x3x3xbf16>) -> tensor<0x9x7x4xbf16>
  return
}

// CHECK-LABEL: func.func @pools
func.func @pools(%x: tensor<8x16x32x32xf32>, %l: tensor<8x32x32x16xf32>, %dy: tensor<8x16x16x16xf32>) {
  // CHECK: mpcomm.max_pool %{{.*}}, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
  %0 = mpcomm.max_pool %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
  // CHECK: mpcomm.max_pool %{{.*}}, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {channels_last} : (tensor<8x32x32x16xf32>) -> tensor<8x16x16x16xf32>
  %1 = mpcomm.max_pool %l, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {channels_last} : (tensor<8x32x32x16xf32>) -> tensor<8x16x16x16xf32>
  // CHECK: mpcomm.max_pool_grad %{{.*}}, %{{.*}}, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x16x32x32xf32>) -> tensor<8x16x32x32xf32>
  %2 = mpcomm.max_pool_grad %dy, %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x16x32x32xf32>) -> tensor<8x16x32x32xf32>
  // CHECK: mpcomm.avg_pool %{{.*}}, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {count_padding} : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
  %3 = mpcomm.avg_pool %x, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {count_padding} : (tensor<8x16x32x32xf32>) -> tensor<8x16x16x16xf32>
  // CHECK: mpcomm.avg_pool_grad %{{.*}}, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<8x16x16x16xf32>) -> tensor<8x16x32x32xf32>
  %4 = mpcomm.avg_pool_grad %dy, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<8x16x16x16xf32>) -> tensor<8x16x32x32xf32>
  return
}

// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<8x64x4x4xbf16>, %f: tensor<64xf32>) {
  // CHECK: mpcomm.batch_norm_training %{{.*}}, %{{.*}}, %{{.*}}, eps = 1.000000e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>)
  %y, %mean, %variance = mpcomm.batch_norm_training %x, %f, %f, eps = 1.0e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>)
  // CHECK: mpcomm.batch_norm_inference %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, eps = 1.000000e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x64x4x4xbf16>
  %0 = mpcomm.batch_norm_inference %x, %f, %f, %mean, %variance, eps = 1.0e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x64x4x4xbf16>
  // CHECK: mpcomm.batch_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, eps = 1.000000e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>)
  %1:3 = mpcomm.batch_norm_grad %y, %x, %f, %mean, %variance, eps = 1.0e-05, feature_dim = 1 : (tensor<8x64x4x4xbf16>, tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64x4x4xbf16>, tensor<64xf32>, tensor<64xf32>)
  return
}
