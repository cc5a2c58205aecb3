// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics

// Each constraint of gather, gather_grad and scatter is checked.

func.func @gather_c1(%x: tensor<8x4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects 'dim' to be a dimension of 'tensor<8x4xf32>' that is not empty, got 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i dim = 2 : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<8x4x3xf32>
  return
}

// -----

func.func @gather_c1_scalar(%x: tensor<f32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects 'dim' to be a dimension of 'tensor<f32>' that is not empty, got 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i : (tensor<f32>, tensor<3xi64>) -> tensor<3xf32>
  return
}

// -----

func.func @gather_c1_empty(%x: tensor<0x4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects 'dim' to be a dimension of 'tensor<0x4xf32>' that is not empty, got 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i : (tensor<0x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @gather_c2(%x: tensor<8x4xf32>, %i: tensor<8x3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects 'batch_dims' in [0, 0], got 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i batch_dims = 1 : (tensor<8x4xf32>, tensor<8x3xi64>) -> tensor<8x3xf32>
  return
}

// -----

func.func @gather_c2_negative(%x: tensor<8x4xf32>, %i: tensor<8x3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects 'batch_dims' in [0, 1], got -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i dim = 1 batch_dims = -1 : (tensor<8x4xf32>, tensor<8x3xi64>) -> tensor<8x3xf32>
  return
}

// -----

func.func @gather_c2_sizes(%x: tensor<8x4xf32>, %i: tensor<7x3xi64>) {
  // expected-error @below {{'mpcomm.gather' op expects equal sizes of the first 1 dimensions of 'tensor<8x4xf32>' and 'tensor<7x3xi64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.gather %x, %i dim = 1 batch_dims = 1 : (tensor<8x4xf32>, tensor<7x3xi64>) -> tensor<8x3xf32>
  return
}

// -----

func.func @gather_grad_c1(%dy: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects 'dim' to be a dimension of 'tensor<0x4xf32>' that is not empty, got 0}}
  %0 = mpcomm.gather_grad %dy, %i : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<0x4xf32>
  return
}

// -----

func.func @gather_grad_c2(%dy: tensor<8x3xf32>, %i: tensor<7x3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects equal sizes of the first 1 dimensions of 'tensor<8x4xf32>' and 'tensor<7x3xi64>'}}
  %0 = mpcomm.gather_grad %dy, %i dim = 1 batch_dims = 1 : (tensor<8x3xf32>, tensor<7x3xi64>) -> tensor<8x4xf32>
  return
}

// -----

func.func @gather_grad_c3(%dy: tensor<3x5xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects a gradient of shape 'tensor<3x4xf32>', got 'tensor<3x5xf32>'}}
  %0 = mpcomm.gather_grad %dy, %i : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<9x4xf32>
  return
}

// -----

func.func @gather_grad_c4(%dy: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects one element type, got 'f32' and 'f64'}}
  %0 = mpcomm.gather_grad %dy, %i : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<9x4xf64>
  return
}

// -----

func.func @gather_grad_c5(%dy: tensor<3x4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects 'padding_idx' in [0, 9), got -100}}
  %0 = mpcomm.gather_grad %dy, %i padding_idx = -100 : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<9x4xf32>
  return
}

// -----

func.func @gather_grad_c5_limit(%dy: tensor<4x3xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{'mpcomm.gather_grad' op expects 'padding_idx' in [0, 9), got 9}}
  %0 = mpcomm.gather_grad %dy, %i dim = 1 padding_idx = 9 : (tensor<4x3xf32>, tensor<3xi64>) -> tensor<4x9xf32>
  return
}

// -----

func.func @scatter_c1(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>) {
  // expected-error @below {{'mpcomm.scatter' op expects 'dim' to be a dimension of 'tensor<8x4xf32>', got -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.scatter %x, %i, %u dim = -1 : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scatter_c2(%x: tensor<8x4xf32>, %i: tensor<i64>, %u: tensor<8xf32>) {
  // expected-error @below {{'mpcomm.scatter' op expects 'batch_dims' in [0, 0], got 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.scatter %x, %i, %u dim = 1 batch_dims = 1 : (tensor<8x4xf32>, tensor<i64>, tensor<8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scatter_c3(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>) {
  // expected-error @below {{'mpcomm.scatter' op expects updates of shape 'tensor<8x3xf32>', got 'tensor<3x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.scatter %x, %i, %u dim = 1 : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scatter_c4(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf64>) {
  // expected-error @below {{'mpcomm.scatter' op expects one element type, got 'f32' and 'f64'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.scatter %x, %i, %u : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf64>) -> tensor<8x4xf32>
  return
}

// -----

func.func @scatter_c5(%x: tensor<8x4xf32>, %i: tensor<3xi64>, %u: tensor<3x4xf32>) {
  // expected-error @below {{'mpcomm.scatter' op does not take 'mean': divide a sum by a count}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.scatter %x, %i, %u reduction mean : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  return
}
