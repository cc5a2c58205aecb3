// What follows from tensors that a later kernel reads is computed again there.

// RUN: mpcomm-opt %s --mpcomm-recompute-elementwise --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-recompute-elementwise --cse --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-recompute-elementwise --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// A gate in 16 bits: the second product reads gate and x. Of the 2 * 8 * 64
// bytes that 64 elements of the narrowed gate take, none are moved.
// REMARK: Recomputed{{.*}}Function=gate | bytes=256, ops=3, values=1
// CHECK-LABEL: func.func @gate(
// CHECK-SAME: %[[A:.*]]: tensor<8x8xbf16>, %[[W:.*]]: tensor<8x8xbf16>)
// CHECK: %[[X:.*]] = mpcomm.dot_general %[[A]], %[[W]]
// CHECK: %[[Y:.*]] = mpcomm.dot_general %{{.*}}, %[[W]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[X]] {mpcomm.recomputed}
// CHECK: %[[NEG:.*]] = arith.negf %[[WIDE]] {mpcomm.recomputed}
// CHECK: %[[E:.*]] = math.exp %[[NEG]] {mpcomm.recomputed}
// CHECK: %[[N:.*]] = arith.truncf %[[E]] : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK: %[[M:.*]] = arith.mulf %[[Y]], %[[N]]
// CHECK: arith.addf %[[M]], %[[X]]
func.func @gate(%a: tensor<8x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %x = mpcomm.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %wide = arith.extf %x : tensor<8x8xbf16> to tensor<8x8xf32>
  %neg = arith.negf %wide : tensor<8x8xf32>
  %e = math.exp %neg : tensor<8x8xf32>
  %gated = arith.mulf %e, %wide : tensor<8x8xf32>
  %narrow = arith.truncf %gated : tensor<8x8xf32> to tensor<8x8xbf16>
  %y = mpcomm.dot_general %narrow, %w, contracting_dims = [1] x [0] : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %n = arith.truncf %e : tensor<8x8xf32> to tensor<8x8xbf16>
  %m = arith.mulf %y, %n : tensor<8x8xbf16>
  %r = arith.addf %m, %x : tensor<8x8xbf16>
  return %r : tensor<8x8xbf16>
}

// -----

// Nobody reads x later, and the product has the exponential in memory: to read
// x instead is no gain.
// REMARK: Recomputed{{.*}}Function=kept | bytes=0, ops=0, values=0
// CHECK-LABEL: func.func @kept(
// CHECK-NOT: mpcomm.recomputed
// CHECK: return
func.func @kept(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = math.exp %x : tensor<8x8xf32>
  %p = mpcomm.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = arith.mulf %p, %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----

// Of rows that are normalised by a small tensor, that one is read besides. The
// product has them in memory: they are written, but not read again.
// REMARK: Recomputed{{.*}}Function=rows | bytes=2048, ops=1, values=1
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:.*]]: tensor<8x64xf32>, %[[W:.*]]: tensor<64x64xf32>, %[[S:.*]]: tensor<8xf32>)
// CHECK: %[[B:.*]] = mpcomm.broadcast_in_dim %[[S]]
// CHECK: mpcomm.dot_general
// CHECK: %[[N:.*]] = arith.mulf %[[X]], %[[B]] {mpcomm.recomputed}
// CHECK: arith.mulf %{{.*}}, %[[N]]
func.func @rows(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>, %s: tensor<8xf32>) -> tensor<8x64xf32> {
  %b = mpcomm.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %n = arith.mulf %x, %b : tensor<8x64xf32>
  %p = mpcomm.dot_general %n, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %z = arith.mulf %p, %n : tensor<8x64xf32>
  %r = arith.addf %z, %x : tensor<8x64xf32>
  return %r : tensor<8x64xf32>
}

// -----

// A norm in f32, of which the backward pass has input and result in 16 bits:
// the sum in f32 is in memory for the next sum, and is read instead. 4 * 1024
// bytes are not written and read, 2048 are read. Both casts are where they are
// needed.
// REMARK: Recomputed{{.*}}Function=norm | bytes=2048, ops=1, values=2
// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %[[X:.*]]: tensor<8x64xf32>, %[[P:.*]]: tensor<8x64xf32>, %[[S:.*]]: tensor<8xf32>, %[[W:.*]]: tensor<64x64xbf16>)
// CHECK: %[[SUM:.*]] = arith.addf %[[X]], %[[P]]
// CHECK: %[[B:.*]] = mpcomm.broadcast_in_dim %[[S]]
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.dot_general
// CHECK-DAG: %[[INPUT:.*]] = arith.truncf %[[SUM]]
// CHECK-DAG: %[[AGAIN:.*]] = arith.mulf %[[SUM]], %[[B]] {mpcomm.recomputed}
// CHECK: %[[RESULT:.*]] = arith.truncf %[[AGAIN]]
// CHECK: %[[D:.*]] = arith.mulf %{{.*}}, %[[RESULT]]
// CHECK: arith.addf %[[D]], %[[INPUT]]
func.func @norm(%x: tensor<8x64xf32>, %p: tensor<8x64xf32>, %s: tensor<8xf32>, %w: tensor<64x64xbf16>) -> (tensor<8x64xf32>, tensor<8x64xbf16>) {
  %sum = arith.addf %x, %p : tensor<8x64xf32>
  %input = arith.truncf %sum : tensor<8x64xf32> to tensor<8x64xbf16>
  %b = mpcomm.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %n = arith.mulf %sum, %b : tensor<8x64xf32>
  %result = arith.truncf %n : tensor<8x64xf32> to tensor<8x64xbf16>
  %scaled = arith.mulf %n, %n : tensor<8x64xf32>
  %narrow = arith.truncf %scaled : tensor<8x64xf32> to tensor<8x64xbf16>
  %y = mpcomm.dot_general %narrow, %w, contracting_dims = [1] x [0] : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %wide = arith.extf %y : tensor<8x64xbf16> to tensor<8x64xf32>
  %next = arith.addf %sum, %wide : tensor<8x64xf32>
  %nn = arith.truncf %next : tensor<8x64xf32> to tensor<8x64xbf16>
  %z = mpcomm.dot_general %nn, %w, contracting_dims = [1] x [0] : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %d = arith.mulf %z, %result : tensor<8x64xbf16>
  %e = arith.addf %d, %input : tensor<8x64xbf16>
  return %next, %e : tensor<8x64xf32>, tensor<8x64xbf16>
}
