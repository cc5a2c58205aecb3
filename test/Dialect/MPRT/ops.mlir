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
func.func @start_buffers(%x: memref<8xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
  // CHECK: mprt.start "all_gather" "" id = 1 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%{{.*}} : memref<8xf32>) outs(%{{.*}} : memref<16xf32>)
  mprt.start "all_gather" "" id = 1 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%x : memref<8xf32>) outs(%y : memref<16xf32>)
  // CHECK: mprt.await event = 0 ins() outs(%{{.*}} : memref<16xf32>)
  mprt.await event = 0 ins() outs(%y : memref<16xf32>)
  // CHECK: mprt.start "permute" "" id = 4 communicator = 0 event = 0 peer = -1 accumulate f32 targets [1, -1] ins(%{{.*}} : memref<16xf32>) outs(%{{.*}} : memref<16xf32>)
  mprt.start "permute" "" id = 4 communicator = 0 event = 0 peer = -1 accumulate f32 targets [1, -1] ins(%y : memref<16xf32>) outs(%z : memref<16xf32>)
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
  // CHECK: mprt.all_slice sizes = [2, 4] strides = [8, 1] ins(%{{.*}} : memref<64xf32>) outs(%{{.*}} : memref<8xf32>)
  %c = memref.alloc() : memref<8xf32>
  mprt.all_slice sizes = [2, 4] strides = [8, 1] ins(%a : memref<64xf32>) outs(%c : memref<8xf32>)
  // CHECK: mprt.zero %{{.*}} : memref<64xf32>
  mprt.zero %a : memref<64xf32>
  return
}

func.func private @part(%x: tensor<4xf32>, %sum: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> (tensor<4xf32>, tensor<f32>) {
  %c = arith.constant dense<0.0> : tensor<f32>
  return %x, %c : tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: func.func @call_tensors
func.func @call_tensors(%x: tensor<4xf32>, %sum: tensor<4xf32>, %init: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  // CHECK: mprt.call @part ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  %r:2 = mprt.call @part ins(%x : tensor<4xf32>) outs(%sum, %init : tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<f32>
}

// The same on buffers, with 64 bytes of scratch.
func.func private @part_on_buffers(%x: memref<4xf32>, %sum: memref<4xf32> {mprt.update}, %y: memref<f32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.results = [{type = tensor<4xf32>, argument = 1 : i64}, {type = tensor<f32>, argument = -1 : i64}]} {
  return
}
// CHECK-LABEL: func.func @call_buffers
func.func @call_buffers(%x: memref<4xf32>, %sum: memref<4xf32>, %y: memref<f32>, %s: memref<64xi8>) {
  // CHECK: mprt.call @part_on_buffers ins(%{{.*}} : memref<4xf32>) outs(%{{.*}}, %{{.*}} : memref<4xf32>, memref<f32>) scratch(%{{.*}} : memref<64xi8>)
  mprt.call @part_on_buffers ins(%x : memref<4xf32>) outs(%sum, %y : memref<4xf32>, memref<f32>) scratch(%s : memref<64xi8>)
  return
}

func.func private @nothing() { return }
// CHECK-LABEL: func.func @call_nothing
func.func @call_nothing() {
  // CHECK: mprt.call @nothing
  mprt.call @nothing
  return
}

// A loop: carries stay, what has one more dimension moves on.
// CHECK-LABEL: func.func @call_in_a_loop
func.func @call_in_a_loop(%xs: memref<8x4xf32>, %sum: memref<4xf32>, %ys: memref<8xf32>, %s: memref<64xi8>) {
  // CHECK: mprt.call @part_on_buffers trips = 8 reverse ins(%{{.*}} : memref<8x4xf32>) outs(%{{.*}}, %{{.*}} : memref<4xf32>, memref<8xf32>) scratch(%{{.*}} : memref<64xi8>)
  mprt.call @part_on_buffers trips = 8 reverse ins(%xs : memref<8x4xf32>) outs(%sum, %ys : memref<4xf32>, memref<8xf32>) scratch(%s : memref<64xi8>)
  return
}
