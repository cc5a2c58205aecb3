// RUN: mpcomm-opt %s --mpcomm-lower --mpcomm-form-epilogues | FileCheck %s

// gelu as it is lowered: where the sum is kept it stays in the product's place; the
// one of erf is none that a library has, nor is that of an input.

// CHECK-LABEL: func.func @kept(
// CHECK: mprt.gemm
// CHECK: mprt.launch @{{.*}} {mprt.epilogue = {bias = 0 : i64, kind = "bias_gelu_aux", result = 2 : i64}}
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
