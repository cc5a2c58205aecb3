// What StepModel says of each instruction. On the cluster of Inputs/round.json
// a contraction makes 1 flop in 1 ns in f32 and 4 in bf16, other ops make one in
// 2 ns; memory moves 1 byte in 1 ns; a kernel takes 100 ns to launch. Messages
// take 1000 ns and 1 ns a byte, in rings. 8 x 4 = 32 floats are 128 bytes.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=%S/Inputs/round.json}))"

// The longer of flops and bytes. Arguments: 2 x 4096 + 2 x 2048; then %0 and
// %1, and %3 in the place of %0: 12288 + 4096 + 2048.
// expected-remark@+1 {{compute 9.656e+04 ns, arguments 12288, peak 18432 bytes}}
func.func @roofline(%a: tensor<32x32xf32>, %b: tensor<32x32xf32>, %c: tensor<32x32xbf16>, %d: tensor<32x32xbf16>)
    -> (tensor<32x32xf32>, tensor<32x32xbf16>) {
  // 2 x 32^3 = 65536 flops against 3 x 4096 bytes; and 100.
  // expected-remark@+1 {{computes 6.564e+04 ns, allocates 4096}}
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  // A quarter of the time in bf16: 16384, and 100.
  // expected-remark@+1 {{computes 1.648e+04 ns, allocates 2048}}
  %1 = mpcomm.dot_general %c, %d, contracting_dims = [1] x [0] : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
  // 5 flops an element: 5 x 1024 x 2 ns = 10240, more than the 4096 bytes that
  // it reads.
  %2 = mpcomm.softmax %0, dim = 1 : tensor<32x32xf32>
  // Writes 4096, more than 1024 x 2 ns. With the launch: 10240 + 4096 + 100.
  // expected-remark@+1 {{computes 1.444e+04 ns in kernel 0}}
  %3 = arith.addf %2, %2 : tensor<32x32xf32>
  return %3, %1 : tensor<32x32xf32>, tensor<32x32xbf16>
}

// -----

// Intermediates of a kernel are neither written nor read.
// expected-remark@+1 {{compute 904 ns, arguments 192, peak 320 bytes}}
func.func @fusion(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  // 256 flops; 128 + 64 + 128 = 320 bytes, and the launch.
  // expected-remark@+1 {{computes 420 ns, allocates 128}}
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  // Reads 128; with the launch, 228.
  %1 = math.exp %0 : tensor<8x4xf32>
  // Reads %x only: 128.
  %2 = arith.addf %1, %x : tensor<8x4xf32>
  // Writes 128. 228 + 128 + 128 = 484; the product is read when the kernel
  // runs, which is here.
  // expected-remark@+1 {{computes 484 ns in kernel 0}}
  %3 = arith.mulf %2, %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// -----

// One value a row stays in the kernel.
// expected-remark@+1 {{compute 356 ns, arguments 128, peak 256 bytes}}
func.func @rows(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // Reads 128; with the launch, 228. Flops: 32 x 2 ns.
  %0 = mpcomm.reduce sum %x, dims = [1] : (tensor<8x4xf32>) -> tensor<8xf32>
  %1 = mpcomm.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  // %x has been read; writes 128.
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %2 = arith.subf %x, %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// A sum over rows is there when its kernel has ended.
// expected-remark@+1 {{compute 616 ns, arguments 128, peak 272 bytes}}
func.func @columns(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // 128 + 16 + 100.
  // expected-remark@+1 {{computes 244 ns in kernel 0, allocates 16}}
  %0 = mpcomm.reduce sum %x, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  // Reads 16; with the launch, 116.
  %1 = mpcomm.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  // Reads 128 and writes 128: 116 + 256.
  // expected-remark@+1 {{computes 372 ns in kernel 1, allocates 128, frees 16}}
  %2 = arith.subf %x, %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// A view costs nothing and holds its operand, which has to be in memory.
// expected-remark@+1 {{compute 712 ns, arguments 128, peak 384 bytes}}
func.func @views(%x: tensor<8x4xf32>) -> tensor<32xf32> {
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %0 = math.exp %x : tensor<8x4xf32>
  %1 = mpcomm.reshape %0 : (tensor<8x4xf32>) -> tensor<32xf32>
  // expected-remark@+1 {{computes 356 ns in kernel 1, allocates 128, frees 128}}
  %2 = math.exp %1 : tensor<32xf32>
  return %2 : tensor<32xf32>
}

// Once a product needs %0, its kernel stays where it is. The next op needs
// nothing later and joins it there: reads nothing, writes 128. The one after
// needs the product.
// expected-remark@+1 {{compute 1388 ns, arguments 192, peak 576 bytes}}
func.func @closed(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  // 228 + 128 for %0, 128 for %2. Both results are allocated here.
  // expected-remark@+1 {{computes 484 ns in kernel 0, allocates 256}}
  %0 = math.exp %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 420 ns, allocates 128}}
  %1 = mpcomm.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %2 = math.tanh %0 : tensor<8x4xf32>
  // Two operands read, one result written, a launch: 384 + 100.
  // expected-remark@+1 {{computes 484 ns in kernel 1, frees 128}}
  %3 = arith.addf %0, %1 : tensor<8x4xf32>
  return %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 4]>

// A ring of four: 2 x 3 messages, 2 x 3/4 = 1.5 ns a byte. In bf16 half of the
// bytes travel. The result takes the place of the gradient, which nothing else
// needs.
// expected-remark@+1 {{compute 840 ns, arguments 128, peak 384 bytes}}
func.func @async(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %g = math.exp %x : tensor<8x4xf32>
  // expected-remark@+1 {{starts 64 bytes of 1 tensors, ring 6000 ns + 96 ns on link 0}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean wire bf16 accumulate f32 : tensor<8x4xf32>
    mpcomm.yield %r : tensor<8x4xf32>
  } : !mpcomm.future<tensor<8x4xf32>>
  // Waits in the kernel of its user: 228.
  %c = math.tanh %x : tensor<8x4xf32>
  // expected-remark@+1 {{awaits 0}}
  %r = mpcomm.await %f : !mpcomm.future<tensor<8x4xf32>>
  // 228, and 128 read and written.
  // expected-remark@+1 {{computes 484 ns in kernel 1, allocates 128, frees 128}}
  %s = arith.addf %r, %c : tensor<8x4xf32>
  return %s : tensor<8x4xf32>
}

// In flight, operands are held until the await; a result of its own from the
// start on. What reads the same tensor is one kernel.
// expected-remark@+1 {{compute 484 ns, arguments 128, peak 416 bytes; predicted kernels = 1, bytes = 384}}
func.func @held(%x: tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<8x4xf32>) {
  // Reads 128, writes 2 x 128.
  // expected-remark@+1 {{computes 484 ns in kernel 0, allocates 256}}
  %g = math.exp %x : tensor<8x4xf32>
  // 3 messages, 3/4 ns a byte.
  // expected-remark@+1 {{starts 128 bytes of 1 tensors, ring 3000 ns + 96 ns on link 0, allocates 32}}
  %f = mpcomm.async {
    %r = mpcomm.reduce_scatter(%g) on @mesh axes ["dp"] sum dims = [0] : (tensor<8x4xf32>) -> tensor<2x4xf32>
    mpcomm.yield %r : tensor<2x4xf32>
  } : !mpcomm.future<tensor<2x4xf32>>
  %c = math.tanh %x : tensor<8x4xf32>
  // expected-remark@+1 {{awaits 0, frees 128}}
  %r = mpcomm.await %f : !mpcomm.future<tensor<2x4xf32>>
  return %r, %c : tensor<2x4xf32>, tensor<8x4xf32>
}

// A synchronous one starts and is awaited. %g is needed later, so that the
// reduced bucket needs its own memory. All blocks but the own come in: 3 x 128.
// expected-remark@+1 {{compute 840 ns, arguments 128, peak 1024 bytes}}
func.func @synchronous(%x: tensor<8x4xf32>) -> (tensor<32x4xf32>, tensor<8x4xf32>) {
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %g = math.exp %x : tensor<8x4xf32>
  // expected-remark@+2 {{starts 128 bytes of 1 tensors, ring 6000 ns + 192 ns on link 0, allocates 128}}
  // expected-remark@+1 {{awaits 0}}
  %0 = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum : tensor<8x4xf32>
  // expected-remark@+2 {{starts 128 bytes of 1 tensors, ring 3000 ns + 384 ns on link 0, allocates 512}}
  // expected-remark@+1 {{awaits 1}}
  %1 = mpcomm.all_gather(%g) on @mesh axes ["dp"] dims = [0] : (tensor<8x4xf32>) -> tensor<32x4xf32>
  // expected-remark@+1 {{computes 484 ns in kernel 1, allocates 128, frees 256}}
  %2 = arith.addf %g, %0 : tensor<8x4xf32>
  return %1, %2 : tensor<32x4xf32>, tensor<8x4xf32>
}

// A future that nothing awaits is waited for at the end; a future that comes
// from outside, or goes on, is no collective of this function's.
// expected-remark@+1 {{compute 0 ns, arguments 128, peak 288 bytes}}
func.func @unawaited(%x: tensor<8x4xf32>, %e: !mpcomm.future<tensor<2x4xf32>>) -> !mpcomm.future<tensor<8x4xf32>> {
  // expected-remark@+1 {{allocates 128}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<8x4xf32>
    mpcomm.yield %r : tensor<8x4xf32>
  } : !mpcomm.future<tensor<8x4xf32>>
  // expected-remark@+1 {{allocates 32, frees 32}}
  %r = mpcomm.await %e : !mpcomm.future<tensor<2x4xf32>>
  return %f : !mpcomm.future<tensor<8x4xf32>>
}

// A donated argument holds the result that replaces it. Reads 128 + 128 + 4,
// writes 128: more than 6 flops an element, 6 x 32 x 2 ns.
// expected-remark@+1 {{compute 488 ns, arguments 260, peak 260 bytes}}
func.func @donated(%p: tensor<8x4xf32> {mpcomm.donated = 0}, %g: tensor<8x4xf32>, %lr: tensor<f32>) -> tensor<8x4xf32> {
  // expected-remark@+1 {{computes 488 ns in kernel 0}}
  %0 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 4]>

// Regions: the body of a loop as often as it is known to run, with the
// collectives in it as they come; a future awaited inside is awaited there.
// expected-remark@+1 {{compute 2.013e+04 ns, arguments 128, peak 384 bytes}}
func.func @regions(%x: tensor<8x4xf32>, %c: i1) -> tensor<8x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // 3 x (256 + 100 + 6000 + 192) = 19644.
  // expected-remark@+1 {{computes 1.964e+04 ns, allocates 128}}
  %0 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> tensor<8x4xf32> {
    %1 = math.exp %a : tensor<8x4xf32>
    %2 = mpcomm.all_reduce(%1) on @mesh axes ["dp"] sum : tensor<8x4xf32>
    scf.yield %2 : tensor<8x4xf32>
  }
  // expected-remark@+1 {{starts 128 bytes}}
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%0) on @mesh axes ["dp"] sum : tensor<8x4xf32>
    mpcomm.yield %r : tensor<8x4xf32>
  } : !mpcomm.future<tensor<8x4xf32>>
  // Both branches: 384 + 100 of addf.
  // expected-remark@+2 {{awaits 0, allocates 128}}
  // expected-remark@+1 {{computes 484 ns, frees 128}}
  %s = scf.if %c -> tensor<8x4xf32> {
    %r = mpcomm.await %f : !mpcomm.future<tensor<8x4xf32>>
    %t = arith.addf %r, %x : tensor<8x4xf32>
    scf.yield %t : tensor<8x4xf32>
  } else {
    scf.yield %x : tensor<8x4xf32>
  }
  return %s : tensor<8x4xf32>
}

// -----

// Products are of the query's type, whatever the type of `lse`: 16 x 16 scores,
// each 2 x 5 x 16 + 10 = 170 flops, are 43520 flops, 10880 ns in bf16; and 100.
// expected-remark@+1 {{compute 1.098e+04 ns}}
func.func @attention_grad(%q: tensor<1x16x1x16xbf16>, %lse: tensor<1x1x16xf32>) -> tensor<1x16x1x16xbf16> {
  // expected-remark@+1 {{computes 1.098e+04 ns}}
  %dq, %dk, %dv = mpcomm.attention_grad %q, %q, %q, %q, %q, %lse scale = 0.25
      : (tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x1x16xf32>)
      -> (tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>)
  return %dq : tensor<1x16x1x16xbf16>
}

// -----

// The cluster's `efficiency` says that attention with a mask has half of the rate
// of products: 16 x 16 scores of 2 x 2 x 16 + 6 = 70 flops are 17920 flops at 4
// or 2 a nanosecond, and 100.
// expected-remark@+1 {{compute 1.364e+04 ns}}
func.func @efficiency(%q: tensor<1x16x1x16xbf16>, %m: tensor<16x16xi1>) -> (tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>) {
  // expected-remark@+1 {{computes 4580 ns}}
  %o, %l = mpcomm.attention %q, %q, %q scale = 0.25 : (tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>) -> (tensor<1x16x1x16xbf16>, tensor<1x1x16xf32>)
  // expected-remark@+1 {{computes 9060 ns}}
  %p, %k = mpcomm.attention %q, %q, %q mask %m scale = 0.25 : (tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>, tensor<16x16xi1>) -> (tensor<1x16x1x16xbf16>, tensor<1x1x16xf32>)
  return %o, %p : tensor<1x16x1x16xbf16>, tensor<1x16x1x16xbf16>
}
