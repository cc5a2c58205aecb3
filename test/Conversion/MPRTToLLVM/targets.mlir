// RUN: mpcomm-opt %s --convert-mprt-to-llvm | FileCheck %s

// The descriptor of a permute has the address of the targets and their number;
// it is counted by what a rank gives, a gather too, and a scatter by what it gets.

// CHECK: llvm.mlir.global internal constant @[[TARGETS:mpcomm.targets.*]]() {{.*}} : !llvm.struct<(i32, i32)> {
// CHECK-DAG: llvm.mlir.constant(1 : i32) : i32
// CHECK-DAG: llvm.mlir.constant(-1 : i32) : i32
// CHECK: llvm.mlir.global internal constant @mpcomm.collective
// CHECK: llvm.mlir.constant(16 : i64) : i64
// CHECK: llvm.mlir.addressof @[[TARGETS]] : !llvm.ptr
// CHECK: llvm.mlir.constant(2 : i32) : i32
// CHECK: llvm.mlir.global internal constant @mpcomm.collective
// CHECK: llvm.mlir.constant(16 : i64) : i64
// CHECK: llvm.mlir.zero : !llvm.ptr
// CHECK: llvm.mlir.global internal constant @mpcomm.collective
// CHECK: llvm.mlir.constant(8 : i64) : i64
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @train_step(%x: memref<16xf32>, %arena: memref<256xi8>)
      attributes {mprt.arena_bytes = 256 : i64, mprt.results = []} {
    %zero = arith.constant 0 : index
    %far = arith.constant 128 : index
    %whole = memref.view %arena[%zero][] : memref<256xi8> to memref<2x16xf32>
    %y = memref.view %arena[%far][] : memref<256xi8> to memref<16xf32>
    %half = memref.view %arena[%far][] : memref<256xi8> to memref<8xf32>
    mprt.start "permute" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 targets [1, -1] ins(%x : memref<16xf32>) outs(%y : memref<16xf32>)
    mprt.await event = 0 ins(%x : memref<16xf32>) outs(%y : memref<16xf32>)
    mprt.start "gather" "" id = 1 communicator = 0 event = 1 peer = 0 accumulate f32 ins(%x : memref<16xf32>) outs(%whole : memref<2x16xf32>)
    mprt.await event = 1 ins(%x : memref<16xf32>) outs(%whole : memref<2x16xf32>)
    mprt.start "scatter" "" id = 2 communicator = 0 event = 2 peer = 0 accumulate f32 ins(%x : memref<16xf32>) outs(%half : memref<8xf32>)
    mprt.await event = 2 ins(%x : memref<16xf32>) outs(%half : memref<8xf32>)
    return
  }
}
