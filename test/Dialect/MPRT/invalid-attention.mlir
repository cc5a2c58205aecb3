// What the verifier of mprt.attention refuses. Each case names the constraint
// that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @attention_c1(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{does not know the kind 'convolution'}}
  mprt.attention "convolution" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1_inputs(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<8x9xi1>, %a4: memref<8x9xi1>, %a5: memref<2x8x4x16xbf16>, %a6: memref<2x4x8xf32>) {
  // expected-error @below {{expects 3 inputs, a mask or a bias or both after them or not, and 2 outputs for 'attention', got 5 and 2}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2, %a3, %a4 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<8x9xi1>, memref<8x9xi1>) outs(%a5, %a6 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1_outputs(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x8x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x9x4x16xbf16>, %a4: memref<2x8x4x16xbf16>, %a5: memref<2x4x8xf32>, %a6: memref<2x8x4x16xbf16>, %a7: memref<2x9x4x16xbf16>, %a8: memref<2x9x4x16xbf16>, %a9: memref<8xf32>) {
  // expected-error @below {{expects 6 inputs, a mask or a bias or both after them or not, and 3 outputs for 'attention_grad', got 6 and 4}}
  mprt.attention "attention_grad" scale = 0.25 ins(%a0, %a1, %a2, %a3, %a4, %a5 : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x4x8xf32>) outs(%a6, %a7, %a8, %a9 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<8xf32>)
  return
}

// -----

func.func @attention_c2(%a0: memref<2x8x4x16xbf16>, %a1: tensor<2x9x4x16xbf16>, %a2: tensor<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects operands that are all tensors or all buffers}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, tensor<2x9x4x16xbf16>, tensor<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c2_results(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects no results on buffers}}
  %r:2 = mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c2_types(%a0: tensor<2x8x4x16xbf16>, %a1: tensor<2x9x4x16xbf16>, %a2: tensor<2x9x4x16xbf16>, %a3: tensor<2x8x4x16xbf16>, %a4: tensor<2x4x8xf32>) {
  // expected-error @below {{expects results of its outputs' types}}
  %r:2 = mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : tensor<2x8x4x16xbf16>, tensor<2x9x4x16xbf16>, tensor<2x9x4x16xbf16>) outs(%a3, %a4 : tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x9xf32>)
  return
}

// -----

func.func @attention_c3_rank(%a0: memref<2x8x64xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x64xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{equal but in positions, got 'memref<2x8x64xbf16>' and 'memref<2x9x4x16xbf16>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x64xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x64xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_heads(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x2x16xbf16>, %a2: memref<2x9x2x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{equal but in positions, got 'memref<2x8x4x16xbf16>' and 'memref<2x9x2x16xbf16>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x2x16xbf16>, memref<2x9x2x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_v(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x8x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects 'v' of 'tensor<2x9x4x16xbf16>', got 'memref<2x8x4x16xbf16>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x8x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_out(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xf32>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects 'out' of 'tensor<2x8x4x16xbf16>', got 'memref<2x8x4x16xf32>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xf32>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3_lse(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x8x4xf32>) {
  // expected-error @below {{expects 'lse' of 'tensor<2x4x8xf32>', got 'memref<2x8x4xf32>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x8x4xf32>)
  return
}

// -----

func.func @attention_c3_dout(%a0: memref<2x9x4x16xbf16>, %a1: memref<2x8x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x9x4x16xbf16>, %a4: memref<2x8x4x16xbf16>, %a5: memref<2x4x8xf32>, %a6: memref<2x8x4x16xbf16>, %a7: memref<2x9x4x16xbf16>, %a8: memref<2x9x4x16xbf16>) {
  // expected-error @below {{expects 'dout' of 'tensor<2x8x4x16xbf16>', got 'memref<2x9x4x16xbf16>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%a0, %a1, %a2, %a3, %a4, %a5 : memref<2x9x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x4x8xf32>) outs(%a6, %a7, %a8 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>)
  return
}

// -----

func.func @attention_c3_grad_out(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x8x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x9x4x16xbf16>, %a4: memref<2x9x4x16xbf16>, %a5: memref<2x4x8xf32>, %a6: memref<2x8x4x16xbf16>, %a7: memref<2x9x4x16xbf16>, %a8: memref<2x9x4x16xbf16>) {
  // expected-error @below {{expects 'out' of 'tensor<2x8x4x16xbf16>', got 'memref<2x9x4x16xbf16>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%a0, %a1, %a2, %a3, %a4, %a5 : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x4x8xf32>) outs(%a6, %a7, %a8 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>)
  return
}

// -----

func.func @attention_c3_dk(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x8x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x9x4x16xbf16>, %a4: memref<2x8x4x16xbf16>, %a5: memref<2x4x8xf32>, %a6: memref<2x8x4x16xbf16>, %a7: memref<2x9x4x16xf16>, %a8: memref<2x9x4x16xbf16>) {
  // expected-error @below {{expects 'dk' of 'tensor<2x9x4x16xbf16>', got 'memref<2x9x4x16xf16>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%a0, %a1, %a2, %a3, %a4, %a5 : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x4x8xf32>) outs(%a6, %a7, %a8 : memref<2x8x4x16xbf16>, memref<2x9x4x16xf16>, memref<2x9x4x16xbf16>)
  return
}

// -----

func.func @attention_c3_mask(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<9x8xi1>, %a4: memref<2x8x4x16xbf16>, %a5: memref<2x4x8xf32>) {
  // expected-error @below {{expects 'mask' of 'tensor<8x9xi1>', got 'memref<9x8xi1>'}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2, %a3 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<9x8xi1>) outs(%a4, %a5 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c4_size(%a0: memref<2x8x4x24xbf16>, %a1: memref<2x9x4x24xbf16>, %a2: memref<2x9x4x24xbf16>, %a3: memref<2x8x4x24xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects bf16 or f16, a size of heads that is a multiple of 16 up to 128}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x24xbf16>, memref<2x9x4x24xbf16>, memref<2x9x4x24xbf16>) outs(%a3, %a4 : memref<2x8x4x24xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c4_type(%a0: memref<2x8x4x16xf32>, %a1: memref<2x9x4x16xf32>, %a2: memref<2x9x4x16xf32>, %a3: memref<2x8x4x16xf32>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects bf16 or f16}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xf32>, memref<2x9x4x16xf32>, memref<2x9x4x16xf32>) outs(%a3, %a4 : memref<2x8x4x16xf32>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c4_empty(%a0: memref<2x8x4x16xf16>, %a1: memref<2x0x4x16xf16>, %a2: memref<2x0x4x16xf16>, %a3: memref<2x8x4x16xf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{at least one and at most 2^22 rows and columns}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xf16>, memref<2x0x4x16xf16>, memref<2x0x4x16xf16>) outs(%a3, %a4 : memref<2x8x4x16xf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c4_scale(%a0: memref<2x8x4x16xbf16>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects a finite scale}}
  mprt.attention "attention" scale = 0x7FF0000000000000 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c5(%a0: memref<2x8x4x16xbf16, strided<[?, 64, 16, 1]>>, %a1: memref<2x9x4x16xbf16>, %a2: memref<2x9x4x16xbf16>, %a3: memref<2x8x4x16xbf16, strided<[?, 64, 16, 1]>>, %a4: memref<2x4x8xf32>) {
  // expected-error @below {{expects buffers of static strides}}
  mprt.attention "attention" scale = 0.25 ins(%a0, %a1, %a2 : memref<2x8x4x16xbf16, strided<[?, 64, 16, 1]>>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>) outs(%a3, %a4 : memref<2x8x4x16xbf16, strided<[?, 64, 16, 1]>>, memref<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1_biases(%q: memref<2x8x4x16xbf16>, %k: memref<2x9x4x16xbf16>, %b: memref<1x1x8x9xf32>, %l: memref<2x4x8x2xf32>) {
  // expected-error @below {{got 5 and 2}}
  mprt.attention "attention" scale = 0.25 ins(%q, %k, %k, %b, %b : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<1x1x8x9xf32>, memref<1x1x8x9xf32>) outs(%q, %l : memref<2x8x4x16xbf16>, memref<2x4x8x2xf32>)
  return
}

// -----

func.func @attention_c3_bias(%q: memref<2x8x4x16xbf16>, %k: memref<2x9x4x16xbf16>, %b: memref<8x9xf32>, %l: memref<2x4x8x2xf32>) {
  // expected-error @below {{expects a bias of f32, bf16 or f16 whose dimensions are 1 or those of 'tensor<2x4x8x9xf32>', got 'memref<8x9xf32>'}}
  mprt.attention "attention" scale = 0.25 ins(%q, %k, %k, %b : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<8x9xf32>) outs(%q, %l : memref<2x8x4x16xbf16>, memref<2x4x8x2xf32>)
  return
}

// -----

func.func @attention_c3_bias_shape(%q: memref<2x8x4x16xbf16>, %k: memref<2x9x4x16xbf16>, %b: memref<4x1x8x9xbf16>, %l: memref<2x4x8x2xf32>) {
  // expected-error @below {{whose dimensions are 1 or those of 'tensor<2x4x8x9xbf16>', got 'memref<4x1x8x9xbf16>'}}
  mprt.attention "attention" scale = 0.25 ins(%q, %k, %k, %b : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<4x1x8x9xbf16>) outs(%q, %l : memref<2x8x4x16xbf16>, memref<2x4x8x2xf32>)
  return
}

// -----

func.func @attention_c3_bias_type(%q: memref<2x8x4x16xbf16>, %k: memref<2x9x4x16xbf16>, %b: memref<1x1x8x9xi8>, %l: memref<2x4x8x2xf32>) {
  // expected-error @below {{expects a bias of f32, bf16 or f16 whose}}
  mprt.attention "attention" scale = 0.25 ins(%q, %k, %k, %b : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<1x1x8x9xi8>) outs(%q, %l : memref<2x8x4x16xbf16>, memref<2x4x8x2xf32>)
  return
}

// -----

func.func @attention_c3_bias_lse(%q: memref<2x8x4x16xbf16>, %k: memref<2x9x4x16xbf16>, %b: memref<1x1x8x9xf32>, %l: memref<2x4x8xf32>) {
  // expected-error @below {{expects 'lse' of 'tensor<2x4x8x2xf32>', got 'memref<2x4x8xf32>'}}
  mprt.attention "attention" scale = 0.25 ins(%q, %k, %k, %b : memref<2x8x4x16xbf16>, memref<2x9x4x16xbf16>, memref<2x9x4x16xbf16>, memref<1x1x8x9xf32>) outs(%q, %l : memref<2x8x4x16xbf16>, memref<2x4x8xf32>)
  return
}

// -----

// One gradient of the bias at most.
func.func @attention_c1_bias_grads(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %b: memref<1x3x8x9xf32>, %d: memref<1x3x8x9xf32>) {
  // expected-error @below {{and 4 outputs for 'attention_grad', got 7 and 5}}
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<1x3x8x9xf32>) outs(%q, %k, %k, %d, %d : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x8x9xf32>, memref<1x3x8x9xf32>)
  return
}

// -----

func.func @attention_c3_bias_grad(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %b: memref<1x3x8x9xbf16>, %d: memref<1x3x8x9xbf16>) {
  // expected-error @below {{expects 'db' of 'tensor<1x3x8x9xf32>', got 'memref<1x3x8x9xbf16>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<1x3x8x9xbf16>) outs(%q, %k, %k, %d : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x8x9xbf16>)
  return
}

// -----

func.func @attention_c3_bias_grad_shape(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %b: memref<1x3x8x9xbf16>, %d: memref<2x3x8x9xf32>) {
  // expected-error @below {{expects 'db' of 'tensor<1x3x8x9xf32>', got 'memref<2x3x8x9xf32>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<1x3x8x9xbf16>) outs(%q, %k, %k, %d : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x3x8x9xf32>)
  return
}

// -----

// Kernels do not sum up rows.
func.func @attention_c4_bias_grad(%q: memref<2x8x3x16xbf16>, %k: memref<2x9x3x16xbf16>, %l: memref<2x3x8x2xf32>, %b: memref<1x3x1x9xf32>, %d: memref<1x3x1x9xf32>) {
  // expected-error @below {{expects a bias with an element for each row and column, and less than 2^31 tiles of it, for 'db', got 'memref<1x3x1x9xf32>'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %k, %k, %q, %l, %b : memref<2x8x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x8x3x16xbf16>, memref<2x3x8x2xf32>, memref<1x3x1x9xf32>) outs(%q, %k, %k, %d : memref<2x8x3x16xbf16>, memref<2x9x3x16xbf16>, memref<2x9x3x16xbf16>, memref<1x3x1x9xf32>)
  return
}

// -----

// 2^32 tiles.
func.func @attention_c4_bias_tiles(%q: memref<1x4194304x1x16xbf16>, %l: memref<1x1x4194304x2xf32>, %b: memref<1x1x4194304x4194304xbf16>, %d: memref<1x1x4194304x4194304xf32>) {
  // expected-error @below {{and less than 2^31 tiles of it, for 'db'}}
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %q, %q, %q, %l, %b : memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x1x4194304x2xf32>, memref<1x1x4194304x4194304xbf16>) outs(%q, %q, %q, %d : memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x4194304x1x16xbf16>, memref<1x1x4194304x4194304xf32>)
  return
}
