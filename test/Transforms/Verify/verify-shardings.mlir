// One mesh, collectives that all ranks come to, and state and gradients that are
// what they are declared to be.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-shardings

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

// -----

// Gradients are followed through asyncs and awaits.
mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32>, %lr: tensor<f32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) -> (tensor<4xf32>, tensor<4xf32>) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %g = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["tp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  // expected-note@+1 {{it depends on argument #2 'x'}}
  %b = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  %w1 = mpcomm.sgd_update %w, %a, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp'}}
  %w2 = mpcomm.sgd_update %w, %b, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %w1, %w2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A sum is not a mean, and a mean of what is divided is divided twice. What the
// model multiplies by is its own.
mpcomm.mesh @mesh <["dp" = 4]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %quarter = arith.constant dense<0.25> : tensor<4xf32>
  %part = mpcomm.predivide %x on @mesh axes ["dp"] : tensor<4xf32>
  %twice = mpcomm.predivide %part on @mesh axes ["dp"] : tensor<4xf32>
  %scaled = arith.mulf %x, %quarter : tensor<4xf32>
  %mean = mpcomm.all_reduce(%part) on @mesh axes ["dp"] sum : tensor<4xf32>
  %w0 = mpcomm.sgd_update %w, %mean, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %own = mpcomm.all_reduce(%scaled) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %own, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %sum = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is 4 times the mean over 'dp', expected the mean}}
  %w2 = mpcomm.sgd_update %w, %sum, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // The model's factor does not make up for it.
  %less = arith.mulf %sum, %quarter : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is 4 times the mean over 'dp', expected the mean}}
  %w3 = mpcomm.sgd_update %w, %less, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %small = mpcomm.all_reduce(%part) on @mesh axes ["dp"] mean : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is 1/4 times the mean over 'dp', expected the mean}}
  %w4 = mpcomm.sgd_update %w, %small, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %smaller = mpcomm.all_reduce(%twice) on @mesh axes ["dp"] sum : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is 1/4 times the mean over 'dp', expected the mean}}
  %w5 = mpcomm.sgd_update %w, %smaller, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %greatest = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is the max over 'dp', expected the mean}}
  %w6 = mpcomm.sgd_update %w, %greatest, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // Another rank's gradient is none of the batch.
  %first = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is neither the mean nor a known multiple of it over 'dp', expected the mean}}
  %w7 = mpcomm.sgd_update %w, %first, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // A sum of two that are not alike, and a quotient of two sums.
  %mixed = arith.addf %sum, %mean : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is neither the mean nor a known multiple of it over 'dp', expected the mean}}
  %w8 = mpcomm.sgd_update %w, %mixed, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %count = mpcomm.all_reduce(%scaled) on @mesh axes ["dp"] sum : tensor<4xf32>
  %ratio = arith.divf %sum, %count : tensor<4xf32>
  %w9 = mpcomm.sgd_update %w, %ratio, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // What is not linear in a sum is no mean either.
  %root = math.sqrt %sum : tensor<4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is neither the mean nor a known multiple of it over 'dp', expected the mean}}
  %w10 = mpcomm.sgd_update %w, %root, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-error@+1 {{'func.return' op returns result #0 'loss' of role 'loss', which is 4 times the mean over 'dp', expected the mean}}
  return %sum : tensor<4xf32>
}

// -----

// Two levels, micro-batches in a function, and zeros that they are added to.
mpcomm.mesh @mesh <["dp.outer" = 2, "dp.inner" = 4]>
func.func private @micro(%x: tensor<8xf32>, %sum: tensor<8xf32>) -> tensor<8xf32> {
  %part = mpcomm.predivide %x on @mesh axes ["dp.outer", "dp.inner"] : tensor<8xf32>
  %r = arith.addf %sum, %part : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %s0 = call @micro(%x, %zero) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s1 = call @micro(%x, %s0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = mpcomm.reduce_scatter(%s1) on @mesh axes ["dp.inner"] sum dims = [0] : (tensor<8xf32>) -> tensor<2xf32>
  %c = mpcomm.all_reduce(%b) on @mesh axes ["dp.outer"] sum : tensor<2xf32>
  %d = mpcomm.all_gather(%c) on @mesh axes ["dp.inner"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  %g = arith.mulf %d, %half : tensor<8xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %e = mpcomm.all_reduce(%b) on @mesh axes ["dp.outer"] mean : tensor<2xf32>
  %f = mpcomm.all_gather(%e) on @mesh axes ["dp.inner"] dims = [0] : (tensor<2xf32>) -> tensor<8xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which is 1/2 times the mean over 'dp', expected the mean}}
  %w2 = mpcomm.sgd_update %w, %f, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return
}

// -----

// Blocks along one dimension are not put together along another.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  %b = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] mean dims = [0] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %g = mpcomm.all_gather(%b) on @mesh axes ["dp"] dims = [1] : (tensor<2x4xf32>) -> tensor<2x8xf32>
  // expected-note@+1 {{it depends on argument #2 'x'}}
  %r = mpcomm.reshape %g : (tensor<2x8xf32>) -> tensor<4x4xf32>
  // expected-error@+1 {{'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp', expected it reduced over them}}
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return
}

// -----

// A scale of 8-bit operands comes from the greatest of all ranks.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %history: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "h"},
    %scale: tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "s"},
    %x: tensor<f32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) {
  %max = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<f32>
  %h0, %s0 = mpcomm.update_fp8_scale %history, %scale, %max, format = f8E5M2, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  %mean = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<f32>
  // expected-error@+1 {{'mpcomm.update_fp8_scale' op has a magnitude, which is the mean over 'dp', expected the greatest}}
  %h1, %s1 = mpcomm.update_fp8_scale %history, %scale, %mean, format = f8E5M2, margin = 0 : (tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
  return
}

// -----

// What is declared names a mesh, axes and sizes that are there.

mpcomm.mesh @mesh <["dp" = 2]>

// expected-error@+1 {{has a sharding of argument #0 that names @mash, which is not an mpcomm.mesh}}
func.func @no_mesh(%x: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mash, [{"dp"}, {}]>}) {
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// expected-error@+1 {{has a sharding of argument #1 that names axis "tp", which mesh @mesh does not have}}
func.func @no_axis(%y: tensor<4xf32>, %x: tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {}]>}) {
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// expected-error@+1 {{has a sharding of result #0 that splits axis "dp" of 2 ranks into parts of 3}}
func.func @no_part(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp":(1)3]>}) {
  return %x : tensor<4x4xf32>
}
