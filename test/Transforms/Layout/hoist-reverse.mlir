// What is reversed is what is in memory: elementwise work for a reversal alone
// is done after it.

// RUN: mpcomm-opt %s --mpcomm-hoist-reverse --split-input-file | FileCheck %s

// The gradient of a rotary embedding.
// CHECK-LABEL: func.func @rotary(
// CHECK-SAME: %[[X:.*]]: tensor<8x3x4xbf16>, %[[S:.*]]: tensor<8x4xf32>)
// CHECK: %[[XP:.*]] = mpcomm.reshape %[[X]] : (tensor<8x3x4xbf16>) -> tensor<8x3x2x2xbf16>
// CHECK: %[[XR:.*]] = mpcomm.reverse %[[XP]], dims = [2] : (tensor<8x3x2x2xbf16>)
// CHECK: %[[XW:.*]] = arith.extf %[[XR]]
// CHECK: %[[SP:.*]] = mpcomm.reshape %[[S]] : (tensor<8x4xf32>) -> tensor<8x2x2xf32>
// CHECK: %[[SR:.*]] = mpcomm.reverse %[[SP]], dims = [1] : (tensor<8x2x2xf32>)
// CHECK: %[[SB:.*]] = mpcomm.broadcast_in_dim %[[SR]], dims = [0, 2, 3] : (tensor<8x2x2xf32>) -> tensor<8x3x2x2xf32>
// CHECK: %[[R:.*]] = arith.mulf %[[XW]], %[[SB]] : tensor<8x3x2x2xf32>
// CHECK-NOT: arith.mulf
// CHECK: return %[[R]]
func.func @rotary(%x: tensor<8x3x4xbf16>, %s: tensor<8x4xf32>) -> (tensor<8x3x2x2xf32>, tensor<8x3x4xf32>) {
  %w = arith.extf %x : tensor<8x3x4xbf16> to tensor<8x3x4xf32>
  %b = mpcomm.broadcast_in_dim %s, dims = [0, 2] : (tensor<8x4xf32>) -> tensor<8x3x4xf32>
  %m = arith.mulf %w, %b : tensor<8x3x4xf32>
  %p = mpcomm.reshape %m : (tensor<8x3x4xf32>) -> tensor<8x3x2x2xf32>
  %r = mpcomm.reverse %p, dims = [2] : (tensor<8x3x2x2xf32>) -> tensor<8x3x2x2xf32>
  return %r, %w : tensor<8x3x2x2xf32>, tensor<8x3x4xf32>
}

// -----

// A constant of one value, and a broadcast along the reversed dimension.
// CHECK-LABEL: func.func @repeated(
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK: %[[XR:.*]] = mpcomm.reverse %[[X]], dims = [1]
// CHECK: %[[BB:.*]] = mpcomm.broadcast_in_dim %[[B]], dims = [0]
// CHECK: arith.addf %[[XR]], %[[BB]]
// CHECK-NOT: mpcomm.reverse
func.func @repeated(%x: tensor<8x4xf32>, %b: tensor<8xf32>) -> tensor<8x4xf32> {
  %two = arith.constant dense<2.0> : tensor<8x4xf32>
  %bb = mpcomm.broadcast_in_dim %b, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %a = arith.addf %x, %bb : tensor<8x4xf32>
  %m = arith.mulf %a, %two : tensor<8x4xf32>
  %r = mpcomm.reverse %m, dims = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

// Work that others read too is done once.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[R:.*]] = mpcomm.reverse %[[E]]
// CHECK: return %[[E]], %[[R]]
func.func @shared(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %e = math.exp %x : tensor<8x4xf32>
  %r = mpcomm.reverse %e, dims = [1] : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %e, %r : tensor<8x4xf32>, tensor<8x4xf32>
}
