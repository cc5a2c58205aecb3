// What StepModel says of loops, on the cluster of step-model.mlir: memory moves 1 byte in
// 1 ns, a kernel takes 100 ns to launch. 8 x 4 floats are 128 bytes.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-step-model{cluster=%S/Inputs/round.json}))"

// Reads two tensors and writes two, with the launch: 612.
// expected-remark@+1 {{compute 612 ns, arguments 256, peak 512 bytes}}
func.func private @cell(%h: tensor<8x4xf32>, %x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = arith.addf %h, %x : tensor<8x4xf32>
  // expected-remark@+1 {{computes 612 ns in kernel 0, allocates 256}}
  %1 = arith.mulf %0, %x : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Ten times that. The carry is in the buffer of its first value, which nothing else reads;
// what is stacked has 1280 bytes. Arguments: 128 + 1280; and 128 + 1280 more.
// expected-remark@+1 {{compute 6476 ns, arguments 1408, peak 2816 bytes}}
func.func @in_place(%h: tensor<8x4xf32>, %x: tensor<10x8x4xf32>) -> (tensor<8x4xf32>, tensor<10x8x4xf32>) {
  // expected-remark@+1 {{computes 356 ns in kernel 0, allocates 128}}
  %0 = arith.negf %h : tensor<8x4xf32>
  // expected-remark@+1 {{computes 6120 ns, allocates 1280}}
  %1:2 = mpcomm.scan @cell trips = 10 carries(%0 : tensor<8x4xf32>) slices(%x : tensor<10x8x4xf32>) -> tensor<8x4xf32>, tensor<10x8x4xf32>
  return %1#0, %1#1 : tensor<8x4xf32>, tensor<10x8x4xf32>
}
