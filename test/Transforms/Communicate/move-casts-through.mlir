// Casts move through what treats each element by itself: ops that move elements
// stay on their side of a collective, factors cross it with the cast.

// RUN: mpcomm-opt %s --mpcomm-move-casts | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-move-casts="numerics=lossy" | FileCheck %s --check-prefix=LOSSY
// RUN: mpcomm-opt %s --mpcomm-move-casts --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

mpcomm.mesh @mesh <["dp" = 2]>

// 4 elements of the slice, 4 bytes as f32 and 2 as bf16.
// REMARK: CastMoved{{.*}}Function=widened_before | bytes=8

// CHECK-LABEL: func.func @widened_before
func.func @widened_before(%x: tensor<2x4xbf16>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.reshape %arg0 : (tensor<2x4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[S:.*]] = mpcomm.slice %[[F]], starts = [2], limits = [6], strides = [1] : (tensor<8xbf16>) -> tensor<4xbf16>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_gather(%[[S]]) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[R]] : tensor<8xbf16> to tensor<8xf32>
  // CHECK-NEXT: return %[[W]]
  %w = arith.extf %x : tensor<2x4xbf16> to tensor<2x4xf32>
  %f = mpcomm.reshape %w : (tensor<2x4xf32>) -> tensor<8xf32>
  %s = mpcomm.slice %f, starts = [2], limits = [6], strides = [1] : (tensor<8xf32>) -> tensor<4xf32>
  %r = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @narrowed_after
func.func @narrowed_after(%x: tensor<2x4xf32>) -> tensor<8x2xbf16> {
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %arg0 : tensor<2x4xf32> to tensor<2x4xbf16>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_gather(%[[N]]) {{.*}} : (tensor<2x4xbf16>) -> tensor<4x4xbf16>
  // CHECK-NEXT: %[[F:.*]] = mpcomm.reshape %[[R]] : (tensor<4x4xbf16>) -> tensor<2x8xbf16>
  // CHECK-NEXT: %[[T:.*]] = mpcomm.transpose %[[F]], dims = [1, 0] : (tensor<2x8xbf16>) -> tensor<8x2xbf16>
  // CHECK-NEXT: return %[[T]]
  %r = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %f = mpcomm.reshape %r : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %t = mpcomm.transpose %f, dims = [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %n = arith.truncf %t : tensor<8x2xf32> to tensor<8x2xbf16>
  return %n : tensor<8x2xbf16>
}

// Each element is widened, then multiplied, then divided, wherever that is.
// CHECK-LABEL: func.func @factors
func.func @factors(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf16>) {
  // CHECK: %[[R:.*]] = mpcomm.all_gather(%arg0) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[R]] : tensor<8xbf16> to tensor<8xf32>
  // CHECK-NEXT: %[[C:.*]] = arith.constant dense<3.000000e-01> : tensor<8xf32>
  // CHECK-NEXT: %[[M:.*]] = arith.mulf %[[C]], %[[W]]
  // CHECK-NEXT: %[[D:.*]] = arith.constant dense<7.000000e+00> : tensor<8xf32>
  // CHECK-NEXT: %[[Q:.*]] = arith.divf %[[M]], %[[D]]
  // CHECK-NEXT: %[[E:.*]] = arith.constant dense<7.000000e+00> : tensor<4xf32>
  // CHECK-NEXT: %[[S:.*]] = arith.mulf %arg1, %[[E]]
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %[[S]] : tensor<4xf32> to tensor<4xf16>
  // CHECK-NEXT: %[[B:.*]] = mpcomm.collective_broadcast(%[[N]]) {{.*}} : tensor<4xf16>
  // CHECK-NEXT: return %[[Q]], %[[B]]
  %c = arith.constant dense<0.3> : tensor<4xf32>
  %d = arith.constant dense<7.0> : tensor<4xf32>
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %m = arith.mulf %c, %w : tensor<4xf32>
  %q = arith.divf %m, %d : tensor<4xf32>
  %r = mpcomm.all_gather(%q) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  %b = mpcomm.collective_broadcast(%y) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  %s = arith.mulf %b, %d : tensor<4xf32>
  %n = arith.truncf %s : tensor<4xf32> to tensor<4xf16>
  return %r, %n : tensor<8xf32>, tensor<4xf16>
}

// A scale that is state is the same on all ranks; one of the batch is not, and
// stays on its side.
// CHECK-LABEL: func.func @scalars
func.func @scalars(
    %x: tensor<4xbf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"},
    %t: tensor<f32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "t"}) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[R:.*]] = mpcomm.all_gather(%arg0) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[R]]
  // CHECK-NEXT: %[[S:.*]] = mpcomm.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<8xf32>
  // CHECK-NEXT: %[[M:.*]] = arith.mulf %[[W]], %[[S]]
  // CHECK: %[[P:.*]] = arith.mulf
  // CHECK-NEXT: %[[Q:.*]] = mpcomm.all_gather(%[[P]]) {{.*}} : (tensor<4xf32>) -> tensor<8xf32>
  // CHECK-NEXT: return %[[M]], %[[Q]]
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %f = mpcomm.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %m = arith.mulf %w, %f : tensor<4xf32>
  %r = mpcomm.all_gather(%m) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  %g = mpcomm.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %p = arith.mulf %w, %g : tensor<4xf32>
  %q = mpcomm.all_gather(%p) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %r, %q : tensor<8xf32>, tensor<8xf32>
}

// What stands between is needed by somebody else, or mixes elements; a divisor
// is no dividend; many factors are not one.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<2x2xbf16>, tensor<2x2xf32>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>) {
  // CHECK-COUNT-4: mpcomm.collective_broadcast({{.*}} : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %a = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  %b = mpcomm.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
  %c = arith.truncf %b : tensor<2x2xf32> to tensor<2x2xbf16>
  %d = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  %e = arith.addf %d, %y : tensor<4xf32>
  %f = arith.truncf %e : tensor<4xf32> to tensor<4xbf16>
  %g = mpcomm.collective_broadcast(%y) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  %h = arith.divf %one, %g : tensor<4xf32>
  %i = arith.truncf %h : tensor<4xf32> to tensor<4xbf16>
  %j = mpcomm.collective_broadcast(%y) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  %k = arith.mulf %j, %y : tensor<4xf32>
  %l = arith.truncf %k : tensor<4xf32> to tensor<4xbf16>
  return %c, %b, %f, %i, %l : tensor<2x2xbf16>, tensor<2x2xf32>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>
}

// The wire has what the operands come from, or what is kept of the results:
// powers of two and reshapes lose nothing of it. f16 lacks exponents of f32, and
// three times a bf16 is none.
// CHECK-LABEL: func.func @reductions
// LOSSY-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x4xbf16>, %h: tensor<8xf16>, %y: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xbf16>, tensor<2x4xf16>, tensor<2x4xf16>) {
  // CHECK-NOT: wire
  // CHECK: return
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %three = arith.constant dense<3.0> : tensor<8xf32>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] mean wire bf16 accumulate f32
  %w = arith.extf %x : tensor<2x4xbf16> to tensor<2x4xf32>
  %f = mpcomm.reshape %w : (tensor<2x4xf32>) -> tensor<8xf32>
  %m = arith.mulf %f, %half : tensor<8xf32>
  %a = mpcomm.all_reduce(%m) on @mesh axes ["dp"] mean : tensor<8xf32>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] sum : tensor<8xf32>
  %w2 = arith.extf %x : tensor<2x4xbf16> to tensor<2x4xf32>
  %f2 = mpcomm.reshape %w2 : (tensor<2x4xf32>) -> tensor<8xf32>
  %m2 = arith.mulf %f2, %three : tensor<8xf32>
  %b = mpcomm.all_reduce(%m2) on @mesh axes ["dp"] sum : tensor<8xf32>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] max : tensor<8xf32>
  %w3 = arith.extf %h : tensor<8xf16> to tensor<8xf32>
  %m3 = arith.mulf %w3, %half : tensor<8xf32>
  %c = mpcomm.all_reduce(%m3) on @mesh axes ["dp"] max : tensor<8xf32>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] sum wire bf16 accumulate f32
  %d = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<8xf32>
  %d1 = arith.mulf %d, %three : tensor<8xf32>
  %d2 = mpcomm.reshape %d1 : (tensor<8xf32>) -> tensor<2x4xf32>
  %d3 = arith.truncf %d2 : tensor<2x4xf32> to tensor<2x4xbf16>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] prod : tensor<8xf32>
  %e = mpcomm.all_reduce(%y) on @mesh axes ["dp"] prod : tensor<8xf32>
  %e1 = arith.mulf %e, %half : tensor<8xf32>
  %e2 = mpcomm.reshape %e1 : (tensor<8xf32>) -> tensor<2x4xf32>
  %e3 = arith.truncf %e2 : tensor<2x4xf32> to tensor<2x4xf16>
  // LOSSY: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] min wire f16 accumulate f32
  %g = mpcomm.all_reduce(%y) on @mesh axes ["dp"] min : tensor<8xf32>
  %g2 = mpcomm.reshape %g : (tensor<8xf32>) -> tensor<2x4xf32>
  %g3 = arith.truncf %g2 : tensor<2x4xf32> to tensor<2x4xf16>
  return %a, %b, %c, %d3, %e3, %g3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2x4xbf16>, tensor<2x4xf16>, tensor<2x4xf16>
}

// Ranks that nothing reaches have zeros, which infinity would make NaN and -2 -0.
// CHECK-LABEL: func.func @zeros
func.func @zeros(%x: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: mpcomm.collective_permute(%arg0) {{.*}} : tensor<4xbf16>
  // CHECK: mpcomm.collective_permute({{.*}}) {{.*}} : tensor<4xf32>
  // CHECK: mpcomm.collective_permute({{.*}}) {{.*}} : tensor<4xf32>
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %less = arith.constant dense<-2.0> : tensor<4xf32>
  %most = arith.constant dense<0x7F800000> : tensor<4xf32>
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %a = arith.mulf %w, %two : tensor<4xf32>
  %b = arith.mulf %w, %less : tensor<4xf32>
  %c = arith.mulf %w, %most : tensor<4xf32>
  %p = mpcomm.collective_permute(%a) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  %q = mpcomm.collective_permute(%b) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  %r = mpcomm.collective_permute(%c) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  return %p, %q, %r : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
