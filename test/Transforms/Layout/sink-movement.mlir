// Transposes, and reshapes that merge dimensions, are after what computes: in
// products, against each other, or at the end.

// RUN: mpcomm-opt %s --mpcomm-sink-movement --split-input-file | FileCheck %s

// The gradient of queries, computed head by head, as a product reads it.
// CHECK-LABEL: func.func @heads(
// CHECK-SAME: %[[G:.*]]: tensor<8x16x4x6xbf16>, %[[C:.*]]: tensor<16x6xf32>, %[[W:.*]]: tensor<24x10xbf16>)
// CHECK: %[[WIDE:.*]] = arith.extf %[[G]] : tensor<8x16x4x6xbf16> to tensor<8x16x4x6xf32>
// CHECK: %[[CC:.*]] = mpcomm.broadcast_in_dim %[[C]], dims = [1, 3] : (tensor<16x6xf32>) -> tensor<8x16x4x6xf32>
// CHECK: %[[M:.*]] = arith.mulf %[[WIDE]], %[[CC]] : tensor<8x16x4x6xf32>
// CHECK: %[[N:.*]] = arith.truncf %[[M]]
// CHECK: %[[ROWS:.*]] = mpcomm.reshape %[[N]] : (tensor<8x16x4x6xbf16>) -> tensor<8x16x24xbf16>
// CHECK: %[[Y:.*]] = mpcomm.dot_general %[[ROWS]], %[[W]], contracting_dims = [2] x [0] : (tensor<8x16x24xbf16>, tensor<24x10xbf16>) -> tensor<8x16x10xbf16>
// CHECK: %[[R:.*]] = mpcomm.reshape %[[Y]] : (tensor<8x16x10xbf16>) -> tensor<128x10xbf16>
// CHECK: return %[[R]]
func.func @heads(%g: tensor<8x16x4x6xbf16>, %c: tensor<16x6xf32>, %w: tensor<24x10xbf16>) -> tensor<128x10xbf16> {
  %t = mpcomm.transpose %g, dims = [0, 2, 1, 3] : (tensor<8x16x4x6xbf16>) -> tensor<8x4x16x6xbf16>
  %wide = arith.extf %t : tensor<8x4x16x6xbf16> to tensor<8x4x16x6xf32>
  %cc = mpcomm.broadcast_in_dim %c, dims = [2, 3] : (tensor<16x6xf32>) -> tensor<8x4x16x6xf32>
  %m = arith.mulf %wide, %cc : tensor<8x4x16x6xf32>
  %n = arith.truncf %m : tensor<8x4x16x6xf32> to tensor<8x4x16x6xbf16>
  %back = mpcomm.transpose %n, dims = [1, 3, 0, 2] : (tensor<8x4x16x6xbf16>) -> tensor<4x6x8x16xbf16>
  %rows = mpcomm.reshape %back : (tensor<4x6x8x16xbf16>) -> tensor<24x128xbf16>
  %y = mpcomm.dot_general %rows, %w, contracting_dims = [0] x [0] : (tensor<24x128xbf16>, tensor<24x10xbf16>) -> tensor<128x10xbf16>
  return %y : tensor<128x10xbf16>
}

// -----

// A reduction and a reversal in the order of the operand.
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: %[[X:.*]]: tensor<4x8x2xf32>)
// CHECK: %[[R:.*]] = mpcomm.reverse %[[X]], dims = [2]
// CHECK: %[[S:.*]] = mpcomm.reduce sum %[[R]], dims = [1] : (tensor<4x8x2xf32>) -> tensor<4x2xf32>
// CHECK: return %[[S]]
func.func @reduce(%x: tensor<4x8x2xf32>) -> tensor<4x2xf32> {
  %t = mpcomm.transpose %x, dims = [1, 0, 2] : (tensor<4x8x2xf32>) -> tensor<8x4x2xf32>
  %r = mpcomm.reverse %t, dims = [2] : (tensor<8x4x2xf32>) -> tensor<8x4x2xf32>
  %s = mpcomm.reduce sum %r, dims = [0] : (tensor<8x4x2xf32>) -> tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// -----

// A dimension of size 1 that only some have keeps nothing apart; a sum over
// merged rows is one over their dimensions.
// CHECK-LABEL: func.func @units(
// CHECK-SAME: %[[X:.*]]: tensor<1x16x4xf32>, %[[W:.*]]: tensor<4x6xf32>, %[[B:.*]]: tensor<6xf32>, %[[Z:.*]]: tensor<1x16x6xf32>)
// CHECK-DAG: %[[Y:.*]] = mpcomm.dot_general %[[X]], %[[W]], contracting_dims = [2] x [0] : (tensor<1x16x4xf32>, tensor<4x6xf32>) -> tensor<1x16x6xf32>
// CHECK-DAG: %[[BB:.*]] = mpcomm.broadcast_in_dim %[[B]], dims = [2] : (tensor<6xf32>) -> tensor<1x16x6xf32>
// CHECK: %[[A:.*]] = arith.addf %[[Y]], %[[BB]]
// CHECK-DAG: %[[S:.*]] = mpcomm.reduce sum %[[A]], dims = [0, 1] : (tensor<1x16x6xf32>) -> tensor<6xf32>
// CHECK-DAG: %[[M:.*]] = arith.mulf %[[A]], %[[Z]]
// CHECK: return %[[M]], %[[S]]
func.func @units(%x: tensor<1x16x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>, %z: tensor<1x16x6xf32>) -> (tensor<1x16x6xf32>, tensor<6xf32>) {
  %rows = mpcomm.reshape %x : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
  %y = mpcomm.dot_general %rows, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x6xf32>) -> tensor<16x6xf32>
  %bb = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<16x6xf32>
  %a = arith.addf %y, %bb : tensor<16x6xf32>
  %s = mpcomm.reduce sum %a, dims = [0] : (tensor<16x6xf32>) -> tensor<6xf32>
  %back = mpcomm.reshape %a : (tensor<16x6xf32>) -> tensor<1x16x6xf32>
  %m = arith.mulf %back, %z : tensor<1x16x6xf32>
  return %m, %s : tensor<1x16x6xf32>, tensor<6xf32>
}

// -----

// A product writes any order; what is wider is not transposed instead; two
// orders do not meet; parts that a transpose separates are not merged before.
// CHECK-LABEL: func.func @stays(
// CHECK: %[[Y:.*]] = mpcomm.dot_general
// CHECK: %[[T:.*]] = mpcomm.transpose %[[Y]]
// CHECK: math.exp %[[T]]
// CHECK: %[[N:.*]] = mpcomm.transpose %{{.*}}, dims = [1, 0] : (tensor<4x8xbf16>)
// CHECK: arith.extf %[[N]]
// CHECK: %[[U:.*]] = mpcomm.transpose
// CHECK: arith.addf %[[U]], %{{.*}}
// CHECK: %[[M:.*]] = mpcomm.transpose %{{.*}} -> tensor<8x4x2xf32>
// CHECK: mpcomm.reshape %[[M]]
func.func @stays(%a: tensor<4x6xf32>, %b: tensor<6x8xf32>, %n: tensor<4x8xbf16>, %x: tensor<8x4xf32>, %z: tensor<4x8x2xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>) {
  %y = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %t = mpcomm.transpose %y, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %e = math.exp %t : tensor<8x4xf32>
  %nt = mpcomm.transpose %n, dims = [1, 0] : (tensor<4x8xbf16>) -> tensor<8x4xbf16>
  %w = arith.extf %nt : tensor<8x4xbf16> to tensor<8x4xf32>
  %c = mpcomm.reshape %z : (tensor<4x8x2xf32>) -> tensor<4x16xf32>
  %d = mpcomm.slice %c, starts = [0, 0], limits = [4, 8], strides = [1, 1] : (tensor<4x16xf32>) -> tensor<4x8xf32>
  %u = mpcomm.transpose %d, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %s = arith.addf %u, %x : tensor<8x4xf32>
  %m = mpcomm.transpose %z, dims = [1, 0, 2] : (tensor<4x8x2xf32>) -> tensor<8x4x2xf32>
  %r = mpcomm.reshape %m : (tensor<8x4x2xf32>) -> tensor<8x8xf32>
  return %e, %w, %s, %r : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>
}
