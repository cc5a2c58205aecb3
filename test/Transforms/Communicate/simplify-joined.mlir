// Two reductions whose results are combined are one of the combined operands.

// RUN: mpcomm-opt %s --mpcomm-simplify-collectives | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=exact" | FileCheck %s --check-prefix=EXACT
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=lossy" | FileCheck %s --check-prefix=LOSSY
// RUN: mpcomm-opt %s --mpcomm-simplify-collectives="numerics=lossy" --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK-DAG: JoinedReductions{{.*}}Function=sum | {{.*}}reassociating
// REMARK-DAG: JoinedReductions{{.*}}Function=integers | {{.*}}exact
// REMARK-DAG: JoinedReductions{{.*}}Function=wire | {{.*}}lossy
// REMARK-DAG: SimplifyCollectives{{.*}}Function=sum | after=1, before=2

mpcomm.mesh @mesh <["dp" = 4, "tp" = 2]>

// CHECK-LABEL: func.func @sum
// EXACT-LABEL: func.func @sum
func.func @sum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = arith.addf %arg0, %arg1
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["dp"] sum
  // CHECK-NEXT: return %[[R]]
  // EXACT-NEXT: mpcomm.all_reduce(%arg0)
  // EXACT-NEXT: mpcomm.all_reduce(%arg1)
  // EXACT-NEXT: arith.addf
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<4xf32>
  %s = arith.addf %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Operands keep their order, whichever is reduced first.
// CHECK-LABEL: func.func @difference_of_means
func.func @difference_of_means(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[D:.*]] = arith.subf %arg0, %arg1 fastmath<contract>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[D]]) on @mesh axes ["dp"] mean
  // CHECK-NEXT: return %[[R]]
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %d = arith.subf %a, %b fastmath<contract> : tensor<4xf32>
  return %d : tensor<4xf32>
}

// Integers wrap: no order changes their sum.
// CHECK-LABEL: func.func @integers
// EXACT-LABEL: func.func @integers
func.func @integers(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  // EXACT-NEXT: %[[S:.*]] = arith.subi %arg0, %arg1
  // EXACT-NEXT: %[[A:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["dp"] sum
  // EXACT-NEXT: %[[P:.*]] = arith.muli %arg0, %arg1
  // EXACT-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[P]]) on @mesh axes ["dp"] prod
  // EXACT-NEXT: return %[[A]], %[[B]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xi32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<4xi32>
  %s = arith.subi %a, %b : tensor<4xi32>
  %c = mpcomm.all_reduce(%x) on @mesh axes ["dp"] prod : tensor<4xi32>
  %d = mpcomm.all_reduce(%y) on @mesh axes ["dp"] prod : tensor<4xi32>
  %p = arith.muli %c, %d : tensor<4xi32>
  return %s, %p : tensor<4xi32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @choices
// EXACT-LABEL: func.func @choices
func.func @choices(%x: tensor<4xf32>, %y: tensor<4xf32>, %i: tensor<4xi32>, %j: tensor<4xi32>)
    -> (tensor<4xf32>, tensor<4xi32>) {
  // EXACT-NEXT: %[[M:.*]] = arith.maximumf %arg0, %arg1
  // EXACT-NEXT: %[[A:.*]] = mpcomm.all_reduce(%[[M]]) on @mesh axes ["dp"] max
  // EXACT-NEXT: %[[N:.*]] = arith.minsi %arg2, %arg3
  // EXACT-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[N]]) on @mesh axes ["dp"] min
  // EXACT-NEXT: return %[[A]], %[[B]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] max : tensor<4xf32>
  %m = arith.maximumf %a, %b : tensor<4xf32>
  %c = mpcomm.all_reduce(%i) on @mesh axes ["dp"] min : tensor<4xi32>
  %d = mpcomm.all_reduce(%j) on @mesh axes ["dp"] min : tensor<4xi32>
  %n = arith.minsi %c, %d : tensor<4xi32>
  return %m, %n : tensor<4xf32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @scatters
func.func @scatters(%x: tensor<8x2xf32>, %y: tensor<8x2xf32>) -> tensor<2x2xf32> {
  // CHECK-NEXT: %[[S:.*]] = arith.addf %arg0, %arg1 : tensor<8x2xf32>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.reduce_scatter(%[[S]]) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: return %[[R]]
  %a = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x2xf32>) -> tensor<2x2xf32>
  %b = mpcomm.reduce_scatter(%y) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x2xf32>) -> tensor<2x2xf32>
  %s = arith.addf %a, %b : tensor<2x2xf32>
  return %s : tensor<2x2xf32>
}

// What is joined joins the next one.
// CHECK-LABEL: func.func @three
func.func @three(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = arith.addf %arg0, %arg1
  // CHECK-NEXT: %[[T:.*]] = arith.addf %[[S]], %arg2
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[T]])
  // CHECK-NEXT: return %[[R]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<4xf32>
  %c = mpcomm.all_reduce(%z) on @mesh axes ["dp"] sum : tensor<4xf32>
  %s = arith.addf %a, %b : tensor<4xf32>
  %t = arith.addf %s, %c : tensor<4xf32>
  return %t : tensor<4xf32>
}

// Somebody else needs one of the two, or they reduce otherwise.
// LOSSY-LABEL: func.func @kept
func.func @kept(%x: tensor<8xf32>, %y: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<8xf32>) {
  // LOSSY-COUNT-8: mpcomm.all_reduce
  // LOSSY-COUNT-2: mpcomm.reduce_scatter
  // LOSSY: mpcomm.all_reduce
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<8xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<8xf32>
  %r = arith.addf %a, %b : tensor<8xf32>
  // Another group.
  %c = mpcomm.all_reduce(%x) on @mesh axes ["tp"] sum : tensor<8xf32>
  %d = mpcomm.all_reduce(%y) on @mesh axes ["dp", "tp"] sum : tensor<8xf32>
  %s = arith.addf %c, %d : tensor<8xf32>
  // A sum of maxima is no maximum.
  %e = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<8xf32>
  %f = mpcomm.all_reduce(%y) on @mesh axes ["dp"] max : tensor<8xf32>
  %t = arith.addf %e, %f : tensor<8xf32>
  // Another wire type.
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean wire bf16 accumulate f32 : tensor<8xf32>
  %h = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<8xf32>
  %u = arith.addf %g, %h : tensor<8xf32>
  // Another dimension, which makes another block.
  %x2 = mpcomm.reshape %x : (tensor<8xf32>) -> tensor<4x2xf32>
  %y2 = mpcomm.reshape %y : (tensor<8xf32>) -> tensor<2x4xf32>
  %i = mpcomm.reduce_scatter(%x2) on @mesh axes ["dp"] sum dims = [0] : (tensor<4x2xf32>) -> tensor<1x2xf32>
  %j = mpcomm.reduce_scatter(%y2) on @mesh axes ["dp"] sum dims = [1] : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %i1 = mpcomm.reshape %i : (tensor<1x2xf32>) -> tensor<2xf32>
  %j1 = mpcomm.reshape %j : (tensor<2x1xf32>) -> tensor<2xf32>
  %v = arith.addf %i1, %j1 : tensor<2xf32>
  // One that is not reduced.
  %k = mpcomm.all_reduce(%x) on @mesh axes ["dp"] prod : tensor<8xf32>
  %w = arith.mulf %k, %y : tensor<8xf32>
  return %b, %r, %s, %t, %v, %w : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<8xf32>
}

// One rounding to the wire type in place of two is allowed to lossy only.
// CHECK-LABEL: func.func @wire
// LOSSY-LABEL: func.func @wire
func.func @wire(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-COUNT-2: mpcomm.all_reduce
  // LOSSY-NEXT: %[[S:.*]] = arith.addf %arg0, %arg1
  // LOSSY-NEXT: mpcomm.all_reduce(%[[S]]) on @mesh axes ["dp"] sum wire bf16 accumulate f32
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum wire bf16 accumulate f32 : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum wire bf16 accumulate f32 : tensor<4xf32>
  %s = arith.addf %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Nor is a reduction made where one of the two is not run as often.
// CHECK-LABEL: func.func @other_block
func.func @other_block(%x: tensor<4xf32>, %y: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  // CHECK: mpcomm.all_reduce(%arg0)
  // CHECK: scf.for
  // CHECK: mpcomm.all_reduce
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  %w = scf.for %i = %zero to %n step %one iter_args(%v = %y) -> tensor<4xf32> {
    %b = mpcomm.all_reduce(%v) on @mesh axes ["dp"] sum : tensor<4xf32>
    %s = arith.addf %a, %b : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %w : tensor<4xf32>
}

// What held for sums need not hold for what each rank adds to them.
// CHECK-LABEL: func.func @promises
func.func @promises(%x: tensor<4xi32>, %y: tensor<4xi32>, %u: tensor<4xf32>, %v: tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>) {
  // CHECK-NEXT: arith.addi %arg0, %arg1 : tensor<4xi32>
  // CHECK: arith.maximumf %arg2, %arg3 fastmath<nsz> : tensor<4xf32>
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xi32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] sum : tensor<4xi32>
  %s = arith.addi %a, %b overflow<nsw> : tensor<4xi32>
  %c = mpcomm.all_reduce(%u) on @mesh axes ["dp"] max : tensor<4xf32>
  %d = mpcomm.all_reduce(%v) on @mesh axes ["dp"] max : tensor<4xf32>
  %m = arith.maximumf %c, %d fastmath<nsz,ninf> : tensor<4xf32>
  return %s, %m : tensor<4xi32>, tensor<4xf32>
}
