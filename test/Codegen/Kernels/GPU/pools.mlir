// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// Each distinct pool becomes a kernel; convolutions stay calls of
// the runtime.

func.func @f(%x: memref<2x8x16x16xf32>, %y: memref<2x8x8x8xf32>, %dx: memref<2x8x16x16xf32>, %w: memref<8x8x3x3xf32>) {
  // CHECK: mprt.launch @kernel_max_pool ins
  mprt.pool "max_pool" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0]
      ins(%x : memref<2x8x16x16xf32>) outs(%y : memref<2x8x8x8xf32>)
  // CHECK: mprt.launch @kernel_max_pool ins
  mprt.pool "max_pool" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0]
      ins(%dx : memref<2x8x16x16xf32>) outs(%y : memref<2x8x8x8xf32>)
  // CHECK: mprt.launch @kernel_max_pool_grad ins
  mprt.pool "max_pool_grad" window = [2, 2] strides = [2, 2] low = [0, 0] high = [0, 0]
      ins(%y, %x : memref<2x8x8x8xf32>, memref<2x8x16x16xf32>) outs(%dx : memref<2x8x16x16xf32>)
  // CHECK: mprt.convolution "convolution"
  mprt.convolution "convolution" strides = [1, 1] low = [1, 1] high = [1, 1] dilation = [1, 1] groups = 1
      ins(%x, %w : memref<2x8x16x16xf32>, memref<8x8x3x3xf32>) outs(%dx : memref<2x8x16x16xf32>)
  return
}

// CHECK-COUNT-1: gpu.func @kernel_max_pool(
// CHECK: arith.maximumf
// CHECK: gpu.func @kernel_max_pool_grad(
// A gradient gathers.
// CHECK-NOT: atomic
