// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file | FileCheck %s

// Programs do not address memory by their rank: an all_slice is the block that
// comes from the first rank of what all exchange.

mpcomm.mesh @mesh <["dp" = 4]>

// CHECK-LABEL: func.func @dim_0
// CHECK-SAME: (%[[X:.*]]: tensor<8x3xf32>)
func.func @dim_0(%x: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[B:.*]] = mpcomm.reshape %[[X]] : (tensor<8x3xf32>) -> tensor<4x2x3xf32>
  // CHECK: mprt.start "all_to_all" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins({{.*}} : tensor<4x1x2x3xf32>) outs({{.*}} : tensor<4x1x2x3xf32>)
  // CHECK: %[[A:.*]] = mprt.await event = 0
  // CHECK: %[[R:.*]] = mpcomm.reshape %[[A]] : (tensor<4x1x2x3xf32>) -> tensor<4x2x3xf32>
  // CHECK-NEXT: %[[S:.*]] = mpcomm.slice %[[R]], starts = [0, 0, 0], limits = [1, 2, 3], strides = [1, 1, 1] : (tensor<4x2x3xf32>) -> tensor<1x2x3xf32>
  // CHECK-NEXT: %[[O:.*]] = mpcomm.reshape %[[S]] : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: return %[[O]]
  %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// Along another dimension the blocks are moved to the front first.
// CHECK-LABEL: func.func @dim_1
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xi64>)
func.func @dim_1(%x: tensor<3x8xi64>) -> tensor<3x2xi64> {
  // CHECK: %[[B:.*]] = mpcomm.reshape %[[X]] : (tensor<3x8xi64>) -> tensor<3x4x2xi64>
  // CHECK-NEXT: mpcomm.transpose %[[B]], dims = [1, 0, 2] : (tensor<3x4x2xi64>) -> tensor<4x3x2xi64>
  // CHECK: mprt.start "all_to_all" "" id = 1
  // CHECK: mprt.await event = 1
  // CHECK: mpcomm.slice %{{.*}}, starts = [0, 0, 0], limits = [1, 3, 2]
  // CHECK: return
  %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 1 : (tensor<3x8xi64>) -> tensor<3x2xi64>
  return %r : tensor<3x2xi64>
}
