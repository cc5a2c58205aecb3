// The order found joins %t and %b in one kernel (there is no product between
// them any more), which reads %u when the gathered %g is there already: 8192
// bytes more than the scheduler counts, and than the input takes. The bound is
// kept all the same, with the computation where it was. Cluster: see
// memory-bound.mlir.

// RUN: mpcomm-opt %s --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json" -o %t.free
// RUN: mpcomm-sim %t.free --cluster=%S/Inputs/one-level.json | FileCheck %s --check-prefix=FREE
// FREE: peak memory 91136 bytes
// RUN: mpcomm-opt %s --remarks-filter="mpcomm.*" --remark-format=emitRemark \
// RUN:   --mpcomm-schedule-overlap="cluster=%S/Inputs/one-level.json memory-bytes=82944" -o %t.bound 2>&1 | FileCheck %s
// CHECK: ScheduleOverlap | {{.*}}input_us=1847.8, memory_cost_us=100.9, peak_bytes=82944, predicted_us=1682.4
// RUN: mpcomm-sim %t.bound --cluster=%S/Inputs/one-level.json | FileCheck %s --check-prefix=BOUND
// BOUND: step 1682.4 us
// BOUND: peak memory 82944 bytes

mpcomm.mesh @mesh <["dp" = 16]>

func.func @fused_anew(%x: tensor<64x64xf32>, %c: tensor<4x64xf32>, %v: tensor<64x32xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x32xf32>) {
  %u = mpcomm.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = mpcomm.dot_general %c, %u, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %t = math.exp %u : tensor<64x64xf32>
  %d = mpcomm.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %f0 = mpcomm.async {
    %0 = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] : (tensor<4x64xf32>) -> tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %g = mpcomm.await %f0 : !mpcomm.future<tensor<64x64xf32>>
  %b = arith.mulf %t, %g : tensor<64x64xf32>
  %f1 = mpcomm.async {
    %0 = mpcomm.all_reduce(%b) on @mesh axes ["dp"] sum : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %y = mpcomm.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f2 = mpcomm.async {
    %0 = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<64x64xf32>
    mpcomm.yield %0 : tensor<64x64xf32>
  } : !mpcomm.future<tensor<64x64xf32>>
  %b1 = mpcomm.await %f1 : !mpcomm.future<tensor<64x64xf32>>
  %y1 = mpcomm.await %f2 : !mpcomm.future<tensor<64x64xf32>>
  return %b1, %y1, %d : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x32xf32>
}
