// Collectives that are dead, or say again what another one said, go; two that
// make one are merged. With numerics=exact only what gives the same bits.

// RUN: mpcomm-opt %s --mpcomm-simplify-collectives --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact" --split-input-file | FileCheck %s --check-prefix=EXACT
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives --split-input-file --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: Dead{{.*}}Function=dead_chain | {{.*}}exact
// REMARK-DAG: SimplifyCollectives{{.*}}Function=dead_chain | after=1, before=3
// REMARK-DAG: Duplicate{{.*}}Function=duplicate
// REMARK-DAG: SimplifyCollectives{{.*}}Function=duplicate | after=2, before=3
mpcomm.mesh @mesh <["dp" = 4, "tp" = 2]>

// CHECK-LABEL: func.func @dead_chain
// EXACT-LABEL: func.func @dead_chain
func.func @dead_chain(%x: tensor<4xf32>) {
  // CHECK-NEXT: mpcomm.send(%arg0)
  // CHECK-NEXT: return
  // EXACT-NEXT: mpcomm.send(%arg0)
  // EXACT-NEXT: return
  %a = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<16xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["tp"] sum : tensor<16xf32>
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 : tensor<4xf32>
  return
}

// Another group, or another reduction, is another collective.
// CHECK-LABEL: func.func @duplicate
// EXACT-LABEL: func.func @duplicate
func.func @duplicate(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] sum
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] max
  // CHECK-NEXT: return %[[A]], %[[A]], %[[B]]
  // EXACT: return %[[A:.*]], %[[A]], %{{.*}}
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %b = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %c = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<4xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @mean_of_equal_values
// EXACT-LABEL: func.func @mean_of_equal_values
func.func @mean_of_equal_values(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0)
  // CHECK-NEXT: return %[[A]]
  // EXACT-COUNT-2: mpcomm.all_reduce
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL: func.func @max_of_equal_values
// EXACT-LABEL: func.func @max_of_equal_values
func.func @max_of_equal_values(%x: tensor<4xf32>) -> tensor<4xf32> {
  // EXACT-NEXT: %[[A:.*]] = mpcomm.collective_broadcast(%arg0)
  // EXACT-NEXT: return %[[A]]
  %a = mpcomm.collective_broadcast(%x) on @mesh axes ["dp", "tp"] root = 3 : tensor<4xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["dp"] max : tensor<4xf32>
  return %b : tensor<4xf32>
}

// Only what is equal leaves the bucket; its sum is n times it.
// CHECK-LABEL: func.func @sum_of_equal_values
func.func @sum_of_equal_values(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0)
  // CHECK-NEXT: %[[N:.*]] = arith.constant dense<4.000000e+00>
  // CHECK-NEXT: %[[NA:.*]] = arith.mulf %[[A]], %[[N]]
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%arg1)
  // CHECK-NEXT: return %[[B]], %[[NA]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %b:2 = mpcomm.all_reduce(%y, %a) on @mesh axes ["dp"] sum : tensor<2xf32>, tensor<4xf32>
  return %b#0, %b#1 : tensor<2xf32>, tensor<4xf32>
}

// A group that the inner one does not cover differs; a narrow wire rounds.
// CHECK-LABEL: func.func @not_equal
func.func @not_equal(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: mpcomm.all_reduce
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["dp", "tp"] max : tensor<4xf32>
  %c = mpcomm.all_reduce(%a) on @mesh axes ["dp"] max wire bf16 : tensor<4xf32>
  return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @scattered_gather
// EXACT-LABEL: func.func @scattered_gather
func.func @scattered_gather(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  // CHECK-NEXT: %[[N:.*]] = arith.constant dense<4>
  // CHECK-NEXT: %[[S:.*]] = arith.muli %arg0, %[[N]]
  // CHECK-NEXT: return %arg0, %[[S]]
  // EXACT-NEXT: %[[N:.*]] = arith.constant dense<4>
  // EXACT-NEXT: %[[S:.*]] = arith.muli %arg0, %[[N]]
  // EXACT-NEXT: return %arg0, %[[S]]
  %a = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xi32>) -> tensor<16xi32>
  %b = mpcomm.reduce_scatter(%a) on @mesh axes ["dp"] max dims = [0] : (tensor<16xi32>) -> tensor<4xi32>
  %c = mpcomm.reduce_scatter(%a) on @mesh axes ["dp"] sum dims = [0] : (tensor<16xi32>) -> tensor<4xi32>
  return %b, %c : tensor<4xi32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @gathered_scatter
// EXACT-LABEL: func.func @gathered_scatter
func.func @gathered_scatter(%x: tensor<16x2xf32>) -> tensor<16x2xf32> {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean
  // CHECK-NEXT: return %[[A]]
  // EXACT-NEXT: mpcomm.reduce_scatter
  // EXACT-NEXT: mpcomm.all_gather
  %a = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<16x2xf32>) -> tensor<4x2xf32>
  %b = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<4x2xf32>) -> tensor<16x2xf32>
  return %b : tensor<16x2xf32>
}

// The middle is needed, or the blocks come back along another dimension.
// CHECK-LABEL: func.func @scatter_kept
func.func @scatter_kept(%x: tensor<16x2xf32>) -> (tensor<16x2xf32>, tensor<4x2xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: mpcomm.reduce_scatter
  // CHECK-NEXT: mpcomm.all_gather
  // CHECK-NEXT: mpcomm.reduce_scatter
  // CHECK-NEXT: mpcomm.all_gather
  %a = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<16x2xf32>) -> tensor<4x2xf32>
  %b = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<4x2xf32>) -> tensor<16x2xf32>
  %c = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<16x2xf32>) -> tensor<4x2xf32>
  %d = mpcomm.all_gather(%c) on @mesh axes ["dp"] dims = [1] : (tensor<4x2xf32>) -> tensor<4x8xf32>
  return %b, %a, %d : tensor<16x2xf32>, tensor<4x2xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @exchanged_back
// EXACT-LABEL: func.func @exchanged_back
func.func @exchanged_back(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK-NEXT: return %arg0
  // EXACT-NEXT: return %arg0
  %a = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [1] : (tensor<8x4xf32>) -> tensor<2x16xf32>
  %b = mpcomm.all_to_all(%a) on @mesh axes ["dp"] split_dims = [1] concat_dims = [0] : (tensor<2x16xf32>) -> tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}

// Each keeps its own.
// CHECK-LABEL: func.func @permuted_to_self
func.func @permuted_to_self(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %arg0
  %a = mpcomm.collective_permute(%x) on @mesh axes ["tp"] source_target_pairs = [[0, 0], [1, 1]] : tensor<4xf32>
  return %a : tensor<4xf32>
}

// A rotation of what all have; one that leaves rank 0 without is left.
// CHECK-LABEL: func.func @permuted_equal_value
func.func @permuted_equal_value(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce
  // CHECK-NEXT: %[[P:.*]] = mpcomm.collective_permute(%[[A]]) {{.*}}{{\[\[}}0, 1]]
  // CHECK-NEXT: return %[[A]], %[[P]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["tp"] max : tensor<4xf32>
  %b = mpcomm.collective_permute(%a) on @mesh axes ["tp"] source_target_pairs = [[0, 1], [1, 0]] : tensor<4xf32>
  %c = mpcomm.collective_permute(%a) on @mesh axes ["tp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// 0 to 1 to 2, 1 to 2 to 3; what 2 got from nobody it gives to nobody.
// CHECK-LABEL: func.func @permuted_twice
func.func @permuted_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.collective_permute(%arg0) on @mesh axes ["dp"] source_target_pairs = {{\[\[}}0, 2], [1, 3]] : tensor<4xf32>
  // CHECK-NEXT: return %[[A]], %arg0
  %a = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 2]] : tensor<4xf32>
  %b = mpcomm.collective_permute(%a) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 2], [2, 3]] : tensor<4xf32>
  %c = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 2], [2, 3], [3, 0]] : tensor<4xf32>
  %d = mpcomm.collective_permute(%c) on @mesh axes ["dp"] source_target_pairs = [[1, 0], [2, 1], [3, 2], [0, 3]] : tensor<4xf32>
  return %b, %d : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @merged_axes
// EXACT-LABEL: func.func @merged_axes
func.func @merged_axes(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[R:.*]]:2 = mpcomm.all_reduce(%arg0, %arg1) on @mesh axes ["tp", "dp"] mean
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1
  // EXACT-COUNT-2: mpcomm.all_reduce
  %a:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["tp"] mean : tensor<4xf32>, tensor<2xf32>
  %b:2 = mpcomm.all_reduce(%a#0, %a#1) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<2xf32>
  return %b#0, %b#1 : tensor<4xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @slice_first
// EXACT-LABEL: func.func @slice_first
func.func @slice_first(%x: tensor<8xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[S:.*]] = mpcomm.slice %arg0, starts = [2], limits = [4]
  // CHECK-NEXT: %[[R:.*]]:2 = mpcomm.all_reduce(%[[S]], %arg1)
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1
  // EXACT-NEXT: mpcomm.all_reduce(%arg0, %arg1)
  %a:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] sum : tensor<8xf32>, tensor<2xf32>
  %b = mpcomm.slice %a#0, starts = [2], limits = [4], strides = [1] : (tensor<8xf32>) -> tensor<2xf32>
  return %b, %a#1 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @own_block
// EXACT-LABEL: func.func @own_block
func.func @own_block(%x: tensor<8xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[R:.*]] = mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp"] mean dims = [0]
  // CHECK-NEXT: return %[[R]], %arg1
  // EXACT-NEXT: mpcomm.all_reduce
  // EXACT-NEXT: mpcomm.all_slice
  // EXACT-NEXT: return %{{.*}}, %arg1
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<8xf32>
  %b = mpcomm.all_slice %a on @mesh axes ["dp"] dim = 0 : (tensor<8xf32>) -> tensor<2xf32>
  %c = mpcomm.all_gather(%y) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  %d = mpcomm.all_slice %c on @mesh axes ["dp"] dim = 0 : (tensor<8xf32>) -> tensor<2xf32>
  return %b, %d : tensor<2xf32>, tensor<2xf32>
}

// What is made is simplified in turn: here down to one.
// CHECK-LABEL: func.func @cascade
func.func @cascade(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean
  // CHECK-NEXT: return %[[R]]
  %a = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %b = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  %c = mpcomm.all_reduce(%b) on @mesh axes ["dp"] min : tensor<8xf32>
  %d = mpcomm.collective_broadcast(%c) on @mesh axes ["dp"] root = 0 : tensor<8xf32>
  return %d : tensor<8xf32>
}

// What runs asynchronously stays.
// CHECK-LABEL: func.func @async
func.func @async(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: mpcomm.async
  // CHECK-NEXT: mpcomm.all_reduce
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %v = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %v : tensor<4xf32>
}

// An all_slice may stand where not every rank comes by: no collective is made
// there. Nor in a loop, where it would run more often.
// CHECK-LABEL: func.func @only_in_its_block
func.func @only_in_its_block(%x: tensor<8xf32>, %z: tensor<2xf32>, %c: i1, %n: index)
    -> (tensor<2xf32>, tensor<8xf32>) {
  // CHECK: mpcomm.all_reduce(%arg0)
  // CHECK: mpcomm.reduce_scatter(%arg0)
  // CHECK: scf.if
  // CHECK-NEXT: mpcomm.all_slice
  // CHECK: scf.for
  // CHECK-NEXT: mpcomm.all_gather
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<8xf32>
  %b = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %o = scf.if %c -> tensor<2xf32> {
    %s = mpcomm.all_slice %a on @mesh axes ["dp"] dim = 0 : (tensor<8xf32>) -> tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  } else {
    scf.yield %z : tensor<2xf32>
  }
  %w = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> tensor<8xf32> {
    %g = mpcomm.all_gather(%b) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
    %t = arith.addf %v, %g : tensor<8xf32>
    scf.yield %t : tensor<8xf32>
  }
  return %o, %w : tensor<2xf32>, tensor<8xf32>
}

// Axes in another order are the same group.
// CHECK-LABEL: func.func @axes_in_any_order
func.func @axes_in_any_order(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: return %arg0
  %a = mpcomm.all_gather(%x) on @mesh axes ["dp", "tp"] dims = [0] : (tensor<2xf32>) -> tensor<16xf32>
  %b = mpcomm.all_slice %a on @mesh axes ["tp", "dp"] dim = 0 : (tensor<16xf32>) -> tensor<2xf32>
  return %b : tensor<2xf32>
}
