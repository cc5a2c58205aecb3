// Reductions of what all ranks have: where a function's arguments have roles, the
// analysis of what differs between ranks says so.

// RUN: mpcomm-opt %s --mpcomm-simplify-collectives --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact" --split-input-file | FileCheck %s --check-prefix=EXACT

mpcomm.mesh @mesh <["dp" = 4, "tp" = 8]>

// Three or four times a value is rounded once however it is summed; eight times
// it may be rounded on the way. n times it may overflow before the division.
// CHECK-LABEL: func.func @train_step
// EXACT-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[N:.*]] = arith.negf %arg0
  // CHECK-NEXT: %[[C4:.*]] = arith.constant dense<4.000000e+00>
  // CHECK-NEXT: %[[S4:.*]] = arith.mulf %[[N]], %[[C4]]
  // CHECK-NEXT: %[[C8:.*]] = arith.constant dense<8.000000e+00>
  // CHECK-NEXT: %[[S8:.*]] = arith.mulf %[[N]], %[[C8]]
  // CHECK-NEXT: %[[X:.*]] = mpcomm.all_reduce(%arg1) on @mesh axes ["dp"] max
  // CHECK-NEXT: return %[[S4]], %[[S8]], %[[N]], %[[N]], %[[X]]
  // EXACT: arith.mulf
  // EXACT-NEXT: mpcomm.all_reduce({{.*}}) on @mesh axes ["tp"] sum
  // EXACT-NEXT: mpcomm.all_reduce({{.*}}) on @mesh axes ["dp"] mean
  // EXACT-NEXT: mpcomm.all_reduce(%arg1)
  // EXACT-NEXT: return
  %n = arith.negf %w : tensor<8xf32>
  %a = mpcomm.all_reduce(%n) on @mesh axes ["dp"] sum : tensor<8xf32>
  %b = mpcomm.all_reduce(%n) on @mesh axes ["tp"] sum : tensor<8xf32>
  %c = mpcomm.all_reduce(%n) on @mesh axes ["dp"] mean : tensor<8xf32>
  %d = mpcomm.all_reduce(%n) on @mesh axes ["dp", "tp"] min : tensor<8xf32>
  %e = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<8xf32>
  return %a, %b, %c, %d, %e : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @blocks
// EXACT-LABEL: func.func @blocks
func.func @blocks(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %i: tensor<8xi32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "i"},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<8xf32>) {
  // EXACT-NEXT: %[[M:.*]] = mpcomm.all_slice %arg0 on @mesh axes ["dp"] dim = 0
  // EXACT-NEXT: %[[I:.*]] = mpcomm.all_slice %arg1 on @mesh axes ["dp"] dim = 0
  // EXACT-NEXT: %[[C:.*]] = arith.constant dense<4>
  // EXACT-NEXT: %[[S:.*]] = arith.muli %[[I]], %[[C]]
  // EXACT-NEXT: %[[X:.*]] = mpcomm.reduce_scatter(%arg2)
  // EXACT-NEXT: return %[[M]], %[[S]], %[[X]], %arg0
  %a = mpcomm.reduce_scatter(%w) on @mesh axes ["dp"] max dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %b = mpcomm.reduce_scatter(%i) on @mesh axes ["dp"] sum dims = [0] : (tensor<8xi32>) -> tensor<2xi32>
  %c = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] max dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %d = mpcomm.collective_broadcast(%w) on @mesh axes ["dp"] root = 0 : tensor<8xf32>
  return %a, %b, %c, %d : tensor<2xf32>, tensor<2xi32>, tensor<2xf32>, tensor<8xf32>
}

// A gather puts blocks together only of what was the same: of a batch it makes
// one of what is different.
// CHECK-LABEL: func.func @gathered_slice
// EXACT-LABEL: func.func @gathered_slice
func.func @gathered_slice(
    %w: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<8x4xf32>, tensor<2x16xf32>, tensor<8xf32>) {
  // EXACT-NEXT: mpcomm.all_slice %arg0
  // EXACT-NEXT: mpcomm.all_gather({{.*}}) on @mesh axes ["dp"] dims = [1]
  // EXACT-NEXT: mpcomm.all_slice %arg1
  // EXACT-NEXT: mpcomm.all_gather
  // EXACT-NEXT: return %arg0
  %a = mpcomm.all_slice %w on @mesh axes ["dp"] dim = 0 : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %b = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<2x4xf32>) -> tensor<8x4xf32>
  %c = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [1] : (tensor<2x4xf32>) -> tensor<2x16xf32>
  %d = mpcomm.all_slice %x on @mesh axes ["dp"] dim = 0 : (tensor<8xf32>) -> tensor<2xf32>
  %e = mpcomm.all_gather(%d) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  return %b, %c, %e : tensor<8x4xf32>, tensor<2x16xf32>, tensor<8xf32>
}

// What is made is followed: the block differs between ranks.
// CHECK-LABEL: func.func @made
func.func @made(%w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"})
    -> (tensor<2xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_slice %arg0
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[A]]) on @mesh axes ["dp"] max
  // CHECK-NEXT: return %[[B]], %arg0
  %a = mpcomm.reduce_scatter(%w) on @mesh axes ["dp"] max dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["dp"] max : tensor<2xf32>
  %c = mpcomm.all_gather(%a) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  return %b, %c : tensor<2xf32>, tensor<8xf32>
}

// Nothing says what an argument without a role is.
// CHECK-LABEL: func.func @no_role
func.func @no_role(%w: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0)
  %a = mpcomm.all_reduce(%w) on @mesh axes ["dp"] max : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// Ranks of a pipeline have parameters of their own, and leave out what is dead
// in their function only if no rank runs another one.

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.rank0, @train_step.rank1]

// CHECK-LABEL: func.func @train_step.rank0
func.func @train_step.rank0(%w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"})
    -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["pp"] max
  // CHECK-NEXT: return %[[A]], %arg0
  %a = mpcomm.all_reduce(%w) on @mesh axes ["pp"] max : tensor<8xf32>
  %b = mpcomm.all_reduce(%w) on @mesh axes ["dp"] max : tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @train_step.rank1
func.func @train_step.rank1(%w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["pp"] max
  // CHECK-NEXT: return
  %a = mpcomm.all_reduce(%w) on @mesh axes ["pp"] max : tensor<8xf32>
  %b = mpcomm.all_reduce(%w) on @mesh axes ["dp"] max : tensor<8xf32>
  return
}
