// Casts stand where fewer bytes travel: across what moves elements always,
// across reductions only as a declared wire type, under numerics=lossy.

// RUN: mpcomm-opt %s --mpcomm-move-casts | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-move-casts="numerics=lossy" | FileCheck %s --check-prefix=LOSSY
// RUN: mpcomm-opt %s --mpcomm-move-casts="numerics=lossy" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

mpcomm.mesh @mesh <["dp" = 2]>

// 4 elements, 4 bytes as f32 and 2 as bf16: 8 bytes saved.
// REMARK: CastMoved{{.*}}Function=widened_gather | bytes=8
// REMARK: MoveCasts{{.*}}Function=widened_gather | moved=1, narrowed=0

// CHECK-LABEL: func.func @widened_gather
func.func @widened_gather(%x: tensor<4xbf16>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_gather(%arg0) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[R]] : tensor<8xbf16> to tensor<8xf32>
  // CHECK-NEXT: return %[[W]]
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %r = mpcomm.all_gather(%w) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @narrowed_broadcast
func.func @narrowed_broadcast(%x: tensor<4xf32>) -> tensor<4xbf16> {
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %arg0 : tensor<4xf32> to tensor<4xbf16>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.collective_broadcast(%[[N]]) {{.*}} : tensor<4xbf16>
  // CHECK-NEXT: return %[[R]]
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  %n = arith.truncf %r : tensor<4xf32> to tensor<4xbf16>
  return %n : tensor<4xbf16>
}

// Zeros are zeros in both types.
// CHECK-LABEL: func.func @moved_elements
func.func @moved_elements(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<2xbf16>) {
  // CHECK: mpcomm.collective_permute(%{{.*}}) {{.*}} : tensor<4xbf16>
  // CHECK: mpcomm.collective_gather(%{{.*}}) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK: mpcomm.collective_scatter(%{{.*}}) {{.*}} : (tensor<4xbf16>) -> tensor<2xbf16>
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %p = mpcomm.collective_permute(%w) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  %g = mpcomm.collective_gather(%w) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
  %s = mpcomm.collective_scatter(%y) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  %n = arith.truncf %s : tensor<2xf32> to tensor<2xbf16>
  return %p, %g, %n : tensor<4xf32>, tensor<8xf32>, tensor<2xbf16>
}

// Somebody else needs all bits; or the narrow side is right already.
// CHECK-LABEL: func.func @stays
func.func @stays(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf32>, tensor<8xf32>) {
  // CHECK-NEXT: mpcomm.collective_broadcast(%arg0) {{.*}} : tensor<4xf32>
  // CHECK-NEXT: arith.truncf
  // CHECK-NEXT: mpcomm.all_gather(%arg1) {{.*}} : (tensor<4xbf16>) -> tensor<8xbf16>
  // CHECK-NEXT: arith.extf
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  %n = arith.truncf %r : tensor<4xf32> to tensor<4xbf16>
  %g = mpcomm.all_gather(%y) on @mesh axes ["dp"] dims = [0] : (tensor<4xbf16>) -> tensor<8xbf16>
  %w = arith.extf %g : tensor<8xbf16> to tensor<8xf32>
  return %n, %r, %w : tensor<4xbf16>, tensor<4xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @reductions
// LOSSY-LABEL: func.func @reductions
func.func @reductions(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf16>, tensor<4xf32>) {
  // CHECK-NOT: wire
  // LOSSY: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean wire bf16 accumulate f32 : tensor<4xf32>
  // LOSSY: mpcomm.reduce_scatter(%{{.*}}) on @mesh axes ["dp"] sum wire f16 accumulate f32 dims = [0]
  // LOSSY: mpcomm.collective_reduce(%{{.*}}) on @mesh axes ["dp"] sum wire bf16 accumulate f32 root = 0
  // CHECK: return
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %r = mpcomm.all_reduce(%w) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = mpcomm.reduce_scatter(%y) on @mesh axes ["dp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  %n = arith.truncf %s : tensor<2xf32> to tensor<2xf16>
  %t = mpcomm.collective_reduce(%w) on @mesh axes ["dp"] sum root = 0 : tensor<4xf32>
  return %r, %n, %t : tensor<4xf32>, tensor<2xf16>, tensor<4xf32>
}

// A wire type that is declared is kept; so is a bucket of which one operand has
// all its bits.
// LOSSY-LABEL: func.func @declared
func.func @declared(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // LOSSY: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean wire f16 : tensor<4xf32>
  // LOSSY: mpcomm.all_reduce(%{{.*}}, %arg1) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<4xf32>
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %r = mpcomm.all_reduce(%w) on @mesh axes ["dp"] mean wire f16 : tensor<4xf32>
  %s:2 = mpcomm.all_reduce(%w, %y) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<4xf32>
  return %r, %s#0, %s#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
