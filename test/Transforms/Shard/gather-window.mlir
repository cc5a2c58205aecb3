// Gathers of state do not all start first: the next bucket is under way, and what is ahead of its use takes no more than
// the largest. Here all are of a size: the third starts after the first use of the first.
//
// RUN: mpcomm-opt %s --split-input-file --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards,mpcomm-localize,mpcomm-verify-shardings,mpcomm-combine-collectives{policy=none cluster=local},mpcomm-make-async,mpcomm-schedule-overlap{cluster=local},mpcomm-verify-shardings,mpcomm-verify-scheduled-programs)' \
// RUN:   | FileCheck %s


mpcomm.mesh @mesh <["dp" = 2]>

// CHECK-LABEL: func.func @train_step
// CHECK-COUNT-2: mpcomm.all_gather
// CHECK-NOT: mpcomm.all_gather
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.all_gather
// CHECK-NOT: mpcomm.all_gather
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.all_gather
func.func @train_step(
    %a: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a"},
    %b: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
    %c: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "c"},
    %d: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "d"},
    %x: tensor<8x64xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %0 = mpcomm.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %1 = mpcomm.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %2 = mpcomm.dot_general %1, %c, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %3 = mpcomm.dot_general %2, %d, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %l = mpcomm.reduce sum %3, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<f32>
  %m = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  return %m : tensor<f32>
}

// -----

// Small ones around large ones do not narrow the window: the last large one is gathered while the second is read.
mpcomm.mesh @mesh <["dp" = 2]>

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %arg4: tensor<2048xf32>
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.all_gather(%arg4)
// CHECK: mpcomm.dot_general
// CHECK: mpcomm.dot_general
func.func @train_step(
    %a: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a"},
    %ab: tensor<64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "ab"},
    %b: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
    %bb: tensor<64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "bb"},
    %c: tensor<64x64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "c"},
    %cb: tensor<64xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "cb"},
    %x: tensor<8x64xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %d0 = mpcomm.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %r0 = mpcomm.broadcast_in_dim %ab, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %h0 = arith.addf %d0, %r0 : tensor<8x64xf32>
  %d1 = mpcomm.dot_general %h0, %b, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %r1 = mpcomm.broadcast_in_dim %bb, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %h1 = arith.addf %d1, %r1 : tensor<8x64xf32>
  %d2 = mpcomm.dot_general %h1, %c, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %r2 = mpcomm.broadcast_in_dim %cb, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %h2 = arith.addf %d2, %r2 : tensor<8x64xf32>
  %l = mpcomm.reduce sum %h2, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<f32>
  %m = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  return %m : tensor<f32>
}
