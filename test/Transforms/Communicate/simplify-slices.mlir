// An all_slice of an all_reduce, reshaped or over fewer axes, is a
// reduce_scatter.

// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="cluster=%S/Inputs/nodes-of-four.json" --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact cluster=%S/Inputs/nodes-of-four.json" \
// RUN:   --split-input-file | FileCheck %s --check-prefix=EXACT
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="cluster=%S/Inputs/nodes-of-four.json" --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: SlicedReduction{{.*}}Function=reshaped | {{.*}}exact
// REMARK-DAG: SlicedOverSome{{.*}}Function=over_some | {{.*}}reassociating
// REMARK-DAG: SlicedOverSome{{.*}}Function=integers | {{.*}}exact

mpcomm.mesh @mesh <["o" = 2, "i" = 4]>

// CHECK-LABEL: func.func @reshaped
// EXACT-LABEL: func.func @reshaped
func.func @reshaped(%x: tensor<8x6xf32>) -> tensor<4x2x3xf32> {
  // CHECK-NEXT: %[[X:.*]] = mpcomm.reshape %arg0 : (tensor<8x6xf32>) -> tensor<4x4x3xf32>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.reduce_scatter(%[[X]]) on @mesh axes ["o"] sum dims = [1] : (tensor<4x4x3xf32>) -> tensor<4x2x3xf32>
  // CHECK-NEXT: return %[[R]]
  // In groups of two no place is another one's.
  // EXACT-NEXT: mpcomm.reshape %arg0
  // EXACT-NEXT: mpcomm.reduce_scatter
  %a = mpcomm.all_reduce(%x) on @mesh axes ["o"] sum : tensor<8x6xf32>
  %b = mpcomm.reshape %a : (tensor<8x6xf32>) -> tensor<48xf32>
  %c = mpcomm.reshape %b : (tensor<48xf32>) -> tensor<4x4x3xf32>
  %d = mpcomm.all_slice %c on @mesh axes ["o"] dim = 1 : (tensor<4x4x3xf32>) -> tensor<4x2x3xf32>
  return %d : tensor<4x2x3xf32>
}

// Somebody else needs all of it, as it is or reshaped; groups of four have sums
// that depend on the place.
// CHECK-LABEL: func.func @reshape_kept
// EXACT-LABEL: func.func @reshape_kept
func.func @reshape_kept(%x: tensor<8xf32>) -> (tensor<2xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<8xf32>, tensor<2xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: mpcomm.reshape
  // CHECK-NEXT: mpcomm.all_slice
  // CHECK: mpcomm.all_reduce
  // CHECK-NEXT: mpcomm.reshape
  // CHECK-NEXT: mpcomm.all_slice
  // CHECK: mpcomm.reduce_scatter
  // EXACT-COUNT-3: mpcomm.all_reduce
  // EXACT-NEXT: mpcomm.reshape
  // EXACT-NEXT: mpcomm.all_slice
  %a = mpcomm.all_reduce(%x) on @mesh axes ["i"] sum : tensor<8xf32>
  %b = mpcomm.reshape %a : (tensor<8xf32>) -> tensor<2x4xf32>
  %c = mpcomm.all_slice %b on @mesh axes ["i"] dim = 1 : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = mpcomm.reshape %c : (tensor<2x1xf32>) -> tensor<2xf32>
  %e = mpcomm.all_reduce(%x) on @mesh axes ["i"] mean : tensor<8xf32>
  %f = mpcomm.reshape %e : (tensor<8xf32>) -> tensor<4x2xf32>
  %g = mpcomm.all_slice %f on @mesh axes ["i"] dim = 0 : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %h = mpcomm.reshape %g : (tensor<1x2xf32>) -> tensor<2xf32>
  %i = mpcomm.all_reduce(%x) on @mesh axes ["i"] prod : tensor<8xf32>
  %j = mpcomm.reshape %i : (tensor<8xf32>) -> tensor<4x2xf32>
  %k = mpcomm.all_slice %j on @mesh axes ["i"] dim = 0 : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %l = mpcomm.reshape %k : (tensor<1x2xf32>) -> tensor<2xf32>
  return %d, %b, %h, %e, %l : tensor<2xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<8xf32>, tensor<2xf32>
}

// Four ranks of a node each reduce a quarter; two nodes add them.
// CHECK-LABEL: func.func @over_some
// EXACT-LABEL: func.func @over_some
func.func @over_some(%x: tensor<1024xf32>) -> tensor<4x64xf32> {
  // CHECK-NEXT: %[[X:.*]] = mpcomm.reshape %arg0 : (tensor<1024xf32>) -> tensor<4x256xf32>
  // CHECK-NEXT: %[[S:.*]] = mpcomm.reduce_scatter(%[[X]]) on @mesh axes ["i"] mean dims = [1] : (tensor<4x256xf32>) -> tensor<4x64xf32>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["o"] mean : tensor<4x64xf32>
  // CHECK-NEXT: return %[[R]]
  // EXACT-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["o", "i"] mean
  // EXACT-NEXT: mpcomm.reshape
  // EXACT-NEXT: mpcomm.all_slice
  %a = mpcomm.all_reduce(%x) on @mesh axes ["o", "i"] mean : tensor<1024xf32>
  %b = mpcomm.reshape %a : (tensor<1024xf32>) -> tensor<4x256xf32>
  %c = mpcomm.all_slice %b on @mesh axes ["i"] dim = 1 : (tensor<4x256xf32>) -> tensor<4x64xf32>
  return %c : tensor<4x64xf32>
}

// EXACT-LABEL: func.func @integers
func.func @integers(%x: tensor<1024xi32>) -> tensor<256xi32> {
  // EXACT-NEXT: %[[S:.*]] = mpcomm.reduce_scatter(%arg0) on @mesh axes ["i"] sum dims = [0]
  // EXACT-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["o"] sum
  // EXACT-NEXT: return %[[R]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["o", "i"] sum : tensor<1024xi32>
  %b = mpcomm.all_slice %a on @mesh axes ["i"] dim = 0 : (tensor<1024xi32>) -> tensor<256xi32>
  return %b : tensor<256xi32>
}

// A slice over an axis that is not reduced; what the wire rounds.
// CHECK-LABEL: func.func @other_axis
func.func @other_axis(%x: tensor<8xf32>) -> (tensor<1xf32>, tensor<2xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["i"] sum
  // CHECK-NEXT: mpcomm.all_slice
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["o", "i"] sum wire bf16
  // CHECK-NEXT: mpcomm.all_slice
  %a = mpcomm.all_reduce(%x) on @mesh axes ["i"] sum : tensor<8xf32>
  %b = mpcomm.all_slice %a on @mesh axes ["o", "i"] dim = 0 : (tensor<8xf32>) -> tensor<1xf32>
  %c = mpcomm.all_reduce(%x) on @mesh axes ["o", "i"] sum wire bf16 accumulate f32 : tensor<8xf32>
  %d = mpcomm.all_slice %c on @mesh axes ["i"] dim = 0 : (tensor<8xf32>) -> tensor<2xf32>
  return %b, %d : tensor<1xf32>, tensor<2xf32>
}

// -----

// Two nodes of four, sliced over the nodes, by halving. In place: latency
// 2 (2 x 1 + 10) us; each byte 2 x 3/4 / 1e9 s in the node and
// 2 x 1/2 / 4 / 1e7 s between nodes. As a reduce_scatter over nodes and an
// all_reduce of half inside: 10 + 2 x 2 us; 1/2 / 1e7 and
// 2 x 3/4 / 2 / 1e9 s. So 24 + 0.0265 n us against 14 + 0.05075 n us: the
// second is less for up to 412 bytes.

mpcomm.mesh @mesh <["i" = 2, "o" = 4]>

// CHECK-LABEL: func.func @small
func.func @small(%x: tensor<64xf32>) -> tensor<32xf32> {
  // CHECK-NEXT: mpcomm.reduce_scatter(%arg0) on @mesh axes ["i"] sum
  // CHECK-NEXT: mpcomm.all_reduce({{.*}}) on @mesh axes ["o"] sum
  %a = mpcomm.all_reduce(%x) on @mesh axes ["i", "o"] sum : tensor<64xf32>
  %b = mpcomm.all_slice %a on @mesh axes ["i"] dim = 0 : (tensor<64xf32>) -> tensor<32xf32>
  return %b : tensor<32xf32>
}

// CHECK-LABEL: func.func @large
func.func @large(%x: tensor<128xf32>) -> tensor<64xf32> {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["i", "o"] sum
  // CHECK-NEXT: mpcomm.all_slice
  %a = mpcomm.all_reduce(%x) on @mesh axes ["i", "o"] sum : tensor<128xf32>
  %b = mpcomm.all_slice %a on @mesh axes ["i"] dim = 0 : (tensor<128xf32>) -> tensor<64xf32>
  return %b : tensor<64xf32>
}
