// Products of tensor cores of 8 bits read what their operands are widened from.
// On the cluster of Inputs/round.json, with 8 flops in 1 ns in 8 bits:
// 2 x 32 x 48 x 64 = 196608 flops take 24576 ns, a launch 100.

// RUN: sed 's/"bf16": 4e9/"bf16": 4e9, "f8": 8e9/' %S/Inputs/round.json > %t.json
// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=%t.json}))"

module attributes {mpcomm.multiply_f8} {
  // expected-remark@+1 {{compute 2.468e+04 ns}}
  func.func @forward(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
    %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
    %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
    // expected-remark@+1 {{computes 2.468e+04 ns}}
    %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
    return %r : tensor<32x48xbf16>
  }
}

// -----

// Not of a module that does not say so: 32 x 64 and 48 x 64 elements are widened
// by kernels of 100 + 3 x 2048 and 100 + 3 x 3072 ns, and multiplied in 16 bits.
// expected-remark@+1 {{compute 6.481e+04 ns}}
func.func @wide(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
  %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
  %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
  // expected-remark@+1 {{computes 6.481e+04 ns}}
  %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  return %r : tensor<32x48xbf16>
}

// -----

// Both operands are transposed first: 2 x 32 x 48 and 2 x 32 x 64 bytes, with
// the launches 7368 ns. The transposed operands, of 1536 and 2048 bytes, live
// until the product, whose result has 6144.
module attributes {mpcomm.multiply_f8} {
  // expected-remark@+1 {{compute 3.204e+04 ns, arguments 3584, peak 13312 bytes; predicted kernels = 2, bytes = 7168, arena = 3584}}
  func.func @weights(%dy: tensor<32x48xf8E5M2>, %x: tensor<32x64xf8E4M3FN>) -> tensor<48x64xbf16> {
    %0 = arith.extf %dy : tensor<32x48xf8E5M2> to tensor<32x48xbf16>
    %1 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
    // expected-remark@+1 {{computes 3.204e+04 ns}}
    %r = mpcomm.dot_general %0, %1, contracting_dims = [0] x [0] : (tensor<32x48xbf16>, tensor<32x64xbf16>) -> tensor<48x64xbf16>
    return %r : tensor<48x64xbf16>
  }
}

// -----

// What is transposed anyway is read as it lies.
module attributes {mpcomm.multiply_f8} {
  // expected-remark@+1 {{compute 2.468e+04 ns}}
  func.func @transposed(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
    %0 = arith.extf %x : tensor<32x64xf8E4M3FN> to tensor<32x64xbf16>
    %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
    %2 = mpcomm.transpose %1, dims = [1, 0] : (tensor<48x64xbf16>) -> tensor<64x48xbf16>
    // expected-remark@+1 {{computes 2.468e+04 ns}}
    %r = mpcomm.dot_general %0, %2, contracting_dims = [1] x [0] : (tensor<32x64xbf16>, tensor<64x48xbf16>) -> tensor<32x48xbf16>
    return %r : tensor<32x48xbf16>
  }
}

// -----

// 24 terms are no multiple of 16: 32 x 24 and 48 x 24 elements are widened, by
// kernels of 100 + 3 x 768 and 100 + 3 x 1152 ns, and multiplied in 16 bits.
module attributes {mpcomm.multiply_f8} {
  // expected-remark@+1 {{compute 2.449e+04 ns}}
  func.func @terms(%x: tensor<32x24xf8E4M3FN>, %w: tensor<48x24xf8E4M3FN>) -> tensor<32x48xbf16> {
    %0 = arith.extf %x : tensor<32x24xf8E4M3FN> to tensor<32x24xbf16>
    %1 = arith.extf %w : tensor<48x24xf8E4M3FN> to tensor<48x24xbf16>
    // expected-remark@+1 {{computes 2.449e+04 ns}}
    %r = mpcomm.dot_general %0, %1, contracting_dims = [1] x [1] : (tensor<32x24xbf16>, tensor<48x24xbf16>) -> tensor<32x48xbf16>
    return %r : tensor<32x48xbf16>
  }
}

// -----

// A transpose of 8 bits cancels out with the one that a product needs: no kernel.
module attributes {mpcomm.multiply_f8} {
  // expected-remark@+1 {{compute 2.468e+04 ns, arguments 5120, peak 8192 bytes; predicted kernels = 0}}
  func.func @cancels(%x: tensor<32x64xf8E4M3FN>, %w: tensor<48x64xf8E4M3FN>) -> tensor<32x48xbf16> {
    %t = mpcomm.transpose %x, dims = [1, 0] : (tensor<32x64xf8E4M3FN>) -> tensor<64x32xf8E4M3FN>
    %0 = arith.extf %t : tensor<64x32xf8E4M3FN> to tensor<64x32xbf16>
    %1 = arith.extf %w : tensor<48x64xf8E4M3FN> to tensor<48x64xbf16>
    // expected-remark@+1 {{computes 2.468e+04 ns}}
    %r = mpcomm.dot_general %0, %1, contracting_dims = [0] x [1] : (tensor<64x32xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
    return %r : tensor<32x48xbf16>
  }
}
