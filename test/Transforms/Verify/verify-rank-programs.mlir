// The contract of Form 3: collectives are synchronous.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-rank-programs

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(%x: tensor<f32>) -> tensor<f32> {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<f32>
  return %r : tensor<f32>
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
