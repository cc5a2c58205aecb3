// A call with trips is a loop: it gives each call the address of its row.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.func @mpcomm_forward(
// CHECK-SAME: %[[CTX:[a-z0-9]+]]: !llvm.ptr, %[[ARGS:[a-z0-9]+]]: !llvm.ptr, %[[ARENA:[a-z0-9]+]]: !llvm.ptr)
// CHECK-DAG: %[[ZERO:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[TRIPS:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[ROW:.*]] = llvm.mlir.constant(16 : i64)
// CHECK: %[[SLOTS:.*]] = llvm.alloca
// CHECK: %[[XS:.*]] = llvm.load
// CHECK: %[[SUM:.*]] = llvm.load
// CHECK: llvm.br ^[[TRIP:bb[0-9]+]](%[[ZERO]] : i64)
// CHECK: ^[[TRIP]](%[[T:.*]]: i64):
// CHECK: %[[S0:.*]] = llvm.getelementptr %[[SLOTS]][0]
// CHECK: llvm.store %[[SUM]], %[[S0]]
// CHECK: %[[OFFSET:.*]] = llvm.mul %[[T]], %[[ROW]]
// CHECK: %[[X:.*]] = llvm.getelementptr %[[XS]][%[[OFFSET]]]
// CHECK: %[[S1:.*]] = llvm.getelementptr %[[SLOTS]][1]
// CHECK: llvm.store %[[X]], %[[S1]]
// CHECK: llvm.call @mpcomm_part(%[[CTX]], %[[SLOTS]], %[[ARENA]])
// CHECK: %[[NEXT:.*]] = llvm.add %[[T]], %[[ONE]]
// CHECK: %[[AGAIN:.*]] = llvm.icmp "slt" %[[NEXT]], %[[TRIPS]]
// CHECK: llvm.cond_br %[[AGAIN]], ^[[TRIP]](%[[NEXT]] : i64), ^[[AFTER:bb[0-9]+]]
// CHECK: ^[[AFTER]]:
// CHECK: llvm.call @mprt_copy
func.func @forward(%xs: memref<8x4xf32>, %sum: memref<4xf32> {mprt.update}, %y: memref<4xf32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = [{type = tensor<4xf32>, argument = 1 : i64}, {type = tensor<4xf32>, argument = -1 : i64}]} {
  mprt.call @part trips = 8 ins(%xs : memref<8x4xf32>) outs(%sum : memref<4xf32>) scratch(%arena : memref<64xi8>)
  mprt.copy %sum, %y : memref<4xf32>, memref<4xf32>
  return
}

// The last row comes first, and what is computed for one loop serves the next.
// CHECK-LABEL: llvm.func @mpcomm_backward(
// CHECK: llvm.br
// CHECK: ^{{.*}}(%[[T:.*]]: i64):
// CHECK: %[[T2:.*]] = llvm.sub %{{.*}}, %[[T]]
// CHECK: llvm.mul %[[T2]], %{{.*}}
// CHECK: llvm.call @mpcomm_part
// CHECK: llvm.cond_br
// CHECK: llvm.br
// CHECK: llvm.call @mpcomm_part
// CHECK: llvm.cond_br
// CHECK: llvm.return
func.func @backward(%xs: memref<8x4xf32>, %sum: memref<4xf32> {mprt.update}, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = [{type = tensor<4xf32>, argument = 1 : i64}]} {
  mprt.call @part trips = 8 reverse ins(%xs : memref<8x4xf32>) outs(%sum : memref<4xf32>) scratch(%arena : memref<64xi8>)
  mprt.call @part trips = 8 reverse ins(%xs : memref<8x4xf32>) outs(%sum : memref<4xf32>) scratch(%arena : memref<64xi8>)
  return
}

func.func private @part(%sum: memref<4xf32> {mprt.update}, %x: memref<4xf32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = [{type = tensor<4xf32>, argument = 0 : i64}]} {
  mprt.copy %x, %sum : memref<4xf32>, memref<4xf32>
  return
}
