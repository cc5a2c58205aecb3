// What the verifiers of loss scaling, clipping and dropout refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @unscale_c1(%s: tensor<f32>) {
  // expected-error @below {{expects at least one gradient}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.unscale() by %s : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @unscale_c2(%g: tensor<4xf32>, %s: tensor<f64>) {
  // expected-error @below {{expects a scale of f32, got 'tensor<f64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.unscale(%g) by %s : (tensor<4xf32>, tensor<f64>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @unscale_narrow(%g: tensor<4xf16>, %s: tensor<f32>) {
  // expected-error @below {{inferred type(s) 'tensor<4xf32>', 'tensor<f32>' are incompatible with return type(s) of operation 'tensor<4xf16>', 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.unscale(%g) by %s : (tensor<4xf16>, tensor<f32>) -> (tensor<4xf16>, tensor<f32>)
  return
}

// -----

func.func @clip_by_global_norm_c1() {
  // expected-error @below {{expects at least one gradient}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.clip_by_global_norm() max_norm = 1.0 : () -> tensor<f32>
  return
}

// -----

func.func @clip_by_global_norm_c2(%g: tensor<4xf32>) {
  // expected-error @below {{expects a positive finite 'max_norm', got 0.000000e+00}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.clip_by_global_norm(%g) max_norm = 0.0 : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @clip_by_global_norm_c2_infinite(%g: tensor<4xf32>) {
  // expected-error @below {{expects a positive finite 'max_norm', got 0x7FF0000000000000}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.clip_by_global_norm(%g) max_norm = 0x7FF0000000000000 : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @clip_by_global_norm_c3(%g: tensor<4xf32>, %n: tensor<f64>) {
  // expected-error @below {{expects a norm of f32, got 'tensor<f64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.clip_by_global_norm(%g) norm = %n, max_norm = 1.0 : (tensor<4xf32>, tensor<f64>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @squared_norm_c1() {
  // expected-error @below {{expects at least one gradient}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.squared_norm() : () -> tensor<f32>
  return
}

// -----

func.func @update_loss_scale_c1(%s: tensor<f32>, %n: tensor<i32>, %f: tensor<f16>) {
  // expected-error @below {{expects scale and found of f32, got 'tensor<f16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.update_loss_scale %s, %n, %n, %f, growth = 2.0, backoff = 0.5, interval = 1, min = 1.0, max = 2.0, hysteresis = 1 : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f16>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return
}

// -----

func.func @update_loss_scale_c2(%s: tensor<f32>, %n: tensor<i32>) {
  // expected-error @below {{expects finite numbers with growth >= 1, 0 < backoff <= 1, 0 <= min <= max}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.update_loss_scale %s, %n, %n, %s, growth = 2.0, backoff = 1.5, interval = 1, min = 1.0, max = 2.0, hysteresis = 1 : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return
}

// -----

func.func @update_loss_scale_c3(%s: tensor<f32>, %n: tensor<i32>) {
  // expected-error @below {{expects an interval and a hysteresis in [1, 2147483647], got 0}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = mpcomm.update_loss_scale %s, %n, %n, %s, growth = 2.0, backoff = 0.5, interval = 1, min = 1.0, max = 2.0, hysteresis = 0 : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return
}

// -----

func.func @update_fp8_scale_c1(%h: tensor<f32>) {
  // expected-error @below {{expects a history of type tensor<nxf32> with n >= 1, got 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.update_fp8_scale %h, %h, %h, format = f8E5M2, margin = 0 : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @update_fp8_scale_c2(%h: tensor<4xf32>, %s: tensor<f64>) {
  // expected-error @below {{expects scale and amax of f32, got 'tensor<f64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.update_fp8_scale %h, %s, %s, format = f8E5M2, margin = 0 : (tensor<4xf32>, tensor<f64>, tensor<f64>) -> (tensor<4xf32>, tensor<f64>)
  return
}

// -----

func.func @update_fp8_scale_c3(%h: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @below {{expects a float type of 8 bits as 'format', got 'i8'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.update_fp8_scale %h, %s, %s, format = i8, margin = 0 : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @update_fp8_scale_c4(%h: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @below {{expects a margin in [-64, 64], got 65}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = mpcomm.update_fp8_scale %h, %s, %s, format = f8E5M2, margin = 65 : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// -----

func.func @dropout_c1(%x: tensor<4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expects 'p' in [0, 1], got}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dropout %x, %s, p = 1.5, id = 0 : (tensor<4xf32>, tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @dropout_c2(%x: tensor<4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expects 'id' in [0, 2^32), got -1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dropout %x, %s, p = 0.5, id = -1 : (tensor<4xf32>, tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @dropout_grad_c1(%x: tensor<4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expects 'p' in [0, 1], got}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dropout_grad %x, %s, p = -0.5, id = 0 : (tensor<4xf32>, tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @dropout_grad_c2(%x: tensor<4xf32>, %s: tensor<2xi32>) {
  // expected-error @below {{expects 'id' in [0, 2^32), got 4294967296}}
  // expected-error @below {{failed to infer returned types}}
  %0 = mpcomm.dropout_grad %x, %s, p = 0.5, id = 4294967296 : (tensor<4xf32>, tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @seed(%x: tensor<4xf32>, %s: tensor<i32>) {
  // expected-error @below {{must be tensor of two i32, but got 'tensor<i32>'}}
  %0 = mpcomm.dropout %x, %s, p = 0.5, id = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return
}
