// Where ranks lie in nodes and the links between nodes are slow, an all_reduce
// is a reduce_scatter, a smaller all_reduce and an all_gather; where that is
// not faster it stays.

// RUN: mpcomm-opt %s --mpcomm-decompose-collectives="cluster=%S/Inputs/two-levels.json" --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-decompose-collectives="cluster=%S/Inputs/one-level.json" --split-input-file | FileCheck %s --check-prefix=FLAT
// RUN: mpcomm-opt %s --mpcomm-decompose-collectives="cluster=%S/Inputs/two-levels.json numerics=exact" --split-input-file | FileCheck %s --check-prefix=EXACT
// RUN: mpcomm-opt %s --mpcomm-decompose-collectives="cluster=%S/Inputs/two-levels.json" --split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// What comes out is a rank program still.
// RUN: mpcomm-opt %s --mpcomm-decompose-collectives="cluster=%S/Inputs/two-levels.json" --split-input-file --mpcomm-verify-shardings -o /dev/null
// RUN: not mpcomm-opt %s --mpcomm-decompose-collectives="cluster=no-such" --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: no-such

// FLAT-NOT: reduce_scatter
// FLAT-COUNT-5: mpcomm.all_reduce
// FLAT-NOT: reduce_scatter

// REMARK: Decomposed{{.*}}Function=one_tensor{{.*}}across=2, bytes=32{{.*}}inside=2

// CHECK: mpcomm.mesh @mesh <["dp.outer" = 2, "dp.inner" = 2]>
// EXACT: mpcomm.mesh @mesh <["dp" = 4]>
mpcomm.mesh @mesh <["dp" = 4]>

// CHECK-LABEL: func.func @one_tensor
// EXACT-LABEL: func.func @one_tensor
func.func @one_tensor(%g: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[S:.*]] = mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp.inner"] mean dims = [0] : (tensor<8xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["dp.outer"] mean : tensor<4xf32>
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_gather(%[[A]]) on @mesh axes ["dp.inner"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  // CHECK-NEXT: return %[[R]]
  // EXACT-NEXT: mpcomm.all_reduce
  // EXACT-NEXT: return
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<8xf32>
  return %r : tensor<8xf32>
}

// 6 + 3 elements fill up to 10; what travels is bf16, and is cast once.
// CHECK-LABEL: func.func @bucket
func.func @bucket(%g: tensor<2x3xf32>, %h: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
  // CHECK-DAG: %[[G:.*]] = arith.truncf %arg0 : tensor<2x3xf32> to tensor<2x3xbf16>
  // CHECK-DAG: %[[F:.*]] = mpcomm.reshape %[[G]] : (tensor<2x3xbf16>) -> tensor<6xbf16>
  // CHECK-DAG: %[[H:.*]] = arith.truncf %arg1 : tensor<3xf32> to tensor<3xbf16>
  // CHECK-DAG: %[[Z:.*]] = arith.constant dense<0.000000e+00> : tensor<1xbf16>
  // CHECK: %[[C:.*]] = mpcomm.concatenate %[[F]], %[[H]], %[[Z]]
  // CHECK: mpcomm.reduce_scatter(%[[C]]) on @mesh axes ["dp.inner"] sum accumulate f32 dims = [0] : (tensor<10xbf16>) -> tensor<5xbf16>
  // CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp.outer"] sum accumulate f32 : tensor<5xbf16>
  // CHECK: %[[R:.*]] = mpcomm.all_gather
  // CHECK: mpcomm.slice %[[R]], starts = [0], limits = [6]
  // CHECK: mpcomm.slice %[[R]], starts = [6], limits = [9]
  %r:2 = mpcomm.all_reduce(%g, %h) on @mesh axes ["dp"] sum wire bf16 accumulate f32 : tensor<2x3xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<2x3xf32>, tensor<3xf32>
}

// Others that name the axis name both parts.
// CHECK-LABEL: func.func @others
func.func @others(%g: tensor<8xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp.outer", "dp.inner"] max dims = [0]
  %r = mpcomm.reduce_scatter(%g) on @mesh axes ["dp"] max dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// The largest value does not depend on the order.
// EXACT-LABEL: func.func @nothing_to_round
func.func @nothing_to_round(%g: tensor<8xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  // EXACT-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] sum
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A mesh that is made of nodes already is not split, and an axis across nodes
// has nothing inside.
// CHECK: mpcomm.mesh @mesh <["node" = 3, "gpu" = 2]>
// EXACT: mpcomm.mesh @mesh <["node" = 3, "gpu" = 2]>
mpcomm.mesh @mesh <["node" = 3, "gpu" = 2]>

// CHECK-LABEL: func.func @made_of_nodes
func.func @made_of_nodes(%g: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mpcomm.reduce_scatter(%arg0) on @mesh axes ["gpu"] max
  // CHECK-NEXT: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["node"] max
  // CHECK-NEXT: mpcomm.all_gather(%{{.*}}) on @mesh axes ["gpu"]
  // EXACT: mpcomm.reduce_scatter(%arg0) on @mesh axes ["gpu"] max
  %r = mpcomm.all_reduce(%g) on @mesh axes ["gpu", "node"] max : tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @across
func.func @across(%g: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) on @mesh axes ["node"] sum
  %r = mpcomm.all_reduce(%g) on @mesh axes ["node"] sum : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A module inside has a mesh of its own, which nobody splits for the outer one.
// CHECK: mpcomm.mesh @mesh <["dp.outer" = 2, "dp.inner" = 2]>
mpcomm.mesh @mesh <["dp" = 4]>
module @inside {
  // CHECK: mpcomm.mesh @mesh <["dp" = 2]>
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @own_mesh(%g: tensor<8xf32>) -> tensor<16xf32> {
    // CHECK: mpcomm.all_gather(%arg0) on @mesh axes ["dp"]
    %r = mpcomm.all_gather(%g) on @mesh axes ["dp"] dims = [0] : (tensor<8xf32>) -> tensor<16xf32>
    return %r : tensor<16xf32>
  }
}
func.func @outer_mesh(%g: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mpcomm.reduce_scatter(%arg0) on @mesh axes ["dp.inner"] max
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] max : tensor<8xf32>
  return %r : tensor<8xf32>
}
