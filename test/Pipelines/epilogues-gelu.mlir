// RUN: mpcomm-opt %s --mpcomm-lower --mpcomm-form-epilogues | FileCheck %s

// gelu as it is lowered: where the sum is kept it stays in the product's place; the
// one of erf is none that a library has, nor is that of an input.

// CHECK-LABEL: func.func @kept(
// CHECK: mprt.gemm
// CHECK: mprt.launch @{{.*}} {mprt.epilogue = {bias = 0 : i64, kind = "bias_gelu_aux", matrix = 2 : i64}}
func.func @kept(%x: tensor<4x6x8xbf16>, %w: tensor<8x32xbf16>, %b: tensor<32xbf16>) -> (tensor<4x6x32xbf16>, tensor<4x6x32xbf16>) {
  %p = mpcomm.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<4x6x8xbf16>, tensor<8x32xbf16>) -> tensor<4x6x32xbf16>
  %c = mpcomm.broadcast_in_dim %b, dims = [2] : (tensor<32xbf16>) -> tensor<4x6x32xbf16>
  %s = arith.addf %p, %c : tensor<4x6x32xbf16>
  %g = mpcomm.gelu %s approximate tanh : tensor<4x6x32xbf16>
  return %s, %g : tensor<4x6x32xbf16>, tensor<4x6x32xbf16>
}

// CHECK-LABEL: func.func @alone(
// CHECK: mprt.launch @{{.*}} {mprt.epilogue = {bias = 0 : i64, kind = "bias_gelu"}}
func.func @alone(%x: tensor<4x8xf32>, %w: tensor<8x32xf32>, %b: tensor<32xf32>, %v: tensor<32x8xf32>) -> tensor<4x8xf32> {
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %c = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<32xf32>) -> tensor<4x32xf32>
  %s = arith.addf %c, %p : tensor<4x32xf32>
  %g = mpcomm.gelu %s approximate tanh : tensor<4x32xf32>
  %q = mpcomm.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %q : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @erf(
// CHECK-NOT: mprt.epilogue
func.func @erf(%x: tensor<4x8xf32>, %w: tensor<8x32xf32>, %b: tensor<32xf32>, %v: tensor<32x8xf32>) -> tensor<4x8xf32> {
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %c = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<32xf32>) -> tensor<4x32xf32>
  %s = arith.addf %c, %p : tensor<4x32xf32>
  %g = mpcomm.gelu %s : tensor<4x32xf32>
  %q = mpcomm.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %q : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @wide(
// CHECK-NOT: mprt.epilogue
func.func @wide(%x: tensor<4x8xf64>, %w: tensor<8x32xf64>, %b: tensor<32xf64>, %v: tensor<32x8xf64>) -> tensor<4x8xf64> {
  %p = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf64>, tensor<8x32xf64>) -> tensor<4x32xf64>
  %c = mpcomm.broadcast_in_dim %b, dims = [1] : (tensor<32xf64>) -> tensor<4x32xf64>
  %s = arith.addf %c, %p : tensor<4x32xf64>
  %g = mpcomm.gelu %s approximate tanh : tensor<4x32xf64>
  %q = mpcomm.dot_general %g, %v, contracting_dims = [1] x [0] : (tensor<4x32xf64>, tensor<32x8xf64>) -> tensor<4x8xf64>
  return %q : tensor<4x8xf64>
}

// Gradients: gelu's goes with the product before it, though another comes in
// between, and what else its kernel does with the bias, whose gradient goes with
// that of the weight.
// CHECK-LABEL: func.func @gradients(
// CHECK: mprt.gemm %{{.*}} m = 32 n = 8 k = 24
// CHECK: mprt.gemm %{{[^,]*}}, %{{[^,]*}}, %[[DX:[^ ]*]] m = 24 n = 32 k = 8
// CHECK-NOT: mprt.gemm
// CHECK: mprt.launch @{{.*}}_product ins(%{{.*}}) outs(%[[DX]] : {{.*}}) {mprt.epilogue = {kind = "gelu_grad", matrix = 0 : i64}}
// CHECK: mprt.gemm %[[DX]], %{{.*}} m = 32 n = 8 k = 24
// CHECK-NOT: mprt.gemm
// CHECK: mprt.launch @{{.*}}_rest ins(%[[DX]] : {{.*}}) outs(%{{.*}} : memref<32xf32>) {mprt.epilogue = {bias = 1 : i64, kind = "bias_grad_a"}}
func.func @gradients(%s: tensor<4x6x32xbf16>, %g: tensor<4x6x32xbf16>, %x: tensor<4x6x8xbf16>, %v: tensor<32x8xbf16>,
                     %dy: tensor<4x6x8xbf16>) -> (tensor<32x8xbf16>, tensor<32x8xbf16>, tensor<32xf32>) {
  %p = mpcomm.dot_general %dy, %v, contracting_dims = [2] x [1] : (tensor<4x6x8xbf16>, tensor<32x8xbf16>) -> tensor<4x6x32xbf16>
  %dv = mpcomm.dot_general %g, %dy, contracting_dims = [0, 1] x [0, 1] : (tensor<4x6x32xbf16>, tensor<4x6x8xbf16>) -> tensor<32x8xbf16>
  %dx = mpcomm.gelu_grad %p, %s approximate tanh : tensor<4x6x32xbf16>
  %dw = mpcomm.dot_general %dx, %x, contracting_dims = [0, 1] x [0, 1] : (tensor<4x6x32xbf16>, tensor<4x6x8xbf16>) -> tensor<32x8xbf16>
  %wide = arith.extf %dx : tensor<4x6x32xbf16> to tensor<4x6x32xf32>
  %db = mpcomm.reduce sum %wide, dims = [0, 1] : (tensor<4x6x32xf32>) -> tensor<32xf32>
  return %dv, %dw, %db : tensor<32x8xbf16>, tensor<32x8xbf16>, tensor<32xf32>
}
