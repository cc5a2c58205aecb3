// What StepModel leaves where it lies: slices that readers take with strides,
// transposes that go into products, parts of concatenations that are made in their
// places, constants of one value; and what readers compute again, after ops of several passes. On a cluster as
// in step-model.mlir, but with no time for flops: bytes take 1 ns, launches 100.

// RUN: sed 's/"f32": 1e9/"f32": 1e18/; s/"vector": 5e8/"vector": 1e18/' %S/Inputs/round.json > %t.json
// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=%t.json}))"

// A constant of one value is in the code: reads 128, writes 128.
// expected-remark@+1 {{compute 356 ns, arguments 128, peak 256 bytes}}
func.func @splat(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %0 = arith.maximumf %x, %zero : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Mean and variance are two kernels each: a sum in f64 over 256 bytes, which are
// widened as they are read, and the division. The result is computed by who
// reads it.
// expected-remark@+1 {{compute 1796 ns, arguments 304, peak 608 bytes}}
func.func @passes(%x: tensor<8x2x2x4xbf16>, %g: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>)
    -> (tensor<8x2x2x4xbf16>, tensor<4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<8x2x2x4xf32>
  %w = arith.extf %x : tensor<8x2x2x4xbf16> to tensor<8x2x2x4xf32>
  // Sums: 256 + 32 and 256 + 16 + 32; divisions: 2 x (32 + 16), one of them with
  // %s, 16, and %s2, 16; 4 launches.
  // expected-remark@+1 {{computes 1120 ns, allocates 112, frees 64}}
  %y, %mean, %variance = mpcomm.batch_norm_training %w, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // In the kernel that divides.
  %s2 = arith.addf %s, %mean : tensor<4xf32>
  // Reads 256 and 4 x 16, writes 256.
  %r = arith.maximumf %y, %zero : tensor<8x2x2x4xf32>
  // expected-remark@+1 {{computes 676 ns in kernel 4, allocates 256, frees 32}}
  %t = arith.truncf %r : tensor<8x2x2x4xf32> to tensor<8x2x2x4xbf16>
  return %t, %s2 : tensor<8x2x2x4xbf16>, tensor<4xf32>
}

// What is no kernel reads the result from memory. Sums: 512 + 32 and 512 + 16 +
// 32; divisions: 2 x 48; result: 512 + 4 x 16 read, 512 written; 5 launches.
// expected-remark@+1 {{compute 2788 ns, arguments 544, peak 1152 bytes}}
func.func @returned(%x: tensor<8x2x2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x2x2x4xf32> {
  // expected-remark@+1 {{computes 2788 ns, allocates 608, frees 96}}
  %y, %mean, %variance = mpcomm.batch_norm_training %x, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y : tensor<8x2x2x4xf32>
}

// The sums run in the kernel that makes an operand.
// expected-remark@+1 {{compute 4048 ns, arguments 1584, peak 2432 bytes}}
func.func @first_pass(%p: tensor<8x2x2x4xf32>, %q: tensor<8x2x2x4xf32>, %x: tensor<8x2x2x4xf32>,
    %g: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>)
    -> (tensor<8x2x2x4xbf16>, tensor<4xf32>, tensor<4xf32>) {
  %dy = arith.mulf %p, %q : tensor<8x2x2x4xf32>
  // Sums: 3 x 512 + 16 read, 512 + 2 x 32 written. Two kernels for statistics and
  // what they are multiplied by: 112 and 64. 3 launches.
  // expected-remark@+1 {{computes 2604 ns, allocates 656, frees 64}}
  %dx, %dg, %db = mpcomm.batch_norm_grad %dy, %x, %g, %m, %v, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // Reads %dy, %x and 4 x 16, writes 256.
  // expected-remark@+1 {{computes 1444 ns in kernel 3, allocates 256, frees 560}}
  %t = arith.truncf %dx : tensor<8x2x2x4xf32> to tensor<8x2x2x4xbf16>
  return %t, %dg, %db : tensor<8x2x2x4xbf16>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Two norms that are added: one kernel reads both operands, wherever it is that
// the statistics are used. Of each norm: 544 + 560 for the sums, 80 + 48 for the
// divisions, with %s in the first, 4 launches; 2 x 512, 2 x 16, 4 x 16, 512
// written and 100 of the kernel.
// expected-remark@+1 {{compute 4996 ns, arguments 1072, peak 1680 bytes}}
func.func @early(%x: tensor<8x2x2x4xf32>, %z: tensor<8x2x2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>)
    -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // expected-remark@+1 {{computes 1632 ns, allocates 112, frees 64}}
  %y1, %mean1, %variance1 = mpcomm.batch_norm_training %x, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %s1 = arith.addf %s, %mean1 : tensor<4xf32>
  // expected-remark@+1 {{computes 1632 ns, allocates 112, frees 64}}
  %y2, %mean2, %variance2 = mpcomm.batch_norm_training %z, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %s2 = arith.addf %s, %mean2 : tensor<4xf32>
  // expected-remark@+1 {{computes 1732 ns in kernel 8, allocates 512, frees 64}}
  %r = arith.addf %y1, %y2 : tensor<8x2x2x4xf32>
  return %r, %s1, %s2 : tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>
}

// expected-remark@+1 {{compute 4996 ns, arguments 1072, peak 1680 bytes}}
func.func @late(%x: tensor<8x2x2x4xf32>, %z: tensor<8x2x2x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>, %s: tensor<4xf32>)
    -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // expected-remark@+1 {{computes 1632 ns, allocates 112, frees 64}}
  %y1, %mean1, %variance1 = mpcomm.batch_norm_training %x, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // expected-remark@+1 {{computes 1632 ns, allocates 112, frees 64}}
  %y2, %mean2, %variance2 = mpcomm.batch_norm_training %z, %g, %b, eps = 1.0e-05, feature_dim = 3
      : (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // expected-remark@+1 {{computes 1732 ns in kernel 8, allocates 512, frees 64}}
  %r = arith.addf %y1, %y2 : tensor<8x2x2x4xf32>
  %s1 = arith.addf %s, %mean1 : tensor<4xf32>
  %s2 = arith.addf %s, %mean2 : tensor<4xf32>
  return %r, %s1, %s2 : tensor<8x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A product and a kernel take a window of a product where it lies. What is
// returned, and what a reshape takes across the border of windows, is copied.
// expected-remark@+1 {{compute 2840 ns, arguments 320, peak 1344 bytes}}
func.func @windows(%x: tensor<8x4xf32>, %w: tensor<4x12xf32>)
    -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<32xf32>) {
  // expected-remark@+1 {{computes 804 ns, allocates 384}}
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
  %1 = mpcomm.slice %0, starts = [0, 0], limits = [8, 4], strides = [1, 1] : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %2 = mpcomm.slice %0, starts = [0, 4], limits = [8, 8], strides = [1, 1] : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %3 = mpcomm.reshape %2 : (tensor<8x4xf32>) -> tensor<8x2x2xf32>
  %4 = mpcomm.reshape %3 : (tensor<8x2x2xf32>) -> tensor<8x4xf32>
  // 2 x 128, 256 and a launch.
  // expected-remark@+1 {{computes 612 ns, allocates 256}}
  %5 = mpcomm.dot_general %1, %4, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %6 = math.exp %1 : tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns, allocates 128}}
  %7 = mpcomm.slice %0, starts = [0, 8], limits = [8, 12], strides = [1, 1] : (tensor<8x12xf32>) -> tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns, allocates 128, frees 384}}
  %8 = mpcomm.slice %0, starts = [0, 4], limits = [8, 8], strides = [1, 1] : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %9 = mpcomm.reshape %8 : (tensor<8x4xf32>) -> tensor<32xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 1, allocates 128, frees 128}}
  %10 = math.exp %9 : tensor<32xf32>
  return %5, %6, %7, %10 : tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<32xf32>
}

// A window of an argument is copied for the caller.
// expected-remark@+1 {{compute 584 ns, arguments 128, peak 320 bytes}}
func.func @argument(%x: tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x4xf32>) {
  // expected-remark@+1 {{computes 228 ns, allocates 64}}
  %0 = mpcomm.slice %x, starts = [0, 1], limits = [8, 3], strides = [1, 1] : (tensor<8x4xf32>) -> tensor<8x2xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %1 = math.exp %x : tensor<8x4xf32>
  return %0, %1 : tensor<8x2xf32>, tensor<8x4xf32>
}

// -----

// What a product and a kernel make for a concatenation, they make in place; an
// argument is copied, 2 x 128 and a launch. The memory is that of the whole,
// from the first part on.
// expected-remark@+1 {{compute 1132 ns, arguments 192, peak 576 bytes}}
func.func @parts(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x12xf32> {
  // expected-remark@+1 {{computes 420 ns, allocates 384}}
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 0}}
  %1 = math.exp %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns}}
  %2 = mpcomm.concatenate %0, %1, %x, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x12xf32>
  return %2 : tensor<8x12xf32>
}

// What is part of two tensors or returned as well is copied; so is what is flat
// where it is made, and one of two copies of the same. One kernel reads %x for
// %0, %1 and %6, which is made in its place.
// expected-remark@+1 {{compute 2748 ns, arguments 320, peak 1472 bytes}}
func.func @copied(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %f: tensor<32xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>) {
  %0 = math.exp %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 612 ns in kernel 0, allocates 512}}
  %1 = math.tanh %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 1, allocates 128}}
  %2 = math.exp %f : tensor<32xf32>
  %3 = mpcomm.reshape %2 : (tensor<32xf32>) -> tensor<8x4xf32>
  // expected-remark@+1 {{computes 712 ns, allocates 256}}
  %4 = mpcomm.concatenate %0, %1, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  // expected-remark@+1 {{computes 712 ns, allocates 256, frees 256}}
  %5 = mpcomm.concatenate %1, %3, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %6 = math.sqrt %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 356 ns}}
  %7 = mpcomm.concatenate %6, %6, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  return %4, %5, %7, %0 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xf32>
}

// -----

// Products read and write transposed tensors. Kernels do not; nor does a product
// whose result something else reads as it is.
// expected-remark@+1 {{compute 1872 ns, arguments 768, peak 1280 bytes}}
func.func @transposes(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>, %p: tensor<2x2x4x4xf32>, %q: tensor<2x2x4x4xf32>)
    -> (tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = mpcomm.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{computes 420 ns, allocates 64}}
  %1 = mpcomm.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // 128 and a launch.
  // expected-remark@+1 {{computes 228 ns in kernel 0, allocates 64}}
  %2 = mpcomm.transpose %1, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{computes 868 ns, allocates 256}}
  %3 = mpcomm.dot_general %p, %q, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]
      : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %4 = mpcomm.transpose %3, dims = [0, 2, 1, 3] : (tensor<2x2x4x4xf32>) -> tensor<2x4x2x4xf32>
  %5 = mpcomm.reshape %4 : (tensor<2x4x2x4xf32>) -> tensor<8x8xf32>
  %6 = mpcomm.transpose %b, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 1, allocates 128}}
  %7 = math.exp %6 : tensor<4x8xf32>
  return %5, %7, %1, %2 : tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
