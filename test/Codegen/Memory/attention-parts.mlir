// The gradients of attention are written where they lie side by side, unless
// something between needs what is there; a part is not copied onto itself.

// RUN: mpcomm-opt %s --mpcomm-bufferize-step --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @parts(
// CHECK: %[[ALL:.*]] = memref.alloc() {{.*}} : memref<2x32x9x16xbf16>
// CHECK-NOT: memref.alloc
// CHECK: %[[Q:.*]] = memref.subview %[[ALL]][0, 0, 0, 0]
// CHECK: %[[K:.*]] = memref.subview %[[ALL]][0, 0, 3, 0]
// CHECK: %[[V:.*]] = memref.subview %[[ALL]][0, 0, 6, 0]
// CHECK: mprt.attention "attention_grad" {{.*}} outs(%[[Q]], %[[K]], %[[V]] :
// CHECK-NOT: memref.copy
// CHECK: linalg.contract
func.func @parts(%q: tensor<2x32x3x16xbf16>, %lse: tensor<2x3x32xf32>, %w: tensor<144x8xbf16>) -> tensor<2x32x8xbf16> {
  %e = tensor.empty() : tensor<2x32x3x16xbf16>
  %r:3 = mprt.attention "attention_grad" scale = 1.0 ins(%q, %q, %q, %q, %q, %lse : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x3x32xf32>) outs(%e, %e, %e : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>) -> (tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>)
  %all = tensor.empty() : tensor<2x32x9x16xbf16>
  %i0 = tensor.insert_slice %r#0 into %all[0, 0, 0, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %i1 = tensor.insert_slice %r#1 into %i0[0, 0, 3, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %i2 = tensor.insert_slice %r#2 into %i1[0, 0, 6, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %c = tensor.collapse_shape %i2 [[0], [1], [2, 3]] : tensor<2x32x9x16xbf16> into tensor<2x32x144xbf16>
  %f = tensor.empty() : tensor<2x32x8xbf16>
  %p = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>] ins(%c, %w : tensor<2x32x144xbf16>, tensor<144x8xbf16>) outs(%f : tensor<2x32x8xbf16>) -> tensor<2x32x8xbf16>
  return %p : tensor<2x32x8xbf16>
}

// -----

// dk is read by itself too, and dv lies where dk was put, for which a copy waits.

// CHECK-LABEL: func.func @read_elsewhere(
// CHECK: mprt.attention "attention_grad" {{.*}} outs(%[[Q:.*]], %[[K:.*]], %[[V:.*]] :
// CHECK: memref.copy %[[K]], %{{.*}} : memref<2x32x3x16xbf16> to memref<2x32x3x16xbf16, strided<
// CHECK: mprt.launch @k ins(%{{.*}} : memref<2x32x9x16xbf16>)
// CHECK: memref.copy %[[V]], %{{.*}} : memref<2x32x3x16xbf16> to memref<2x32x3x16xbf16, strided<
func.func @read_elsewhere(%q: tensor<2x32x3x16xbf16>, %lse: tensor<2x3x32xf32>) -> (tensor<2x32x9x16xbf16>, tensor<2x32x9x16xbf16>, tensor<2x32x3x16xbf16>) {
  %e = tensor.empty() : tensor<2x32x3x16xbf16>
  %r:3 = mprt.attention "attention_grad" scale = 1.0 ins(%q, %q, %q, %q, %q, %lse : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x3x32xf32>) outs(%e, %e, %e : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>) -> (tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>)
  %all = tensor.empty() : tensor<2x32x9x16xbf16>
  %i0 = tensor.insert_slice %r#0 into %all[0, 0, 0, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %i1 = tensor.insert_slice %r#1 into %i0[0, 0, 3, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %o = tensor.empty() : tensor<2x32x9x16xbf16>
  %x = mprt.launch @k ins(%i1 : tensor<2x32x9x16xbf16>) outs(%o : tensor<2x32x9x16xbf16>) -> (tensor<2x32x9x16xbf16>)
  %i2 = tensor.insert_slice %r#2 into %i1[0, 0, 6, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  return %i2, %x, %r#1 : tensor<2x32x9x16xbf16>, tensor<2x32x9x16xbf16>, tensor<2x32x3x16xbf16>
}
func.func private @k(tensor<2x32x9x16xbf16>, tensor<2x32x9x16xbf16>) -> tensor<2x32x9x16xbf16> attributes {mpcomm.kernel}

// -----

// Two gradients are put where they have rows in common: the later one is copied
// over the earlier.

// CHECK-LABEL: func.func @overlapping(
// CHECK: %[[ALL:.*]] = memref.alloc() {{.*}} : memref<2x32x9x16xbf16>
// CHECK: %[[K:.*]] = memref.subview %[[ALL]][0, 0, 4, 0]
// CHECK: mprt.attention "attention_grad" {{.*}} outs(%[[Q:[^,]*]], %[[K]], %
// CHECK: %[[PART:.*]] = memref.subview %[[ALL]][0, 0, 2, 0]
// CHECK: memref.copy %[[Q]], %[[PART]]
func.func @overlapping(%q: tensor<2x32x3x16xbf16>, %lse: tensor<2x3x32xf32>) -> tensor<2x32x9x16xbf16> {
  %e = tensor.empty() : tensor<2x32x3x16xbf16>
  %r:3 = mprt.attention "attention_grad" scale = 1.0 ins(%q, %q, %q, %q, %q, %lse : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x3x32xf32>) outs(%e, %e, %e : tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>) -> (tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>, tensor<2x32x3x16xbf16>)
  %all = tensor.empty() : tensor<2x32x9x16xbf16>
  %i0 = tensor.insert_slice %r#1 into %all[0, 0, 4, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %i1 = tensor.insert_slice %r#0 into %i0[0, 0, 2, 0] [2, 32, 3, 16] [1, 1, 1, 1] : tensor<2x32x3x16xbf16> into tensor<2x32x9x16xbf16>
  %f = tensor.collapse_shape %i1 [[0], [1], [2, 3]] : tensor<2x32x9x16xbf16> into tensor<2x32x144xbf16>
  %g = tensor.expand_shape %f [[0], [1], [2, 3]] output_shape [2, 32, 9, 16] : tensor<2x32x144xbf16> into tensor<2x32x9x16xbf16>
  %o = tensor.empty() : tensor<2x32x9x16xbf16>
  %x = mprt.launch @k ins(%g : tensor<2x32x9x16xbf16>) outs(%o : tensor<2x32x9x16xbf16>) -> (tensor<2x32x9x16xbf16>)
  return %x : tensor<2x32x9x16xbf16>
}
func.func private @k(tensor<2x32x9x16xbf16>, tensor<2x32x9x16xbf16>) -> tensor<2x32x9x16xbf16> attributes {mpcomm.kernel}
