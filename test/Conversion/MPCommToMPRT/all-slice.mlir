// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file | FileCheck %s

// A rank copies the block at its own coordinate: nothing is sent.

mpcomm.mesh @mesh <["pp" = 3, "dp" = 4, "tp" = 2]>

// CHECK-NOT: mprt.start
// CHECK-LABEL: func.func @dim_0
// CHECK-SAME: (%[[X:.*]]: tensor<8x3xf32>)
func.func @dim_0(%x: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[O:.*]] = tensor.empty() : tensor<2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = mprt.all_slice sizes = [4] strides = [2] ins(%[[X]] : tensor<8x3xf32>) outs(%[[O]] : tensor<2x3xf32>) -> (tensor<2x3xf32>)
  // CHECK-NEXT: return %[[R]]
  %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// Along another dimension the blocks are moved to the front first.
// CHECK-LABEL: func.func @dim_1
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xi64>)
func.func @dim_1(%x: tensor<3x8xi64>) -> tensor<3x2xi64> {
  // CHECK: %[[B:.*]] = mpcomm.reshape %[[X]] : (tensor<3x8xi64>) -> tensor<3x4x2xi64>
  // CHECK-NEXT: %[[T:.*]] = mpcomm.transpose %[[B]], dims = [1, 0, 2] : (tensor<3x4x2xi64>) -> tensor<4x3x2xi64>
  // CHECK: mprt.all_slice sizes = [4] strides = [2] ins(%[[T]] : tensor<4x3x2xi64>) outs({{.*}} : tensor<3x2xi64>)
  %r = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 1 : (tensor<3x8xi64>) -> tensor<3x2xi64>
  return %r : tensor<3x2xi64>
}

// Group ranks are in the order of the mesh's axes.
// CHECK-LABEL: func.func @two_axes
func.func @two_axes(%x: tensor<12xf32>) -> tensor<2xf32> {
  // CHECK: mprt.all_slice sizes = [3, 2] strides = [8, 1] ins(%arg0
  %r = mpcomm.all_slice %x on @mesh axes ["tp", "pp"] dim = 0 : (tensor<12xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// A coordinate is one of the numbers that it may be.
// CHECK-LABEL: func.func @axis_index
func.func @axis_index() -> tensor<i32> {
  // CHECK: %[[N:.*]] = arith.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  // CHECK: mprt.all_slice sizes = [4] strides = [2] ins(%[[N]] : tensor<4xi32>) outs({{.*}} : tensor<i32>) -> (tensor<i32>)
  %r = mpcomm.axis_index on @mesh axes ["dp"] : tensor<i32>
  return %r : tensor<i32>
}
