// The contract of Form 4: futures are awaited once, in their block, and no
// communicator is used from two streams at a time.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-scheduled-programs

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
func.func @train_step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // Another communicator.
  mpcomm.barrier on @mesh axes ["pp"]
  %g = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %b = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  // Nothing is in flight any more.
  %c = mpcomm.all_reduce(%a) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %c, %b : tensor<4xf32>, tensor<4xf32>
}
func.func private @declaration(!mpcomm.future<tensor<4xf32>>)

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<4xf32>) {
  // expected-error@+1 {{'mpcomm.async' op is never awaited, expected one mpcomm.await}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<4xf32>) -> !mpcomm.future<tensor<4xf32>> {
  // expected-note@+1 {{the future is made here}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-error@+1 {{'func.return' op uses a future, expected only mpcomm.await to do so}}
  return %f : !mpcomm.future<tensor<4xf32>>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<4xf32>, %c: i1) {
  // expected-note@+1 {{the future is made here}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  scf.if %c {
    // expected-error@+1 {{'mpcomm.await' op awaits a future of another block, expected both in one block}}
    %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  }
  return
}

// -----

// expected-error@+1 {{a block argument is a future, expected it to be made by mpcomm.async in the block that awaits it}}
func.func @train_step(%f: !mpcomm.future<tensor<4xf32>>) -> tensor<4xf32> {
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

func.func private @give() -> !mpcomm.future<tensor<4xf32>>
func.func @train_step() -> tensor<4xf32> {
  // expected-error@+1 {{'func.call' op gives a future, expected only mpcomm.async to do so}}
  %f = func.call @give() : () -> !mpcomm.future<tensor<4xf32>>
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

// The order of axis names makes no other communicator.
mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>
func.func @train_step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note@+1 {{the other one starts here}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp", "tp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-error@+1 {{'mpcomm.barrier' op runs while another collective of its communicator is in flight, expected that one awaited before}}
  mpcomm.barrier on @mesh axes ["tp", "dp"]
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

// Also in a region.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  // expected-note@+1 {{the other one starts here}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  scf.if %c {
    // expected-error@+1 {{'mpcomm.all_reduce' op runs while another collective of its communicator is in flight}}
    %s = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  }
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}
