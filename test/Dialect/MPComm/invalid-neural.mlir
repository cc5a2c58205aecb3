// What the verifiers of layers, losses and optimizers refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @softmax_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0 = mpcomm.softmax %x, dim = 2 : tensor<8x4xf32>
  return
}

// -----

func.func @softmax_grad_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got -1}}
  %0 = mpcomm.softmax_grad %x, %x, dim = -1 : tensor<8x4xf32>
  return
}

// -----

func.func @log_softmax_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0 = mpcomm.log_softmax %x, dim = 2 : tensor<8x4xf32>
  return
}

// -----

func.func @log_softmax_grad_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'dim' in [0, 2), got 2}}
  %0 = mpcomm.log_softmax_grad %x, %x, dim = 2 : tensor<8x4xf32>
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<8x4xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expects gamma and beta of the trailing dimensions of 'tensor<8x4xf32>', got 'tensor<8xf32>' and 'tensor<8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %m, %r = mpcomm.layer_norm %x, %g, %g, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_c1_beta(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %b: tensor<8x4xf32>) {
  // expected-error @below {{expects gamma and beta of the trailing dimensions of 'tensor<8x4xf32>', got 'tensor<4xf32>' and 'tensor<8x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %m, %r = mpcomm.layer_norm %x, %g, %b, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_c1_scalar(%x: tensor<8x4xf32>, %g: tensor<f32>) {
  // expected-error @below {{expects gamma and beta of the trailing dimensions of 'tensor<8x4xf32>', got 'tensor<f32>' and 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %m, %r = mpcomm.layer_norm %x, %g, %g, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<8x4xf32>, %g: tensor<4xf64>) {
  // expected-error @below {{expects one element type, got 'tensor<8x4xf32>', 'tensor<4xf64>' and 'tensor<4xf64>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %m, %r = mpcomm.layer_norm %x, %g, %g, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<4xf64>, tensor<4xf64>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_grad_c1(%x: tensor<8x4xf32>, %m: tensor<8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expects gamma of the trailing dimensions of 'tensor<8x4xf32>', got 'tensor<8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.layer_norm_grad %x, %x, %m, %m, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_grad_c2(%x: tensor<8x4xf32>, %dy: tensor<4x8xf32>, %m: tensor<8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expects a gradient of type 'tensor<8x4xf32>', got 'tensor<4x8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.layer_norm_grad %dy, %x, %m, %m, %g : (tensor<4x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @layer_norm_grad_c3(%x: tensor<8x4xf32>, %m: tensor<4xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expects statistics of rows of type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.layer_norm_grad %x, %x, %m, %m, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @cross_entropy_c1(%x: tensor<8xf32>, %t: tensor<8xi64>) {
  // expected-error @below {{expects logits of rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.cross_entropy %x, %t mean ignore_index = -100 : (tensor<8xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return
}

// -----

func.func @cross_entropy_c2(%x: tensor<8x4xf32>, %t: tensor<4xi64>) {
  // expected-error @below {{expects one target for each of the 8 rows of the logits}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.cross_entropy %x, %t mean ignore_index = -100 : (tensor<8x4xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<8xf32>)
  return
}

// -----

func.func @cross_entropy_grad_c1(%d: tensor<f32>, %x: tensor<8xf32>, %t: tensor<8xi64>) {
  // expected-error @below {{expects logits of rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cross_entropy_grad %d, %x, %t, %x mean ignore_index = -100 : (tensor<f32>, tensor<8xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @cross_entropy_grad_c2_targets(%d: tensor<f32>, %x: tensor<8x4xf32>, %t: tensor<8x1xi64>, %l: tensor<8xf32>) {
  // expected-error @below {{expects one target for each of the 8 rows of the logits}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cross_entropy_grad %d, %x, %t, %l mean ignore_index = -100 : (tensor<f32>, tensor<8x4xf32>, tensor<8x1xi64>, tensor<8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @cross_entropy_grad_c2_lse(%d: tensor<f32>, %x: tensor<8x4xf32>, %t: tensor<8xi64>, %l: tensor<4xf32>) {
  // expected-error @below {{expects an lse of type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cross_entropy_grad %d, %x, %t, %l mean ignore_index = -100 : (tensor<f32>, tensor<8x4xf32>, tensor<8xi64>, tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @cross_entropy_grad_c3(%d: tensor<1xf32>, %x: tensor<8x4xf32>, %t: tensor<8xi64>, %l: tensor<8xf32>) {
  // expected-error @below {{expects a gradient of type 'tensor<f32>', got 'tensor<1xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.cross_entropy_grad %d, %x, %t, %l mean ignore_index = -100 : (tensor<1xf32>, tensor<8x4xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @sgd_update_c1_grad(%p: tensor<8x4xf32>, %g: tensor<4x8xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expects the parameter's type 'tensor<8x4xf32>', got 'tensor<4x8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<4x8xf32>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @sgd_update_c1_buffer(%p: tensor<8x4xf32>, %lr: tensor<f32>, %b: tensor<32xf32>) {
  // expected-error @below {{expects the parameter's type 'tensor<8x4xf32>', got 'tensor<32xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.sgd_update %p, %p, %lr, %b, momentum = 0.9, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<32xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @sgd_update_c2_momentum(%p: tensor<8x4xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expects 'momentum' exactly with a momentum buffer, and 'nesterov' only with both}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.sgd_update %p, %p, %lr, momentum = 0.9, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @sgd_update_c2_buffer(%p: tensor<8x4xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expects 'momentum' exactly with a momentum buffer, and 'nesterov' only with both}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.sgd_update %p, %p, %lr, %p, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @sgd_update_c2_nesterov(%p: tensor<8x4xf32>, %lr: tensor<f32>) {
  // expected-error @below {{expects 'momentum' exactly with a momentum buffer, and 'nesterov' only with both}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.sgd_update %p, %p, %lr, weight_decay = 0.0 {nesterov} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @adamw_update_c1(%p: tensor<8x4xf32>, %m: tensor<32xf32>, %s: tensor<f32>) {
  // expected-error @below {{expects the parameter's type 'tensor<8x4xf32>', got 'tensor<32xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.adamw_update %p, %p, %p, %m, %s, %s, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
  return
}

// -----

func.func @rms_norm_c1(%x: tensor<8x4xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expects gamma of the trailing dimensions of}}
  // expected-error @below {{failed to infer returned types}}
  %y, %r = mpcomm.rms_norm %x, %g, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<8x4xf32>, %g: tensor<4xf64>) {
  // expected-error @below {{expects one element type, got}}
  // expected-error @below {{failed to infer returned types}}
  %y, %r = mpcomm.rms_norm %x, %g, eps = 1.0e-05 : (tensor<8x4xf32>, tensor<4xf64>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

func.func @rms_norm_grad_c1(%x: tensor<8x4xf32>, %r: tensor<8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{expects gamma of the trailing dimensions of}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.rms_norm_grad %x, %x, %r, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  return
}

// -----

func.func @rms_norm_grad_c2(%x: tensor<8x4xf32>, %dy: tensor<4x8xf32>, %r: tensor<8xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expects a gradient of type}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.rms_norm_grad %dy, %x, %r, %g : (tensor<4x8xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @rms_norm_grad_c3(%x: tensor<8x4xf32>, %r: tensor<4xf32>, %g: tensor<4xf32>) {
  // expected-error @below {{expects statistics of rows of type 'tensor<8xf32>', got 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.rms_norm_grad %x, %x, %r, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return
}
