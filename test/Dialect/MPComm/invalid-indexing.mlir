// What the verifiers of top_k, cumulative and rng refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @top_k_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0, %1 = mpcomm.top_k %x, dim = 2, k = 1 : (tensor<8x4xf32>) -> (tensor<8x1xf32>, tensor<8x1xi64>)
  return
}

// -----

func.func @top_k_c1_scalar(%x: tensor<f32>) {
  // expected-error @below {{expects 'dim' in [0, 0), got 0}}
  %0, %1 = mpcomm.top_k %x, dim = 0, k = 1 : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
  return
}

// -----

func.func @top_k_c1_size(%x: tensor<2147483648xi1>) {
  // expected-error @below {{expects a dimension of less than 2^31 elements, got 2147483648}}
  %0, %1 = mpcomm.top_k %x, dim = 0, k = 1 : (tensor<2147483648xi1>) -> (tensor<1xi1>, tensor<1xi64>)
  return
}

// -----

func.func @top_k_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'k' in [1, 4], got 5}}
  %0, %1 = mpcomm.top_k %x, dim = 1, k = 5 : (tensor<8x4xf32>) -> (tensor<8x5xf32>, tensor<8x5xi64>)
  return
}

// -----

func.func @top_k_c2_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'k' in [1, 4], got 0}}
  %0, %1 = mpcomm.top_k %x, dim = 1, k = 0 : (tensor<8x4xf32>) -> (tensor<8x0xf32>, tensor<8x0xi64>)
  return
}

// -----

func.func @top_k_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects values of type 'tensor<2x4xf32>', got 'tensor<2x4xf16>'}}
  %0, %1 = mpcomm.top_k %x, dim = 0, k = 2 : (tensor<8x4xf32>) -> (tensor<2x4xf16>, tensor<2x4xi64>)
  return
}

// -----

func.func @top_k_c4(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects indices of the shape of 'tensor<2x4xf32>', got 'tensor<4x2xi64>'}}
  %0, %1 = mpcomm.top_k %x, dim = 0, k = 2 : (tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<4x2xi64>)
  return
}

// -----

func.func @cumulative_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cumulative sum %x, dim = -1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @cumulative_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{does not take 'mean': divide a sum by the counts}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cumulative mean %x, dim = 1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @rng_c1(%s: tensor<2xi32>) {
  // expected-error @below {{expects 'id' in [0, 2^32), got 4294967296}}
  %0 = mpcomm.rng uniform %s, id = 4294967296 : (tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_c2(%s: tensor<2xi32>) {
  // expected-error @below {{expects elements of at least 8 bits of mantissa, got 'f8E4M3FN'}}
  %0 = mpcomm.rng uniform %s, id = 0 : (tensor<2xi32>) -> tensor<4xf8E4M3FN>
  return
}
