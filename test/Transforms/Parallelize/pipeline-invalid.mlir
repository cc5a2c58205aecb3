// Stages that values cannot follow, and steps that have no micro-batches.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics --mpcomm-schedule-pipeline="ranks=2 micro-batches=2"

func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  // expected-note @below {{it is made here}}
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // expected-error @below {{in stage 0 reads what stage 1 makes, expected values of the forward pass to go up the stages and gradients down}}
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw = mpcomm.dot_general %x, %y, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n : tensor<f32>, tensor<4x4xf32>
}

// -----

func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  // expected-error @below {{has no 'mpcomm.stage' below 2, expected one of each op of the forward and backward pass: run mpcomm-partition-pipeline}}
  %dw = mpcomm.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n : tensor<f32>, tensor<4x4xf32>
}

// -----

// expected-error @below {{has results of role 'loss' after the first, which are metrics, expected none where stages are on different ranks}}
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "metric"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %square = arith.mulf %y, %y {mpcomm.stage = 1 : i64} : tensor<8x4xf32>
  %metric = mpcomm.reduce sum %square, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw = mpcomm.dot_general %x, %y, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %metric, %n : tensor<f32>, tensor<f32>, tensor<4x4xf32>
}

// -----

// expected-error @below {{has argument #0 'x' of type 'tensor<?x4xf32>', expected a ranked tensor of static shape with samples along its first dimension}}
func.func @train_step(
    %x: tensor<?x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error @below {{has no result of role loss, expected one to tell the forward pass by}}
func.func @train_step(
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  return
}

// -----

// expected-error @below {{gives result #1 'nonfinite', expected a loss or state: nobody has the gradients of all stages}}
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 2 : i64},
    %v: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "nonfinite"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %z = mpcomm.dot_general %y, %v, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %z, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dv = mpcomm.dot_general %y, %z, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dw = mpcomm.dot_general %x, %z, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %m = mpcomm.sgd_update %v, %dv, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n, %n, %m : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// The sum of all gradients is state that nobody can make.
mpcomm.mesh @mesh <["dp" = 2]>
// expected-error @below {{makes result #3 'sum' of gradients or state of several stages, expected those of one: only norms and flags are put together}}
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %s: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "sum", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "sum"}) {
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>) -> tensor<f32>
  %dw1 = mpcomm.dot_general %h, %y, contracting_dims = [0] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %y, %w1, contracting_dims = [1] x [1] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %r0 = mpcomm.all_reduce(%dw0) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %r1 = mpcomm.all_reduce(%dw1) on @mesh axes ["dp"] mean : tensor<4x4xf32>
  %t = arith.addf %r0, %r1 : tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %r0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %r1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1, %t : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// The norm counts each gradient on one rank, rank 0 those that are not of the
// batch: it has no parameter of stage 1.
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
  %m1 = arith.mulf %w1, %w1 : tensor<4x4xf32>
  // expected-error @below {{takes gradient #1, which does not depend on the batch but on argument #1 'w1' of another rank than the first of the pipeline, expected gradients of the batch}}
  %g0, %g1, %norm = mpcomm.clip_by_global_norm(%r0, %m1) max_norm = 1.0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>)
  %n0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
