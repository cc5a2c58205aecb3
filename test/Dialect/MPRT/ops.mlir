// Every op of the dialect prints what it parses, in its own syntax, in the
// generic one, and as bytecode.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --emit-bytecode | mpcomm-opt | FileCheck %s

func.func private @scale(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func private @fill(tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}

// CHECK-LABEL: func.func @launch_tensors
func.func @launch_tensors(%x: tensor<8xf32>, %init: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: mprt.launch @scale ins(%{{.*}} : tensor<8xf32>) outs(%{{.*}} : tensor<8xf32>) -> (tensor<8xf32>)
  %0 = mprt.launch @scale ins(%x : tensor<8xf32>) outs(%init : tensor<8xf32>) -> (tensor<8xf32>)
  // CHECK: mprt.launch @fill outs(%{{.*}} : tensor<8xf32>) -> (tensor<8xf32>)
  %1 = mprt.launch @fill outs(%init : tensor<8xf32>) -> (tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @launch_buffers
func.func @launch_buffers(%x: memref<8xf32>, %y: memref<8xf32>) {
  // CHECK: mprt.launch @scale ins(%{{.*}} : memref<8xf32>) outs(%{{.*}} : memref<8xf32>)
  mprt.launch @scale ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  return
}

// CHECK-LABEL: func.func @start_tensors
func.func @start_tensors(%g: tensor<8xf32>, %h: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  // CHECK: mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 1 peer = -1 accumulate f32 ins() outs(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %0:2 = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 1 peer = -1 accumulate f32 ins() outs(%g, %h : tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  // CHECK: mprt.await event = 1 ins() outs(%{{.*}} : tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  %1:2 = mprt.await event = 1 ins() outs(%0#0, %0#1 : tensor<8xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>)
  return %1#0, %1#1 : tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @start_buffers
func.func @start_buffers(%x: memref<8xf32>, %y: memref<16xf32>) {
  // CHECK: mprt.start "all_gather" "" id = 1 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%{{.*}} : memref<8xf32>) outs(%{{.*}} : memref<16xf32>)
  mprt.start "all_gather" "" id = 1 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs(%y : memref<16xf32>)
  // CHECK: mprt.await event = 0 ins() outs(%{{.*}} : memref<16xf32>)
  mprt.await event = 0 ins() outs(%y : memref<16xf32>)
  // CHECK: mprt.start "send" "" id = 2 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%{{.*}} : memref<8xf32>) outs()
  mprt.start "send" "" id = 2 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%x : memref<8xf32>) outs()
  // CHECK: mprt.await event = 0 ins(%{{.*}} : memref<8xf32>) outs()
  mprt.await event = 0 ins(%x : memref<8xf32>) outs()
  // CHECK: mprt.start "recv" "" id = 3 communicator = 0 event = 0 peer = 1 accumulate f32 ins() outs(%{{.*}} : memref<8xf32>)
  mprt.start "recv" "" id = 3 communicator = 0 event = 0 peer = 1 accumulate f32 ins() outs(%x : memref<8xf32>)
  // CHECK: mprt.start "barrier" "" id = 4 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
  mprt.start "barrier" "" id = 4 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
  return
}

// CHECK-LABEL: func.func @gemm
func.func @gemm(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x16xf32>,
                %p: memref<2x8x4xbf16>, %q: memref<2x4x16xbf16>, %r: memref<2x8x16xf32>) {
  // CHECK: mprt.gemm %{{.*}}, %{{.*}}, %{{.*}} m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.gemm %a, %b, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> [] : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  // CHECK: mprt.gemm {{.*}} batch [2] strides [32] x [64] -> [128] accumulate : memref<2x8x4xbf16>, memref<2x4x16xbf16>, memref<2x8x16xf32>
  mprt.gemm %p, %q, %r m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [2] strides [32] x [64] -> [128] accumulate : memref<2x8x4xbf16>, memref<2x4x16xbf16>, memref<2x8x16xf32>
  return
}

// CHECK-LABEL: func.func @calls
func.func @calls(%a: memref<64xf32>, %b: memref<64xf32>) {
  // CHECK: mprt.copy %{{.*}}, %{{.*}} : memref<64xf32>, memref<64xf32>
  mprt.copy %a, %b : memref<64xf32>, memref<64xf32>
  // CHECK: mprt.zero %{{.*}} : memref<64xf32>
  mprt.zero %a : memref<64xf32>
  return
}
