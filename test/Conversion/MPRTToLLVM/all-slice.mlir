// A rank's own block is copied from the address that its coordinates say.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm -split-input-file -verify-diagnostics | FileCheck %s

// CHECK: llvm.func @mprt_rank(!llvm.ptr) -> i32
// CHECK-LABEL: llvm.func @mpcomm_step(
// CHECK-SAME: %[[CTX:[a-z0-9]+]]: !llvm.ptr
// CHECK-DAG: %[[BYTES:.*]] = llvm.mlir.constant(8 : i64) : i64
// CHECK-DAG: %[[TWO:.*]] = llvm.mlir.constant(2 : i32) : i32
// CHECK-DAG: %[[FOUR:.*]] = llvm.mlir.constant(4 : i32) : i32
// CHECK-DAG: %[[EIGHT:.*]] = llvm.mlir.constant(8 : i32) : i32
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i32) : i32
// CHECK: %[[X:.*]] = llvm.load
// CHECK: %[[Y:.*]] = llvm.load
// CHECK: %[[RANK:.*]] = llvm.call @mprt_rank(%[[CTX]])
// CHECK: %[[D0:.*]] = llvm.udiv %[[RANK]], %[[EIGHT]] : i32
// CHECK: %[[C0:.*]] = llvm.urem %[[D0]], %[[TWO]] : i32
// CHECK: %[[ROW:.*]] = llvm.add %{{.*}}, %[[C0]] : i32
// CHECK: %[[D1:.*]] = llvm.udiv %[[RANK]], %[[ONE]] : i32
// CHECK: %[[C1:.*]] = llvm.urem %[[D1]], %[[FOUR]] : i32
// CHECK: %[[BEGIN:.*]] = llvm.mul %[[ROW]], %[[FOUR]] : i32
// CHECK: %[[BLOCK:.*]] = llvm.add %[[BEGIN]], %[[C1]] : i32
// CHECK: %[[WIDE:.*]] = llvm.zext %[[BLOCK]] : i32 to i64
// CHECK: %[[OFFSET:.*]] = llvm.mul %[[WIDE]], %[[BYTES]] : i64
// CHECK: %[[FROM:.*]] = llvm.getelementptr %[[X]][%[[OFFSET]]]
// CHECK: llvm.call @mprt_copy(%[[CTX]], %{{.*}}, %[[Y]], %[[FROM]], %[[BYTES]])
func.func @step(%x: memref<16xf32>, %y: memref<2xf32>, %arena: memref<64xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = [{type = tensor<2xf32>, argument = -1 : i64}]} {
  mprt.all_slice sizes = [2, 4] strides = [8, 1] ins(%x : memref<16xf32>) outs(%y : memref<2xf32>)
  return
}

// -----

func.func @step(%x: memref<4x2xf32, strided<[4, 1]>>, %y: memref<4xf32>, %arena: memref<64xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @+1 {{expects contiguous buffers: run mpcomm-bufferize-step first}}
  mprt.all_slice sizes = [2] strides = [1] ins(%x : memref<4x2xf32, strided<[4, 1]>>) outs(%y : memref<4xf32>)
  return
}
