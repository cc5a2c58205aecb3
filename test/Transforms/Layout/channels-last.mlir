// Activations lie with the channels last from the first convolution to the mean
// before the head; filters, signatures and what is no image stay.

// RUN: mpcomm-opt %s --mpcomm-channels-last --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-channels-last --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// REMARK: ChannelsLast{{.*}}Function=block | moved=7, transposes=1
// CHECK-LABEL: func.func @block(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8x8xf32>, %[[W:.*]]: tensor<4x3x3x3xf32>, %[[F:.*]]: tensor<4xf32>)
// CHECK: %[[A:.*]] = mpcomm.transpose %[[X]], dims = [0, 2, 3, 1] : (tensor<2x3x8x8xf32>) -> tensor<2x8x8x3xf32>
// CHECK: %[[B:.*]] = mpcomm.convolution %[[A]], %[[W]], {{.*}} {channels_last} : (tensor<2x8x8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<2x8x8x4xf32>
// CHECK: %[[C:.*]], %{{.*}}, %{{.*}} = mpcomm.batch_norm_training %[[B]], %[[F]], %[[F]], eps = 1.000000e-05, feature_dim = 3
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<2x8x8x4xf32>
// CHECK: %[[D:.*]] = arith.maximumf %[[C]], %[[ZERO]] : tensor<2x8x8x4xf32>
// CHECK: %[[E:.*]] = mpcomm.max_pool %[[D]], {{.*}} {channels_last} : (tensor<2x8x8x4xf32>) -> tensor<2x4x4x4xf32>
// CHECK: %[[BIAS:.*]] = mpcomm.broadcast_in_dim %[[F]], dims = [3] : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
// CHECK: %[[G:.*]] = arith.addf %[[E]], %[[BIAS]]
// CHECK: %[[H:.*]] = mpcomm.concatenate %[[G]], %[[E]], dim = 3
// CHECK: %[[R:.*]] = mpcomm.reduce sum %[[H]], dims = [1, 2] : (tensor<2x4x4x8xf32>) -> tensor<2x8xf32>
// CHECK-NOT: transpose
// CHECK: return %[[R]]
func.func @block(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %f: tensor<4xf32>) -> tensor<2x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<2x4x8x8xf32>
  %a = mpcomm.convolution %x, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1 : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %b, %m, %v = mpcomm.batch_norm_training %a, %f, %f, eps = 1.0e-05, feature_dim = 1 : (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %c = arith.maximumf %b, %zero : tensor<2x4x8x8xf32>
  %d = mpcomm.max_pool %c, window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0] : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  %e = mpcomm.broadcast_in_dim %f, dims = [1] : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %g = arith.addf %d, %e : tensor<2x4x4x4xf32>
  %h = mpcomm.concatenate %g, %d, dim = 1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x8x4x4xf32>
  %r = mpcomm.reduce sum %h, dims = [2, 3] : (tensor<2x8x4x4xf32>) -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}

// -----

// Gradients: of filters in the filters' layout; what comes from the head is a
// broadcast in the new layout.
// CHECK-LABEL: func.func @gradients(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x8x8xf32>, %[[W:.*]]: tensor<4x3x3x3xf32>, %[[D:.*]]: tensor<2x4xf32>)
// CHECK: %[[DY:.*]] = mpcomm.broadcast_in_dim %[[D]], dims = [0, 3] : (tensor<2x4xf32>) -> tensor<2x8x8x4xf32>
// CHECK: %[[XL:.*]] = mpcomm.transpose %[[X]], dims = [0, 2, 3, 1]
// CHECK: %[[DW:.*]] = mpcomm.convolution_filter_grad %[[DY]], %[[XL]], {{.*}} {channels_last} : (tensor<2x8x8x4xf32>, tensor<2x8x8x3xf32>) -> tensor<4x3x3x3xf32>
// CHECK: %[[DX:.*]] = mpcomm.convolution_input_grad %[[DY]], %[[W]], {{.*}} {channels_last} : (tensor<2x8x8x4xf32>, tensor<4x3x3x3xf32>) -> tensor<2x8x8x3xf32>
// CHECK: %[[BACK:.*]] = mpcomm.transpose %[[DX]], dims = [0, 3, 1, 2]
// CHECK: return %[[DW]], %[[BACK]]
func.func @gradients(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %d: tensor<2x4xf32>) -> (tensor<4x3x3x3xf32>, tensor<2x3x8x8xf32>) {
  %dy = mpcomm.broadcast_in_dim %d, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x8x8xf32>
  %dw = mpcomm.convolution_filter_grad %dy, %x, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1 : (tensor<2x4x8x8xf32>, tensor<2x3x8x8xf32>) -> tensor<4x3x3x3xf32>
  %dx = mpcomm.convolution_input_grad %dy, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1 : (tensor<2x4x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x8x8xf32>
  return %dw, %dx : tensor<4x3x3x3xf32>, tensor<2x3x8x8xf32>
}

// -----

// A permutation to the new layout and back, as around ConvNeXt's layer norm,
// is nothing any more; one image of one pixel is reshaped.
// CHECK-LABEL: func.func @permuted(
// CHECK: %[[Y:.*]] = mpcomm.convolution
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = mpcomm.layer_norm %[[Y]]
// CHECK: %[[S:.*]] = arith.addf %[[N]], %[[Y]]
// CHECK: %[[P:.*]] = mpcomm.avg_pool %[[S]]
// CHECK: %[[R:.*]] = mpcomm.reshape %[[P]] : (tensor<2x1x1x3xf32>) -> tensor<2x3x1x1xf32>
// CHECK: return %[[R]]
func.func @permuted(%x: tensor<2x3x8x8xf32>, %w: tensor<3x1x3x3xf32>, %f: tensor<3xf32>) -> tensor<2x3x1x1xf32> {
  %y = mpcomm.convolution %x, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 3 : (tensor<2x3x8x8xf32>, tensor<3x1x3x3xf32>) -> tensor<2x3x8x8xf32>
  %t = mpcomm.transpose %y, dims = [0, 2, 3, 1] : (tensor<2x3x8x8xf32>) -> tensor<2x8x8x3xf32>
  %n, %m, %v = mpcomm.layer_norm %t, %f, %f, eps = 1.0e-05 : (tensor<2x8x8x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x8x8x3xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>)
  %u = mpcomm.transpose %n, dims = [0, 3, 1, 2] : (tensor<2x8x8x3xf32>) -> tensor<2x3x8x8xf32>
  %s = arith.addf %u, %y : tensor<2x3x8x8xf32>
  %p = mpcomm.avg_pool %s, window = [8, 8], strides = [8, 8], low = [0, 0], high = [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x1x1xf32>
  return %p : tensor<2x3x1x1xf32>
}

// -----

// Nothing convolves here: nothing moves.
// REMARK: ChannelsLast{{.*}}Function=heads | moved=0, transposes=0
// CHECK-LABEL: func.func @heads(
// CHECK: arith.addf %{{.*}} : tensor<2x3x8x4xf32>
func.func @heads(%x: tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32> {
  %y = arith.addf %x, %x : tensor<2x3x8x4xf32>
  return %y : tensor<2x3x8x4xf32>
}
