// The contract of Form 3: one mesh, synchronous collectives that all ranks come
// to, and replicated state.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-rank-programs

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %seed: tensor<2xi64> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "own"},
        tensor<2xi64> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"}) {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %w1, %x, %seed : tensor<4xf32>, tensor<4xf32>, tensor<2xi64>
}
// Its results are per rank.
func.func @evaluate(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  return %x : tensor<4xf32>
}
func.func private @declaration(tensor<4xf32>)

// -----

// The sum over another axis leaves the ranks along "dp" with different values.
mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  // expected-note@+1 {{it depends on argument #2 'x'}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["tp"] mean : tensor<4xf32>
  // expected-error@+2 {{'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp', expected it reduced over them}}
  // expected-note@+1 {{it depends on argument #2 'x'}}
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-note@+1 {{it depends on argument #2 'x'}}
  %l = arith.addf %x, %x : tensor<4xf32>
  // expected-error@+2 {{'func.return' op returns result #0 'w' of role 'parameter', which may differ between ranks along 'dp', expected one value for all of them}}
  // expected-error@+1 {{'func.return' op returns result #1 'loss' of role 'loss', which may differ between ranks along 'dp', expected one value for all of them}}
  return %w1, %l : tensor<4xf32>, tensor<4xf32>
}

// -----

// An axis of one rank: nothing differs.
mpcomm.mesh @mesh <["dp" = 1]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %w1 = mpcomm.sgd_update %w, %x, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %w1 : tensor<4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'mpcomm.async' op is in a rank program, expected synchronous collectives}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<f32>
    mpcomm.yield %r : tensor<f32>
  } : !mpcomm.future<tensor<f32>>
  // expected-error@+1 {{'mpcomm.await' op is in a rank program, expected synchronous collectives}}
  %v = mpcomm.await %f : !mpcomm.future<tensor<f32>>
  return %v : tensor<f32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.mesh @other <["dp" = 2]>
func.func @train_step(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // expected-note@+1 {{another collective runs on @mesh}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<f32>
  // expected-error@+1 {{'mpcomm.all_reduce' op runs on mesh @other, expected one mesh for the whole program}}
  %s = mpcomm.all_reduce(%x) on @other axes ["dp"] mean : tensor<f32>
  return %r, %s : tensor<f32>, tensor<f32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<i1> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}, %y: tensor<f32>, %same: i1) -> (tensor<f32>, tensor<f32>) {
  %c = tensor.extract %x[] : tensor<i1>
  // expected-note@+1 {{it depends on a value here that may differ between ranks}}
  %r = scf.if %c -> tensor<f32> {
    // expected-error@+1 {{'mpcomm.all_reduce' op may run on some ranks along 'dp' only, expected control flow that is the same on all of them}}
    %s = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<f32>
    scf.yield %s : tensor<f32>
  } else {
    scf.yield %y : tensor<f32>
  }
  // Ranks agree on this condition.
  %t = scf.if %same -> tensor<f32> {
    %s = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<f32>
    scf.yield %s : tensor<f32>
  } else {
    scf.yield %y : tensor<f32>
  }
  return %r, %t : tensor<f32>, tensor<f32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<i1> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  %c = tensor.extract %x[] : tensor<i1>
  // expected-note@+1 {{it depends on a value here that may differ between ranks}}
  cf.cond_br %c, ^some, ^all
^some:
  // expected-error@+1 {{'mpcomm.barrier' op may run on some ranks along 'dp' only}}
  mpcomm.barrier on @mesh axes ["dp"]
  cf.br ^all
^all:
  return
}
