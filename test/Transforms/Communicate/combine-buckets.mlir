// reduce_scatter, all_gather and all_to_all share buckets as all_reduce does, each
// with its own kind, channel and type; what is gathered is there at its first use.
//
// The cluster of Inputs/one-level.json: 1e9 flop/s, 10 us a message, 1e9 B/s. A
// product of two 32 x 32 matrices takes 65.5 us (32^3 multiply-adds).

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="policy=one" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json" | FileCheck %s --check-prefix=SOLVED
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

mpcomm.mesh @mesh <["dp" = 2]>

// Dimensions are joined; kinds, channels, types and reductions are apart.
// CHECK-LABEL: func.func @kinds
// CHECK-DAG: mpcomm.reduce_scatter(%arg0, %arg1) on @mesh axes ["dp"] sum dims = [0, 1] : (tensor<4x2xf32>, tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
// CHECK-DAG: mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp"] sum dims = [0] channel = 1 : (tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-DAG: mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp"] mean dims = [0] : (tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-DAG: mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp"] sum wire bf16 dims = [0] : (tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK-DAG: mpcomm.all_to_all(%arg0, %arg1) on @mesh axes ["dp"] split_dims = [0, 1] concat_dims = [1, 0] : (tensor<4x2xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4x2xf32>)
// CHECK-DAG: mpcomm.all_gather(%arg0, %arg1) on @mesh axes ["dp"] dims = [1, 0] : (tensor<4x2xf32>, tensor<2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK-DAG: mpcomm.all_gather(%arg2) on @mesh axes ["dp"] dims = [0] : (tensor<2xbf16>) -> tensor<4xbf16>
func.func @kinds(%x: tensor<4x2xf32>, %y: tensor<2x4xf32>, %n: tensor<2xbf16>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xbf16>) {
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %1 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] channel = 1 : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %2 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %3 = mpcomm.reduce_scatter(%y) on @mesh axes ["dp"] sum dims = [1] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %4 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum wire bf16 dims = [0] : (tensor<4x2xf32>) -> tensor<2x2xf32>
  %5 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %6 = mpcomm.all_to_all(%y) on @mesh axes ["dp"] split_dims = [1] concat_dims = [0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %7 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [1] : (tensor<4x2xf32>) -> tensor<4x4xf32>
  %8 = mpcomm.all_gather(%y) on @mesh axes ["dp"] dims = [0] : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %9 = mpcomm.all_gather(%n) on @mesh axes ["dp"] dims = [0] : (tensor<2xbf16>) -> tensor<4xbf16>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xbf16>
}

// Gathers of weights before products that take 65.5 us each. A gather of one
// takes 10 + 2.0 us, of n 10 + 2.0 n. The first product waits for the first
// bucket, so that holds the first weight alone: 12.0 us are exposed, and the
// others have 65.5 us to arrive as one: 12.0 + 4 * 65.5 = 274.2 us. One gather
// for each weight ends as early, so the bound is met with the fewest.
// SOLVED-LABEL: func.func @weights
// SOLVED-NEXT: %[[G0:.*]] = mpcomm.all_gather(%arg1) on
// SOLVED-NEXT: %[[G:.*]]:3 = mpcomm.all_gather(%arg2, %arg3, %arg4) on @mesh axes ["dp"] dims = [0, 0, 0]
// SOLVED-NEXT: mpcomm.dot_general %arg0, %[[G0]]
// SOLVED-NEXT: mpcomm.dot_general %{{.*}}, %[[G]]#0
// SOLVED-NEXT: mpcomm.dot_general %{{.*}}, %[[G]]#1
// SOLVED-NEXT: mpcomm.dot_general %{{.*}}, %[[G]]#2
// REMARK: BucketPlan | {{.*}}Function=weights | bound_us=274.2, buckets=2, input_us=274.2, predicted_us=274.2, rule=solved, tensors=4
func.func @weights(%x: tensor<32x32xf32>, %w0: tensor<16x32xf32>, %w1: tensor<16x32xf32>, %w2: tensor<16x32xf32>, %w3: tensor<16x32xf32>) -> tensor<32x32xf32> {
  %g0 = mpcomm.all_gather(%w0) on @mesh axes ["dp"] dims = [0] : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %a = mpcomm.dot_general %x, %g0, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %g1 = mpcomm.all_gather(%w1) on @mesh axes ["dp"] dims = [0] : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %b = mpcomm.dot_general %a, %g1, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %g2 = mpcomm.all_gather(%w2) on @mesh axes ["dp"] dims = [0] : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %c = mpcomm.dot_general %b, %g2, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %g3 = mpcomm.all_gather(%w3) on @mesh axes ["dp"] dims = [0] : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %d = mpcomm.dot_general %c, %g3, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %d : tensor<32x32xf32>
}
