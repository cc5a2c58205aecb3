// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file --verify-diagnostics

// What cannot be lowered is an error at the op.

mpcomm.mesh @a <["dp" = 2]>
mpcomm.mesh @b <["dp" = 2]>
func.func @two_meshes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mpcomm.all_reduce(%x) on @a axes ["dp"] sum : tensor<4xf32>
  // expected-error @below {{is on mesh @b, but other collectives are on @a: a program runs on one mesh}}
  %1 = mpcomm.all_reduce(%0) on @b axes ["dp"] sum : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @never_awaited(%x: tensor<4xf32>) {
  // expected-error @below {{expects its future to be awaited once, and used for nothing else}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @sum_of_8_bits(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{sums 'f8E5M2' on the wire, which no communicator can: expected f64, f32, f16 or bf16, or mpcomm-compress-collectives before, which sends 8 bits with scales}}
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum wire f8E5M2 accumulate f32 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @sum_of_8_bit_operands(%x: tensor<4xf8E4M3FN>) -> tensor<2xf8E4M3FN> {
  // expected-error @below {{sums 'f8E4M3FN' on the wire, which no communicator can}}
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<4xf8E4M3FN>) -> tensor<2xf8E4M3FN>
  return %0 : tensor<2xf8E4M3FN>
}
