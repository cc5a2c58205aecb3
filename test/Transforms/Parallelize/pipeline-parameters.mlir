// Who has which gradient, where parameters and gradients are not one to one.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-partition-pipeline="stages=2 micro-batches=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" --mpcomm-verify-communication | FileCheck %s
// RUN: mpcomm-opt %s --split-input-file --mpcomm-partition-pipeline="stages=1 micro-batches=2" \
// RUN:   --mpcomm-schedule-pipeline="ranks=1 micro-batches=2 schedule=zb-h1" | FileCheck %s --check-prefix=SPLIT

// Gradients of inputs that a sum of gradients adds up: the sum is made with the
// gradients of weights, of what those of inputs leave.
// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-LABEL: func.func @train_step.rank1(
// SPLIT-LABEL: func.func private @train_step.stage0.input_backward(
// SPLIT: %[[DY:.*]] = arith.addf %{{.*}}, %{{.*}} : tensor<8x4xf32>
// SPLIT: %[[DA:.*]] = arith.mulf %[[DY]]
// SPLIT: return %[[DY]], %[[DA]]
// SPLIT-LABEL: func.func private @train_step.stage0.weight_backward(
// SPLIT: arith.addf %{{.*}}, %{{.*}} : tensor<8x4xf32>

module {
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %p: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"}) {
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %a = arith.addf %h, %p : tensor<8x4xf32>
  %t = arith.mulf %a, %a : tensor<8x4xf32>
  %y = arith.addf %t, %p : tensor<8x4xf32>
  %q = arith.mulf %y, %y : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<8x4xf32>
  %a2 = arith.addf %a, %a : tensor<8x4xf32>
  %da = arith.mulf %dy, %a2 : tensor<8x4xf32>
  %dp = arith.addf %dy, %da : tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %da, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %p, %dp, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<8x4xf32>
}
}

// -----

// Each gradient is divided by a sum of all: both ranks have both gradients, and
// hence update both parameters, which they read or not.
// CHECK: mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-SAME: "a.weight"
// CHECK: sgd_update
// CHECK: sgd_update
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-SAME: mpcomm.donated = {{[0-9]}} : i64, mpcomm.name = "b.weight"
// CHECK: sgd_update
// CHECK: sgd_update

module {
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight", mpcomm.donated = 2 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %t = math.tanh %h : tensor<8x4xf32>
  %y = mpcomm.dot_general %t, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %q = arith.mulf %y, %y : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<8x4xf32>
  %dw1 = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dt = mpcomm.dot_general %dy, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %tt = arith.mulf %t, %t : tensor<8x4xf32>
  %ones = arith.constant dense<1.0> : tensor<8x4xf32>
  %s = arith.subf %ones, %tt : tensor<8x4xf32>
  %dh = arith.mulf %dt, %s : tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dr0 = mpcomm.all_reduce(%dw0) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %dr1 = mpcomm.all_reduce(%dw1) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %z0 = arith.mulf %dr0, %dr0 : tensor<4x4xf32>
  %z1 = arith.mulf %dr1, %dr1 : tensor<4x4xf32>
  %r0 = mpcomm.reduce sum %z0, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %r1 = mpcomm.reduce sum %z1, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %rr = arith.addf %r0, %r1 : tensor<f32>
  %rb = mpcomm.broadcast_in_dim %rr, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %e0 = arith.divf %dr0, %rb : tensor<4x4xf32>
  %e1 = arith.divf %dr1, %rb : tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %e0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %e1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1, %k1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i64>
}
}

// -----

// The scale of a tensor that two stages read follows from the greatest element
// that one of them sees: both make it anew.
// CHECK-LABEL: func.func @train_step.rank0(
// CHECK: mpcomm.send({{.*}} {mpcomm.tag = "tied{{[0-9]}}.0"}
// CHECK: update_fp8_scale
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK: mpcomm.recv {{.*}} {mpcomm.tag = "tied{{[0-9]}}.0"}
// CHECK: update_fp8_scale

module {
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "scale", mpcomm.donated = 3 : i64},
    %k: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "history", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "scale"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "history"}) {
  %b = mpcomm.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = math.absf %h : tensor<8x4xf32>
  %amax = mpcomm.reduce max %m, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %hs = arith.mulf %h, %b : tensor<8x4xf32>
  %y = mpcomm.dot_general %hs, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %ys = arith.divf %y, %b : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %ys, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dw1 = mpcomm.dot_general %hs, %ys, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %ys, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %k1, %s1 = mpcomm.update_fp8_scale %k, %s, %amax, format = f8E4M3FN, margin = 0 : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %loss, %n0, %n1, %s1, %k1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4xf32>
}
}
