// Axes of size one are no reason to communicate.

// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: GroupOfOne{{.*}}Function=each | {{.*}}exact
// REMARK-DAG: SimplifyCollectives{{.*}}Function=each | after=0, before=6
// REMARK-DAG: AxesOfOne{{.*}}Function=other_axes | {{.*}}exact

mpcomm.mesh @mesh <["pp" = 1, "dp" = 2, "tp" = 1]>

// CHECK-LABEL: func.func @each
func.func @each(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>,
                                         tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK-NEXT: return %arg0, %arg0, %arg0, %arg0, %arg0, %arg0
  mpcomm.barrier on @mesh axes ["tp"]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["tp"] mean : tensor<4x4xf32>
  %b = mpcomm.reduce_scatter(%x) on @mesh axes ["pp"] sum dims = [0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = mpcomm.all_gather(%x) on @mesh axes ["pp", "tp"] dims = [1] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = mpcomm.all_to_all(%x) on @mesh axes ["tp"] split_dims = [0] concat_dims = [1] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = mpcomm.collective_broadcast(%x) on @mesh axes ["tp"] root = 0 : tensor<4x4xf32>
  %f = mpcomm.all_slice %x on @mesh axes ["tp"] dim = 0 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a, %b, %c, %d, %e, %f : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// With one that is larger the group is that one's.
// CHECK-LABEL: func.func @other_axes
func.func @other_axes(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: mpcomm.barrier on @mesh axes ["dp"]
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] sum
  // CHECK-NEXT: return %[[A]], %arg1
  mpcomm.barrier on @mesh axes ["dp"]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["pp", "dp", "tp"] sum : tensor<4xf32>
  %b = mpcomm.all_gather(%y) on @mesh axes ["dp", "tp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
  %c = mpcomm.all_slice %b on @mesh axes ["dp"] dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  return %a, %c : tensor<4xf32>, tensor<2xf32>
}

// What is alone still has the bits of the wire.
// CHECK-LABEL: func.func @wire
func.func @wire(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>) {
  // CHECK-NEXT: %[[N:.*]] = arith.truncf %arg0 : tensor<4xf32> to tensor<4xbf16>
  // CHECK-NEXT: %[[W:.*]] = arith.extf %[[N]] : tensor<4xbf16> to tensor<4xf32>
  // CHECK-NEXT: return %[[W]], %arg1
  %a = mpcomm.all_reduce(%x) on @mesh axes ["tp"] mean wire bf16 accumulate f32 : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["tp"] mean wire bf16 accumulate f32 : tensor<4xbf16>
  return %a, %b : tensor<4xf32>, tensor<4xbf16>
}

// Sends and receives meet one another, and what runs asynchronously stays.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: mpcomm.send(%arg0)
  // CHECK-NEXT: mpcomm.recv
  // CHECK-NEXT: mpcomm.async
  // CHECK-NEXT: mpcomm.barrier on @mesh axes ["tp"]
  mpcomm.send(%x) on @mesh axes ["tp"] to = 0 : tensor<4xf32>
  %r = mpcomm.recv on @mesh axes ["tp"] from = 0 : tensor<4xf32>
  %f = mpcomm.async {
    mpcomm.barrier on @mesh axes ["tp"]
    mpcomm.yield
  } : !mpcomm.future<>
  mpcomm.await %f : !mpcomm.future<>
  return %r : tensor<4xf32>
}

// A rank that is no target of a permute gets zeros, and so does the only one.
// CHECK-LABEL: func.func @no_target
func.func @no_target(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<4xf32>
  // CHECK-NEXT: return %[[ZERO]]
  %r = mpcomm.collective_permute(%x) on @mesh axes ["tp"] source_target_pairs = [] : tensor<4xf32>
  return %r : tensor<4xf32>
}
