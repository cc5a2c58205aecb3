// Norms and flags of all gradients of an op: each rank adds its own, or none.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" \
// RUN:   --mpcomm-verify-communication | FileCheck %s

// Two norms are two reductions, in one order on all ranks.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK: %[[OWN:.*]] = mpcomm.squared_norm(
// CHECK: mpcomm.all_reduce(%[[OWN]]) on @mesh axes ["pp"] sum
// CHECK: mpcomm.clip_by_global_norm(
// CHECK: mpcomm.all_reduce(%cst{{.*}}) on @mesh axes ["pp"] sum
// CHECK-NOT: mpcomm.clip_by_global_norm(
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-NOT: mpcomm.squared_norm(
// CHECK: mpcomm.all_reduce(%cst{{.*}}) on @mesh axes ["pp"] sum
// CHECK: %[[OWN:.*]] = mpcomm.squared_norm(
// CHECK: mpcomm.all_reduce(%[[OWN]]) on @mesh axes ["pp"] sum
// CHECK: mpcomm.clip_by_global_norm(

module {
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw1 = mpcomm.dot_general %h, %y, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %y, %w1, contracting_dims = [1] x [1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %r0 = mpcomm.all_reduce(%dw0) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %r1 = mpcomm.all_reduce(%dw1) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %g0, %na = mpcomm.clip_by_global_norm(%r0) max_norm = 1.0 : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>)
  %g1, %nb = mpcomm.clip_by_global_norm(%r1) max_norm = 1.0 : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>)
  %n0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// Two flags likewise.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK: %{{.*}}, %[[FLAG:.*]] = mpcomm.unscale(
// CHECK: mpcomm.all_reduce(%[[FLAG]]) on @mesh axes ["pp"] max
// CHECK: mpcomm.all_reduce(%cst{{.*}}) on @mesh axes ["pp"] max
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK: mpcomm.all_reduce(%cst{{.*}}) on @mesh axes ["pp"] max
// CHECK: %{{.*}}, %[[FLAG:.*]] = mpcomm.unscale(
// CHECK: mpcomm.all_reduce(%[[FLAG]]) on @mesh axes ["pp"] max

module {
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw1 = mpcomm.dot_general %h, %y, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %y, %w1, contracting_dims = [1] x [1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %r0 = mpcomm.all_reduce(%dw0) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %r1 = mpcomm.all_reduce(%dw1) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %g0, %f0 = mpcomm.unscale(%r0) by %lr : (tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>)
  %g1, %f1 = mpcomm.unscale(%r1) by %lr : (tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>)
  %m0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %m1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %bn0 = mpcomm.broadcast_in_dim %f0, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %zn0 = arith.mulf %bn0, %w0 : tensor<4x4xf32>
  %n0 = arith.subf %m0, %zn0 : tensor<4x4xf32>
  %bn1 = mpcomm.broadcast_in_dim %f1, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %zn1 = arith.mulf %bn1, %w1 : tensor<4x4xf32>
  %n1 = arith.subf %m1, %zn1 : tensor<4x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// A norm that is given is reduced by no one, and each rank scales its own.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-NOT: ["pp"] sum
// CHECK: mpcomm.clip_by_global_norm(%{{[^,]*}}) norm = %arg1
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-NOT: ["pp"] sum
// CHECK: mpcomm.clip_by_global_norm(%{{[^,]*}}) norm = %arg1

module {
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw1 = mpcomm.dot_general %h, %y, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %y, %w1, contracting_dims = [1] x [1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %r0 = mpcomm.all_reduce(%dw0) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %r1 = mpcomm.all_reduce(%dw1) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %m1 = arith.mulf %w1, %w1 : tensor<4x4xf32>
  %g0, %g1, %nm = mpcomm.clip_by_global_norm(%r0, %m1) norm = %lr, max_norm = 1.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>)
  %n0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}
