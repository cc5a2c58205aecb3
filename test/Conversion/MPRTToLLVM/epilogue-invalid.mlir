// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics --convert-mprt-to-llvm

func.func private @k(memref<16xf32>, memref<8x16xf32>) attributes {mpcomm.kernel}
func.func @host(%b: memref<16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{is the epilogue of a product, expected a program for a GPU}}
  mprt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<8x16xf32>) {mprt.epilogue = {kind = "bias", bias = 0}}
  return
}

// -----

func.func private @k(memref<16xf32>, memref<8x16xf32>) attributes {mpcomm.kernel}
func.func @wrong(%b: memref<16xf32>, %c: memref<8x16xf32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind (bias, bias_gelu, bias_gelu_aux, gelu_grad, bias_grad_a, bias_grad_b or scale) and numbers of operands, on a launch}}
  mprt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<8x16xf32>) {mprt.epilogue = {kind = "bias", bias = 2}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "scale"}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "scale", scales = array<i32: 0>}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "scale", scales = array<i64: 0, 0, 0>}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "scale", scales = array<i64: 1>}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "scale", scales = array<i64: 3>}}
  return
}

// -----

func.func private @k(memref<f32>, memref<16xf32>, memref<f16>, memref<f32>) attributes {mpcomm.kernel}
func.func @scales(%p: memref<f32>, %b: memref<16xf32>, %h: memref<f16>, %c: memref<f32>) {
  // expected-error @below {{expects 'mprt.epilogue' to be a kind}}
  mprt.launch @k ins(%p, %b, %h : memref<f32>, memref<16xf32>, memref<f16>) outs(%c : memref<f32>) {mprt.epilogue = {kind = "bias_grad_a", bias = 1, scales = array<i64: 0>}}
  return
}
