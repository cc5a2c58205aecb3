// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels | FileCheck %s
//
// What products read from 8 bits lives in 8 bits from one product to the next but
// one: the kernel that makes it widens it for the first, and it is widened again,
// after what lies between, for those that follow. Neighbours share a widening.

// CHECK-LABEL: func.func @forward_and_backward
//       CHECK: %[[A:.+]]:2 = mprt.launch @kernel_exp{{.*}} outs(%{{.+}}, %{{.+}} : tensor<8x8xf8E4M3FN>, tensor<8x8xbf16>)
//       CHECK: %[[P:.+]] = linalg.contract {{.*}} ins(%[[A]]#1, %[[A]]#1
//       CHECK: %[[Q:.+]] = linalg.contract {{.*}} ins(%[[P]], %[[P]]
//       CHECK: %[[B:.+]] = mprt.launch @kernel_extf{{.*}} ins(%[[A]]#0 : tensor<8x8xf8E4M3FN>) outs(%{{.+}} : tensor<8x8xbf16>)
//       CHECK: %[[R:.+]] = linalg.contract {{.*}} ins(%[[B]], %[[Q]]
//       CHECK: linalg.contract {{.*}} ins(%[[R]], %[[B]]
//   CHECK-NOT: mprt.launch
func.func @forward_and_backward(%x: tensor<8x8xf32>) -> tensor<8x8xbf16> {
  %a = math.exp %x : tensor<8x8xf32>
  %s = arith.truncf %a : tensor<8x8xf32> to tensor<8x8xf8E4M3FN>
  %w = arith.extf %s : tensor<8x8xf8E4M3FN> to tensor<8x8xbf16>
  %p = mpcomm.dot_general %w, %w, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %q = mpcomm.dot_general %p, %p, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %v = arith.extf %s : tensor<8x8xf8E4M3FN> to tensor<8x8xbf16>
  %r = mpcomm.dot_general %v, %q, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %t = mpcomm.dot_general %r, %v, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %t : tensor<8x8xbf16>
}

// Convolutions are products.
// CHECK-LABEL: func.func @convolutions
//       CHECK: %[[A:.+]]:2 = mprt.launch @kernel_exp{{.*}} outs(%{{.+}}, %{{.+}} : tensor<2x4x4x8xf8E4M3FN>, tensor<2x4x4x8xbf16>)
//       CHECK: mprt.convolution "convolution" {{.*}} ins(%[[A]]#1,
//       CHECK: mprt.convolution "convolution"
//       CHECK: %[[B:.+]] = mprt.launch @kernel_extf{{.*}} ins(%[[A]]#0
//       CHECK: mprt.convolution "convolution_filter_grad" {{.*}} ins(%{{.+}}, %[[B]] :
//   CHECK-NOT: mprt.launch
func.func @convolutions(%x: tensor<2x4x4x8xf32>, %w: tensor<8x8x1x1xbf16>) -> tensor<8x8x1x1xbf16> {
  %a = math.exp %x : tensor<2x4x4x8xf32>
  %s = arith.truncf %a : tensor<2x4x4x8xf32> to tensor<2x4x4x8xf8E4M3FN>
  %v = arith.extf %s : tensor<2x4x4x8xf8E4M3FN> to tensor<2x4x4x8xbf16>
  %y = mpcomm.convolution %v, %w, strides = [2, 2], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x4x4x8xbf16>, tensor<8x8x1x1xbf16>) -> tensor<2x2x2x8xbf16>
  %z = mpcomm.convolution %y, %w, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x2x2x8xbf16>, tensor<8x8x1x1xbf16>) -> tensor<2x2x2x8xbf16>
  %g = mpcomm.convolution_filter_grad %z, %v, strides = [2, 2], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x2x2x8xbf16>, tensor<2x4x4x8xbf16>) -> tensor<8x8x1x1xbf16>
  return %g : tensor<8x8x1x1xbf16>
}
