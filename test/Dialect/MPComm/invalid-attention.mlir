// What the verifiers of attention refuse. Each case names the constraint that it breaks.

// RUN: mpcomm-opt %s --split-input-file --verify-diagnostics

func.func @attention_c1_rank(%q: tensor<8x3x16xbf16>, %k: tensor<6x3x16xbf16>, %v: tensor<6x3x16xbf16>) {
  // expected-error @below {{expects query, key and value of rank 4, [samples, rows, heads, depth]}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<8x3x16xbf16>, tensor<6x3x16xbf16>, tensor<6x3x16xbf16>) -> (tensor<8x3x16xbf16>, tensor<3x8xf32>)
  return
}

// -----

func.func @attention_c1_key(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x4x16xbf16>, %v: tensor<2x6x4x16xbf16>) {
  // expected-error @below {{expects a key of the query's sizes but along dimension 1, got 'tensor<2x6x4x16xbf16>' for 'tensor<2x8x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x4x16xbf16>, tensor<2x6x4x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c1_value(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x8xbf16>) {
  // expected-error @below {{expects a value of the key's shape, got 'tensor<2x6x3x8xbf16>' for 'tensor<2x6x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c1_scores(%q: tensor<1x16777216x2x1xbf16>, %k: tensor<1x16777216x2x1xbf16>, %v: tensor<1x16777216x2x1xbf16>) {
  // expected-error @below {{has scores of type 'tensor<1x2x16777216x16777216xbf16>', expected at most 2^48 of them}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<1x16777216x2x1xbf16>, tensor<1x16777216x2x1xbf16>, tensor<1x16777216x2x1xbf16>) -> (tensor<1x16777216x2x1xbf16>, tensor<1x2x16777216xf32>)
  return
}

// -----

func.func @attention_c2_equal(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xf16>, %v: tensor<2x6x3x16xbf16>) {
  // expected-error @below {{expects one element type, got 'tensor<2x8x3x16xbf16>', 'tensor<2x6x3x16xf16>' and 'tensor<2x6x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xf16>, tensor<2x6x3x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c2_bits(%q: tensor<2x8x3x16xf8E4M3FN>, %k: tensor<2x8x3x16xf8E4M3FN>, %v: tensor<2x8x3x16xf8E4M3FN>) {
  // expected-error @below {{expects elements of at least 16 bits, got 'f8E4M3FN'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 1.0 : (tensor<2x8x3x16xf8E4M3FN>, tensor<2x8x3x16xf8E4M3FN>, tensor<2x8x3x16xf8E4M3FN>) -> (tensor<2x8x3x16xf8E4M3FN>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c3(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %m: tensor<6x8xi1>) {
  // expected-error @below {{expects a mask of type 'tensor<8x6xi1>', got 'tensor<6x8xi1>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v mask %m scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<6x8xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c4(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>) {
  // expected-error @below {{expects a finite scale, got inf}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v scale = 0x7FF0000000000000 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_grad_c1(%g: tensor<2x8x3x16xbf16>, %q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x4x16xbf16>, %v: tensor<2x6x4x16xbf16>, %o: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8xf32>) {
  // expected-error @below {{expects a key of the query's sizes but along dimension 1, got 'tensor<2x6x4x16xbf16>' for 'tensor<2x8x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2 = mpcomm.attention_grad %g, %q, %k, %v, %o, %l scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x4x16xbf16>, tensor<2x6x4x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x4x16xbf16>, tensor<2x6x4x16xbf16>)
  return
}

// -----

func.func @attention_grad_c2_grad(%g: tensor<2x6x3x16xbf16>, %q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %o: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8xf32>) {
  // expected-error @below {{expects a gradient and an output of type 'tensor<2x8x3x16xbf16>', got 'tensor<2x6x3x16xbf16>' and 'tensor<2x8x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2 = mpcomm.attention_grad %g, %q, %k, %v, %o, %l scale = 1.0 : (tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// -----

func.func @attention_grad_c2_output(%g: tensor<2x8x3x16xbf16>, %q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %o: tensor<2x6x3x16xbf16>, %l: tensor<2x3x8xf32>) {
  // expected-error @below {{expects a gradient and an output of type 'tensor<2x8x3x16xbf16>', got 'tensor<2x8x3x16xbf16>' and 'tensor<2x6x3x16xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2 = mpcomm.attention_grad %g, %q, %k, %v, %o, %l scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// -----

func.func @attention_grad_c3(%g: tensor<2x8x3x16xbf16>, %q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %o: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8xbf16>) {
  // expected-error @below {{expects an lse of type 'tensor<2x3x8xf32>', got 'tensor<2x3x8xbf16>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2 = mpcomm.attention_grad %g, %q, %k, %v, %o, %l scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// -----

func.func @attention_not_i1(%q: tensor<2x8x3x16xbf16>, %m: tensor<8x8xi8>) {
  // expected-error @below {{operand #3 must be statically shaped tensor of 1-bit signless integer values and at most 2^48 elements, but got 'tensor<8x8xi8>'}}
  %0, %1 = "mpcomm.attention"(%q, %q, %q, %m) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, scale = 1.0 : f64} : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<8x8xi8>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return
}

// -----

func.func @attention_c5_rank(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %b: tensor<8x6xf32>) {
  // expected-error @below {{expects a bias of rank 4, each dimension 1 or that of the scores, 'tensor<2x3x8x6xbf16>', got 'tensor<8x6xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  return
}

// -----

func.func @attention_c5_shape(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %b: tensor<2x1x6x8xf32>) {
  // expected-error @below {{expects a bias of rank 4, each dimension 1 or that of the scores, 'tensor<2x3x8x6xbf16>', got 'tensor<2x1x6x8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x1x6x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  return
}

// -----

func.func @attention_c5_wide(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %b: tensor<2x3x8x6xf64>) {
  // expected-error @below {{expects a bias of at least 16 bits, and no more than 'f32', got 'tensor<2x3x8x6xf64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x3x8x6xf64>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  return
}

// -----

func.func @attention_c5_narrow(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %b: tensor<2x3x8x6xf8E4M3FN>) {
  // expected-error @below {{expects a bias of at least 16 bits, and no more than 'f32', got 'tensor<2x3x8x6xf8E4M3FN>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1 = mpcomm.attention %q, %k, %v bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x3x8x6xf8E4M3FN>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  return
}

// -----

// With a bias, lse is in two parts.
func.func @attention_grad_c3_bias(%g: tensor<2x8x3x16xbf16>, %q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %v: tensor<2x6x3x16xbf16>, %o: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8xf32>, %b: tensor<1x1x8x6xf32>) {
  // expected-error @below {{expects an lse of type 'tensor<2x3x8x2xf32>', got 'tensor<2x3x8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2 = mpcomm.attention_grad %g, %q, %k, %v, %o, %l bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>, tensor<1x1x8x6xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// -----

func.func @attention_grad_c4(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %l: tensor<2x3x8xf32>) {
  // expected-error @below {{expects a bias whose gradient 'bias_grad' asks for}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2, %3 = mpcomm.attention_grad %q, %q, %k, %k, %q, %l scale = 1.0 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xf32>)
  return
}

// -----

// The bias's gradient is in the type of sums.
func.func @attention_grad_bias_grad(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %b: tensor<1x3x8x6xbf16>) {
  // expected-error @below {{inferred type(s)}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2, %3 = mpcomm.attention_grad %q, %q, %k, %k, %q, %l bias %b scale = 1.0 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<1x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xbf16>)
  return
}

// -----

// Without `bias_grad` there are three results.
func.func @attention_grad_results(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %b: tensor<1x3x8x6xbf16>) {
  // expected-error @below {{inferred type(s)}}
  // expected-error @below {{failed to infer returned types}}
  %0, %1, %2, %3 = mpcomm.attention_grad %q, %q, %k, %k, %q, %l bias %b scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<1x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xf32>)
  return
}
