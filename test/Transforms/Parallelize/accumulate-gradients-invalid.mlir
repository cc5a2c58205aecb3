// What cannot be cut into micro-batches says why.

// RUN: mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=2 -split-input-file -verify-diagnostics
// RUN: not mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=0 -split-input-file 2>&1 | FileCheck %s
// CHECK: expected a number of micro-batches in [1, 1048576], got 0

// expected-error @+1 {{has no argument of role batch to cut into micro-batches}}
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}

// -----

// expected-error @+1 {{has argument #0 'x' of type 'tensor<f32>', expected a ranked tensor of static shape with samples along its first dimension}}
func.func @train_step(%x: tensor<f32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// expected-error @+1 {{makes result #0 'own' in the micro-batch, expected a loss or state there}}
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "own"}) {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{computes result #0 'b' in the micro-batch, expected an argument that donates its buffer to it, to hand it to the next}}
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A batch norm that communicates: the rest of the pass is after a collective.
mpcomm.mesh @mesh <["dp" = 2]>
// expected-error @+1 {{needs argument #0 'x' after a collective or an update, expected all of the forward and backward pass before them}}
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %s = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %r = mpcomm.all_reduce(%s) on @mesh axes ["dp"] mean : tensor<f32>
  %b = mpcomm.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<4xf32>
  // expected-note @+1 {{it is used here}}
  %y = arith.subf %x, %b : tensor<4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %s = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @+1 {{reduces a value of the micro-batch, expected a sum, a mean or a maximum}}
  %r = mpcomm.all_reduce(%s) on @mesh axes ["dp"] prod : tensor<f32>
  return %r : tensor<f32>
}

// -----

// expected-error @+1 {{has argument #0 'seed' of type 'tensor<2xf32>', expected a ranked tensor of integers of static shape, to make a seed of each micro-batch}}
func.func @train_step(%s: tensor<2xf32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"},
                      %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  return
}

// -----

func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<?xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %y = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  // expected-error @+1 {{uses a value of type 'tensor<?xf32>' of the micro-batch, expected floats of static shape}}
  return %y : tensor<?xf32>
}

// -----

// An update under a condition is one of the step, not of each micro-batch, and
// takes a mean; it has to be where that can be given to it.
func.func @train_step(%w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
                      %c: tensor<i1> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "c"},
                      %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
                      %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %g = arith.mulf %x, %w : tensor<4xf32>
  %t = arith.constant true
  // expected-error @+1 {{takes a value of the micro-batch into a region, expected collectives and updates in the body of @train_step}}
  %n = scf.if %t -> (tensor<4xf32>) {
    // expected-note @+1 {{it is used here}}
    %u = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    scf.yield %u : tensor<4xf32>
  } else {
    scf.yield %w : tensor<4xf32>
  }
  return %n : tensor<4xf32>
}

// -----

// So does a state as each micro-batch starts with it.
func.func @train_step(
    %w: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %skip: tensor<i1> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "skip"},
    %x: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %q = arith.mulf %x, %w : tensor<2x4xf32>
  %b1 = arith.addf %b, %q : tensor<2x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  %c = tensor.extract %skip[] : tensor<i1>
  // expected-error @+1 {{takes a value of the micro-batch into a region, expected collectives and updates in the body of @train_step}}
  %w1 = scf.if %c -> tensor<2x4xf32> {
    scf.yield %w : tensor<2x4xf32>
  } else {
    // expected-note @+1 {{it is used here}}
    %n = mpcomm.sgd_update %w, %b, %lr, weight_decay = 0.0 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    scf.yield %n : tensor<2x4xf32>
  }
  return %loss, %w1, %b1 : tensor<f32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Samples may be a gradient, but no momentum.
// expected-error @+1 {{'x' after a collective or an update, expected all of the forward and backward pass before them}}
func.func @train_step(
    %w: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %x: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %q = arith.mulf %x, %w : tensor<2x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  // expected-note @+1 {{it is used here}}
  %w1, %m1 = mpcomm.sgd_update %w, %q, %lr, %x, momentum = 0.9, weight_decay = 0.0 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  return %loss, %w1 : tensor<f32>, tensor<2x4xf32>
}
