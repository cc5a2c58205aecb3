// Convolutions and pools become calls in destination style; a batch norm
// generics, over [outer, features] where the features come last.

// RUN: mpcomm-opt %s --split-input-file --convert-mpcomm-to-linalg | FileCheck %s

// CHECK-LABEL: func.func @convolution(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x9x8xbf16>, %[[W:.*]]: tensor<4x2x3x3xbf16>)
// CHECK: %[[INIT:.*]] = tensor.empty() : tensor<2x4x5x8xbf16>
// CHECK: %[[Y:.*]] = mprt.convolution "convolution" strides = [2, 1] low = [1, 0] high = [1, 2] dilation = [1, 1] groups = 2 ins(%[[X]], %[[W]] : tensor<2x4x9x8xbf16>, tensor<4x2x3x3xbf16>) outs(%[[INIT]] : tensor<2x4x5x8xbf16>) -> (tensor<2x4x5x8xbf16>)
// CHECK: return %[[Y]]
func.func @convolution(%x: tensor<2x4x9x8xbf16>, %w: tensor<4x2x3x3xbf16>) -> tensor<2x4x5x8xbf16> {
  %y = mpcomm.convolution %x, %w, strides = [2, 1], low = [1, 0], high = [1, 2], dilation = [1, 1], groups = 2 : (tensor<2x4x9x8xbf16>, tensor<4x2x3x3xbf16>) -> tensor<2x4x5x8xbf16>
  return %y : tensor<2x4x5x8xbf16>
}

// -----

// The window of a filter's gradient is that of the result.
// CHECK-LABEL: func.func @gradients(
// CHECK: mprt.convolution "convolution_input_grad" {{.*}} channels_last ins(%{{.*}} : tensor<2x6x7x4xf32>, tensor<4x3x3x2xf32>) outs(%{{.*}} : tensor<2x8x8x3xf32>)
// CHECK: mprt.convolution "convolution_filter_grad" {{.*}} channels_last ins(%{{.*}} : tensor<2x6x7x4xf32>, tensor<2x8x8x3xf32>) outs(%{{.*}} : tensor<4x3x3x2xf32>)
func.func @gradients(%dy: tensor<2x6x7x4xf32>, %x: tensor<2x8x8x3xf32>, %w: tensor<4x3x3x2xf32>) -> (tensor<2x8x8x3xf32>, tensor<4x3x3x2xf32>) {
  %dx = mpcomm.convolution_input_grad %dy, %w, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x6x7x4xf32>, tensor<4x3x3x2xf32>) -> tensor<2x8x8x3xf32>
  %dw = mpcomm.convolution_filter_grad %dy, %x, strides = [1, 1], low = [0, 0], high = [0, 0], dilation = [1, 1], groups = 1 {channels_last} : (tensor<2x6x7x4xf32>, tensor<2x8x8x3xf32>) -> tensor<4x3x3x2xf32>
  return %dx, %dw : tensor<2x8x8x3xf32>, tensor<4x3x3x2xf32>
}

// -----

// CHECK-LABEL: func.func @pools(
// CHECK: mprt.pool "max_pool" window = [3, 3] strides = [2, 2] low = [1, 1] high = [1, 1] ins(
// CHECK: mprt.pool "avg_pool" window = [2, 2] {{.*}} count_padding ins(
// CHECK: mprt.pool "max_pool_grad" window = [3, 3] {{.*}} ins(%{{.*}}, %{{.*}} : tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>)
// CHECK: mprt.pool "avg_pool_grad" window = [2, 2] {{.*}} ins(%{{.*}} : tensor<2x3x4x4xf32>) outs(%{{.*}} : tensor<2x3x8x8xf32>)
func.func @pools(%x: tensor<2x3x8x8xf32>) -> (tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>) {
  %0 = mpcomm.max_pool %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mpcomm.avg_pool %x, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] {count_padding} : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mpcomm.max_pool_grad %1, %x, window = [3, 3], strides = [2, 2], low = [1, 1], high = [1, 1] : (tensor<2x3x4x4xf32>, tensor<2x3x8x8xf32>) -> tensor<2x3x8x8xf32>
  %3 = mpcomm.avg_pool_grad %0, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  return %2, %3 : tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>
}

// -----

// Features that come last: the shape stays, for the neighbours' sake. Statistics of
// bf16 are in f32, and sums over rows in f64; then one pass reads them by the column.
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[COLUMN:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-LABEL: func.func @batch_norm(
// CHECK-NOT: collapse_shape
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction", "reduction", "parallel"]} ins(%{{.*}} : tensor<2x4x4x3xbf16>) outs(%{{.*}} : tensor<3xf64>)
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: linalg.generic {indexing_maps = [#[[ALL]], #[[COLUMN]], #[[COLUMN]]], iterator_types = ["reduction", "reduction", "reduction", "parallel"]} ins(%{{.*}}, %{{.*}} : tensor<2x4x4x3xbf16>, tensor<3xf32>) outs(%{{.*}} : tensor<3xf64>)
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%{{.*}} : tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) outs(%{{.*}} : tensor<2x4x4x3xbf16>)
func.func @batch_norm(%x: tensor<2x4x4x3xbf16>, %f: tensor<3xf32>) -> (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>) {
  %y, %m, %v = mpcomm.batch_norm_training %x, %f, %f, eps = 1.0e-05, feature_dim = 3 : (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>)
  return %y, %m, %v : tensor<2x4x4x3xbf16>, tensor<3xf32>, tensor<3xf32>
}

// -----

// Where they do not come last: over the innermost dimension first.
// CHECK-LABEL: func.func @batch_norm_grad(
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]} {{.*}} outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: iterator_types = ["reduction", "parallel"]} {{.*}} outs(%{{.*}} : tensor<3xf32>)
func.func @batch_norm_grad(%x: tensor<2x3x4x4xf32>, %f: tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = mpcomm.batch_norm_grad %x, %x, %f, %f, %f, eps = 1.0e-05, feature_dim = 1 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>
}
