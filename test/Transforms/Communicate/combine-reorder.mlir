// Buckets are planned against the order that a schedule gives. The gradients of
// the inputs come first (a chain of 64^3 products, 524.3 us each), those of the
// weights last (broadcasts, which take nothing here; 262144 bytes, reduced in
// 20 + 262.1 us on the cluster of Inputs/one-level.json). All are ready at once
// in that order, so the first pass makes one bucket of them: 20 + 4 * 262.1 us
// after what the last one needs, three products: 2641.4 us. The schedule of
// single gradients has each as soon as the chain allows; for that order three
// buckets hide under the chain: 4 * 524.3 us. (Of the plans that do, the one
// with the fewest collectives is taken.)

// DEFINE: %{cluster} = cluster=%S/Inputs/one-level.json
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="%{cluster} reorder" --remarks-filter="mpcomm.*" --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// REMARK: Order | {{.*}}bound_us=2097.2, compute_us=2097.2, first_us=2641.4, order_bound_us=2097.2, predicted_us=2097.2, reordered=true

// What comes of both after the schedule; the second round wins.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="%{cluster}" --mpcomm-make-async --mpcomm-schedule-overlap="%{cluster}" -o %t.first
// RUN: mpcomm-sim %t.first --%{cluster} | FileCheck %s --check-prefix=FIRST
// FIRST: step 2641.4 us
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="%{cluster} reorder" --mpcomm-make-async --mpcomm-schedule-overlap="%{cluster}" --mpcomm-verify-scheduled-programs --mpcomm-verify-shardings -o %t.joint
// RUN: mpcomm-sim %t.joint --%{cluster} | FileCheck %s --check-prefix=JOINT
// JOINT: step 2097.2 us

// No more candidates than max-nodes.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="%{cluster} reorder max-nodes=3" --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: OrderKept | {{.*}}the step has more collectives to merge than max-nodes

mpcomm.mesh @mesh <["dp" = 2]>

// CHECK-LABEL: func.func @backward
// CHECK: %[[G0:.*]] = mpcomm.broadcast_in_dim
// CHECK-NEXT: mpcomm.dot_general
// CHECK: %[[G1:.*]] = mpcomm.broadcast_in_dim
// CHECK-NEXT: mpcomm.all_reduce(%[[G0]], %[[G1]])
// CHECK-NEXT: mpcomm.dot_general
// CHECK: %[[G2:.*]] = mpcomm.broadcast_in_dim
// CHECK-NEXT: mpcomm.all_reduce(%[[G2]])
// CHECK-NEXT: mpcomm.dot_general
// CHECK: %[[G3:.*]] = mpcomm.broadcast_in_dim
// CHECK-NEXT: mpcomm.all_reduce(%[[G3]])
// CHECK-NEXT: mpcomm.dot_general
func.func @backward(%d0: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>) {
  %d1 = mpcomm.dot_general %d0, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d2 = mpcomm.dot_general %d1, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d3 = mpcomm.dot_general %d2, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d4 = mpcomm.dot_general %d3, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s0 = mpcomm.slice %d0, starts = [0, 0], limits = [1, 64], strides = [1, 1] : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %g0 = mpcomm.broadcast_in_dim %s0, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1024x64xf32>
  %s1 = mpcomm.slice %d1, starts = [0, 0], limits = [1, 64], strides = [1, 1] : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %g1 = mpcomm.broadcast_in_dim %s1, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1024x64xf32>
  %s2 = mpcomm.slice %d2, starts = [0, 0], limits = [1, 64], strides = [1, 1] : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %g2 = mpcomm.broadcast_in_dim %s2, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1024x64xf32>
  %s3 = mpcomm.slice %d3, starts = [0, 0], limits = [1, 64], strides = [1, 1] : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %g3 = mpcomm.broadcast_in_dim %s3, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<1024x64xf32>
  %r0 = mpcomm.all_reduce(%g0) on @mesh axes ["dp"] mean : tensor<1024x64xf32>
  %r1 = mpcomm.all_reduce(%g1) on @mesh axes ["dp"] mean : tensor<1024x64xf32>
  %r2 = mpcomm.all_reduce(%g2) on @mesh axes ["dp"] mean : tensor<1024x64xf32>
  %r3 = mpcomm.all_reduce(%g3) on @mesh axes ["dp"] mean : tensor<1024x64xf32>
  return %d4, %r0, %r1, %r2, %r3 : tensor<64x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32>
}
