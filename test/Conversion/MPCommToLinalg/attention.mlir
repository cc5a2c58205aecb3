// Attention is a call of a kernel where a GPU has one, and is written out
// elsewhere: in f32, of a depth that is no multiple of 16, on the processor.

// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg=device=cuda --cse --canonicalize | FileCheck %s --check-prefixes=CHECK,CUDA
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --cse --canonicalize | FileCheck %s --check-prefixes=CHECK,HOST --implicit-check-not=mprt.attention
// RUN: not mpcomm-opt %s --convert-mpcomm-to-linalg=device=abacus 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: cannot convert for device 'abacus': expected host or cuda

// CHECK-LABEL: func.func @kernel(
// CUDA-SAME: %[[Q:[^:]*]]: tensor<2x8x3x16xbf16>, %[[M:[^:]*]]: tensor<8x8xi1>, %[[D:[^:]*]]: tensor<2x8x3x16xbf16>)
// CUDA-DAG: %[[O:.*]] = tensor.empty() : tensor<2x8x3x16xbf16>
// CUDA-DAG: %[[L:.*]] = tensor.empty() : tensor<2x3x8xf32>
// CUDA: %[[R:.*]]:2 = mprt.attention "attention" scale = 2.500000e-01 ins(%[[Q]], %[[Q]], %[[Q]], %[[M]] : {{.*}}) outs(%[[O]], %[[L]] : {{.*}})
// CUDA: mprt.attention "attention_grad" scale = 2.500000e-01 ins(%[[D]], %[[Q]], %[[Q]], %[[Q]], %[[R]]#0, %[[R]]#1, %[[M]] : {{.*}}) outs(%[[O]], %[[O]], %[[O]] : {{.*}})
// CUDA-NOT: linalg
// CUDA: return

// Written out: scores once for both, in 16 bits from their product and in f32
// from there; the gradient has four products more.
// HOST-COUNT-6: linalg.contract
// HOST-NOT: linalg.contract
// HOST: return
func.func @kernel(%q: tensor<2x8x3x16xbf16>, %m: tensor<8x8xi1>, %d: tensor<2x8x3x16xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) {
  %o, %l = mpcomm.attention %q, %q, %q mask %m scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<8x8xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  %dq, %dk, %dv = mpcomm.attention_grad %d, %q, %q, %q, %o, %l mask %m scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>, tensor<8x8xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>)
  return %o, %dq, %dk, %dv : tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>
}

// CHECK-LABEL: func.func @no_kernel(
// CHECK-NOT: mprt.attention
// CHECK: linalg.contract {{.*}} -> tensor<2x3x8x8xf32>
// CHECK: linalg.contract {{.*}} -> tensor<2x8x3x16xf32>
// CHECK: return
func.func @no_kernel(%q: tensor<2x8x3x16xf32>) -> tensor<2x8x3x16xf32> {
  %o, %l = mpcomm.attention %q, %q, %q scale = 0.25 : (tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) -> (tensor<2x8x3x16xf32>, tensor<2x3x8xf32>)
  return %o : tensor<2x8x3x16xf32>
}

// CHECK-LABEL: func.func @shallow(
// CHECK-NOT: mprt.attention
// CHECK: linalg.contract {{.*}} -> tensor<2x3x8x8xf16>
// CHECK: return
func.func @shallow(%q: tensor<2x8x3x6xf16>) -> tensor<2x8x3x6xf16> {
  %o, %l = mpcomm.attention %q, %q, %q scale = 0.25 : (tensor<2x8x3x6xf16>, tensor<2x8x3x6xf16>, tensor<2x8x3x6xf16>) -> (tensor<2x8x3x6xf16>, tensor<2x3x8xf32>)
  return %o : tensor<2x8x3x6xf16>
}

// CHECK-LABEL: func.func @empty(
// CHECK-NOT: mprt.attention
// CHECK: return
func.func @empty(%q: tensor<2x8x3x16xf16>, %k: tensor<2x0x3x16xf16>) -> (tensor<2x8x3x16xf16>, tensor<2x0x3x16xf16>) {
  %o, %l = mpcomm.attention %q, %k, %k scale = 0.25 : (tensor<2x8x3x16xf16>, tensor<2x0x3x16xf16>, tensor<2x0x3x16xf16>) -> (tensor<2x8x3x16xf16>, tensor<2x3x8xf32>)
  %dq, %dk, %dv = mpcomm.attention_grad %q, %q, %k, %k, %o, %l scale = 0.25 : (tensor<2x8x3x16xf16>, tensor<2x8x3x16xf16>, tensor<2x0x3x16xf16>, tensor<2x0x3x16xf16>, tensor<2x8x3x16xf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xf16>, tensor<2x0x3x16xf16>, tensor<2x0x3x16xf16>)
  return %dq, %dk : tensor<2x8x3x16xf16>, tensor<2x0x3x16xf16>
}

// A bias is added to what is scaled, in f32; lse is in two parts. Rows of -inf
// alone have probabilities of 0 with `safe`.
// CHECK-LABEL: func.func @bias(
// CUDA: mprt.attention "attention" scale = 2.500000e-01 safe ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : {{.*}}, tensor<2x1x1x8xbf16>) outs({{.*}} : tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
// HOST: %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// HOST: arith.mulf
// HOST: arith.extf %{{.*}} : bf16 to f32
// HOST: arith.addf
// HOST: %[[NONE:.*]] = arith.cmpf oeq, %{{.*}}, %[[LOWEST]]
// HOST: arith.select
// HOST: tensor.insert_slice {{.*}} : tensor<2x3x8x1xf32> into tensor<2x3x8x2xf32>
// HOST: tensor.insert_slice {{.*}}[0, 0, 0, 1] {{.*}} : tensor<2x3x8x1xf32> into tensor<2x3x8x2xf32>
// CHECK: return {{.*}} tensor<2x3x8x2xf32>
func.func @bias(%q: tensor<2x8x3x16xbf16>, %b: tensor<2x1x1x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>) {
  %o, %l = mpcomm.attention %q, %q, %q bias %b scale = 0.25 safe : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x1x1x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>)
  return %o, %l : tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>
}

// A mask that is made of constants alone is the same in each step.
// CHECK-LABEL: func.func @fixed_mask(
// CUDA: mprt.attention "attention" {{.*}} {mprt.fixed_mask}
// CUDA: mprt.attention "attention" {{.*}} outs({{[^{]*}}) -> {{.*$}}
func.func @fixed_mask(%q: tensor<2x8x3x16xbf16>, %x: tensor<8xi64>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>) {
  %i = mpcomm.iota dim = 0 : tensor<8x8xi64>
  %j = mpcomm.iota dim = 1 : tensor<8x8xi64>
  %m = arith.cmpi sle, %j, %i : tensor<8x8xi64>
  %b = mpcomm.broadcast_in_dim %x, dims = [0] : (tensor<8xi64>) -> tensor<8x8xi64>
  %n = arith.cmpi sle, %j, %b : tensor<8x8xi64>
  %o, %l = mpcomm.attention %q, %q, %q mask %m scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<8x8xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  %p, %k = mpcomm.attention %q, %q, %q mask %n scale = 0.25 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<8x8xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  return %o, %p : tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>
}

// The gradient of a bias is the sum of the gradients of scores, not rounded and
// not scaled, over samples.
// CHECK-LABEL: func.func @bias_grad(
// CUDA: mprt.attention "attention_grad" {{.*}} ins({{.*}}, tensor<1x3x8x8xbf16>) outs({{.*}}, tensor<1x3x8x8xf32>)
// HOST: linalg.contract
// HOST: linalg.contract
// HOST: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "parallel"]} ins(%{{.*}} : tensor<2x3x8x8xf32>) outs(%{{.*}} : tensor<3x8x8xf32>)
// CHECK: return
func.func @bias_grad(%q: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %b: tensor<1x3x8x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>) {
  %dq, %dk, %dv, %db = mpcomm.attention_grad %q, %q, %q, %q, %q, %l bias %b scale = 0.25 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<1x3x8x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>)
  return %dq, %db : tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>
}

// No kernel sums over rows.
// CHECK-LABEL: func.func @bias_grad_of_columns(
// CHECK-NOT: mprt.attention
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction", "parallel"]}
// CHECK: return
func.func @bias_grad_of_columns(%q: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %b: tensor<2x1x1x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x1x1x8xf32>) {
  %dq, %dk, %dv, %db = mpcomm.attention_grad %q, %q, %q, %q, %q, %l bias %b scale = 0.25 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<2x1x1x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x1x1x8xf32>)
  return %dq, %db : tensor<2x8x3x16xbf16>, tensor<2x1x1x8xf32>
}

// A row that the mask excludes as a whole is NaN, but for the bias, whose
// gradient is zero there.
// CHECK-LABEL: func.func @masked_bias_grad(
// HOST-COUNT-4: linalg.contract
// HOST-NOT: linalg.contract
// HOST: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// HOST: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel", "parallel"]}
// CHECK: return
func.func @masked_bias_grad(%q: tensor<2x8x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %m: tensor<8x8xi1>, %b: tensor<1x3x8x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>) {
  %dq, %dk, %dv, %db = mpcomm.attention_grad %q, %q, %q, %q, %q, %l mask %m bias %b scale = 0.25 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<8x8xi1>, tensor<1x3x8x8xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>)
  return %dq, %dk, %dv, %db : tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<1x3x8x8xf32>
}
