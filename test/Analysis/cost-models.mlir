// What CostOpInterface and PrecisionOpInterface say of upstream's ops. A flop
// is a floating-point operation, f32 is 4 bytes.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-cost))" -o /dev/null

// 4 x 8 = 32 elements of 4 bytes are 128 bytes.
func.func @arith(%a: tensor<4x8xf32>, %i: tensor<4x8xi32>) {
  // Two operands read: 2 x 128.
  // expected-remark@+1 {{32 flops, reads 256, writes 128 bytes; promote}}
  %0 = arith.addf %a, %a : tensor<4x8xf32>
  // A comparison writes an i1, one byte each: 32.
  // expected-remark@+1 {{32 flops, reads 256, writes 32 bytes; promote}}
  %1 = arith.cmpf olt, %a, %0 : tensor<4x8xf32>
  // Condition and two values: 32 + 2 x 128 = 288; it computes nothing.
  // expected-remark@+1 {{0 flops, reads 288, writes 128 bytes; any}}
  %2 = arith.select %1, %a, %0 : tensor<4x8xi1>, tensor<4x8xf32>
  // Half the bytes after: 32 x 2.
  // expected-remark@+1 {{0 flops, reads 128, writes 64 bytes; any}}
  %3 = arith.truncf %a : tensor<4x8xf32> to tensor<4x8xf16>
  // Integers are no floating-point operations.
  // expected-remark@+1 {{0 flops, reads 256, writes 128 bytes; any}}
  %4 = arith.addi %i, %i : tensor<4x8xi32>
  // expected-remark@+1 {{0 flops, reads 0, writes 0 bytes; any}}
  %5 = arith.constant dense<1.0> : tensor<4x8xf32>
  // Scalars: one flop, nothing from memory.
  // expected-remark@+1 {{0 flops, reads 0, writes 0 bytes; any}}
  %6 = arith.constant 1.0 : f32
  // expected-remark@+1 {{1 flops, reads 0, writes 0 bytes; promote}}
  %7 = arith.mulf %6, %6 : f32
  return
}

// -----

func.func @math(%a: tensor<4x8xf32>) {
  // expected-remark@+1 {{32 flops, reads 128, writes 128 bytes; fp32}}
  %0 = math.exp %a : tensor<4x8xf32>
  // expected-remark@+1 {{32 flops, reads 128, writes 128 bytes; promote}}
  %1 = math.tanh %a : tensor<4x8xf32>
  // A multiply-add is two: 2 x 32; three operands: 3 x 128.
  // expected-remark@+1 {{64 flops, reads 384, writes 128 bytes; promote}}
  %2 = math.fma %a, %a, %a : tensor<4x8xf32>
  return
}

// -----

func.func @tensor(%a: tensor<4x8xf32>, %b: tensor<2x8xf32>, %i: index, %d: tensor<?xf32>) {
  // expected-remark@+1 {{0 flops, reads 0, writes 0 bytes; any}}
  %0 = tensor.empty() : tensor<4x8xf32>
  // Only the slice is read: 2 x 8 x 4 = 64.
  // expected-remark@+1 {{0 flops, reads 64, writes 64 bytes; any}}
  %1 = tensor.extract_slice %a[0, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  // The rest of the destination stays.
  // expected-remark@+1 {{0 flops, reads 64, writes 64 bytes; any}}
  %2 = tensor.insert_slice %b into %a[0, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<4x8xf32>
  // expected-remark@+1 {{0 flops, reads 0, writes 0 bytes; any}}
  %3 = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  // expected-remark@+1 {{0 flops, reads 4, writes 0 bytes; any}}
  %4 = tensor.extract %a[%i, %i] : tensor<4x8xf32>
  // 128 + 64 in, 192 out.
  // expected-remark@+1 {{0 flops, reads 192, writes 192 bytes; any}}
  %5 = tensor.concat dim(0) %a, %b : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  // (4 + 1) x 8 x 4 = 160 out.
  // expected-remark@+1 {{0 flops, reads 128, writes 160 bytes; any}}
  %6 = tensor.pad %a low[1, 0] high[0, 0] {
  ^bb0(%p: index, %q: index):
    %z = arith.constant 0.0 : f32
    tensor.yield %z : f32
  } : tensor<4x8xf32> to tensor<5x8xf32>
  // expected-remark@+1 {{0 flops, reads 0, writes 128 bytes; any}}
  %7 = tensor.splat %4 : tensor<4x8xf32>
  // expected-remark@+1 {{0 flops, reads 0, writes 0 bytes; fp32}}
  %8 = tensor.bitcast %a : tensor<4x8xf32> to tensor<4x8xi32>
  return
}

// -----

#map = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @linalg(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>, %r: tensor<4xf32>, %s: f32) {
  // 4 x 16 x 8 = 512 points of a multiplication and an addition; reads
  // 128 + 512 and the output, 256, that it adds to.
  // expected-remark@+1 {{1024 flops, reads 896, writes 256 bytes; lower_precision, sums in 'f32'}}
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  // The old contents are not read.
  // expected-remark@+1 {{0 flops, reads 0, writes 256 bytes; any}}
  %1 = linalg.fill ins(%s : f32) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  // 32 points of exp and mulf; the output is written only.
  // expected-remark@+1 {{64 flops, reads 128, writes 128 bytes; fp32}}
  %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    %m = arith.mulf %e, %in : f32
    linalg.yield %m : f32
  } -> tensor<4x8xf32>
  // One addition a point; reads 128 and the 4 x 4 = 16 bytes of the sums.
  // expected-remark@+1 {{32 flops, reads 144, writes 16 bytes; fp32, sums in 'f32'}}
  %3 = linalg.generic {indexing_maps = [#map, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<4x8xf32>) outs(%r : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.addf %in, %out : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  // expected-remark@+1 {{32 flops, reads 256, writes 128 bytes; promote}}
  %4 = linalg.add ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  // 5 x 32.
  // expected-remark@+1 {{160 flops, reads 128, writes 128 bytes; fp32, sums in 'f32'}}
  %5 = linalg.softmax dimension(1) ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{0 flops, reads 128, writes 128 bytes; any}}
  %6 = linalg.copy ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// Sums of 16-bit values are taken in f32; a dynamic size counts as 1.
func.func @narrow(%a: tensor<4x?xf16>, %b: tensor<?x16xf16>, %c: tensor<4x16xf16>) {
  // 4 x 16 points; reads 4 x 1 x 2 + 1 x 16 x 2 + 4 x 16 x 2. A type with a
  // dynamic size counts as one element of 2 bytes: 2 + 2 + 128.
  // expected-remark@+1 {{128 flops, reads 132, writes 128 bytes; lower_precision, sums in 'f32'}}
  %0 = linalg.matmul ins(%a, %b : tensor<4x?xf16>, tensor<?x16xf16>) outs(%c : tensor<4x16xf16>) -> tensor<4x16xf16>
  return
}

// -----

// The dialect's own ops answer through the same interfaces.
// 4 x 16 x 8 x 2 flops, no accumulator is read.
func.func @mpcomm(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-remark@+1 {{1024 flops, reads 640, writes 256 bytes; lower_precision, sums in 'f32'}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

// -----

// Scores are 2 x 3 x 8 x 6 = 288: two products of depth 16, 4 x 16 + 6 flops
// each, or five, 10 x 16 + 10. Bytes of q are 1536, of k and v 1152, of lse 192,
// of the mask 48.
func.func @attention(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %m: tensor<8x6xi1>) {
  // expected-remark@+1 {{20160 flops, reads 3888, writes 1728 bytes; lower_precision, sums in 'f32'}}
  %o, %l = mpcomm.attention %q, %k, %k mask %m scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<8x6xi1>) -> (tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>)
  // expected-remark@+1 {{48960 flops, reads 7104, writes 3840 bytes; lower_precision, sums in 'f32'}}
  %dq, %dk, %dv = mpcomm.attention_grad %q, %q, %k, %k, %o, %l scale = 1.0 : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8xf32>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>)
  return
}

// -----

// A bias is one flop more of each score, its gradient another: 10 x 16 + 12.
// The bias is 288 bytes, the second part of lse 192, the gradient 576.
func.func @bias_grad(%q: tensor<2x8x3x16xbf16>, %k: tensor<2x6x3x16xbf16>, %l: tensor<2x3x8x2xf32>, %b: tensor<1x3x8x6xbf16>) {
  // expected-remark@+1 {{49536 flops, reads 7584, writes 4416 bytes; lower_precision, sums in 'f32'}}
  %dq, %dk, %dv, %db = mpcomm.attention_grad %q, %q, %k, %k, %q, %l bias %b scale = 1.0 bias_grad : (tensor<2x8x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x8x3x16xbf16>, tensor<2x3x8x2xf32>, tensor<1x3x8x6xbf16>) -> (tensor<2x8x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<2x6x3x16xbf16>, tensor<1x3x8x6xf32>)
  return
}

// -----

// More than 64 bits count: 2 * 2^24 * 2^48 flops are as many as fit.
func.func @saturated(%a: tensor<16777216x16777216xf32>) {
  // expected-remark@+1 {{9223372036854775807 flops, }}
  %0 = mpcomm.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<16777216x16777216xf32>, tensor<16777216x16777216xf32>) -> tensor<16777216x16777216xf32>
  return
}
