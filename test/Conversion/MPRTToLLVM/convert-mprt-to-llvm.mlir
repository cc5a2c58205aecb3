// RUN: mpcomm-opt %s --split-input-file --convert-mprt-to-llvm="cpu=znver4 features=+avx2,+fma" | FileCheck %s

// A function on planned buffers becomes one flat list of runtime calls on
// pointers at constant offsets, with static descriptors and a manifest.

// CHECK-DAG: llvm.mlir.global external constant @mpcomm_abi_version(10 : i32)
// CHECK-DAG: llvm.mlir.global external constant @mpcomm_manifest("{{.*}}\22name\22: \22train_step\22{{.*}}\00")
// CHECK-DAG: llvm.mlir.global internal constant @{{.*}}("blocks.0/addmm\00")
// A collective travels with the gap that alignment leaves: 16 + 4 elements.
// CHECK-DAG: llvm.mlir.constant(20 : i64) : i64
// CHECK-DAG: llvm.func @k.packed(!llvm.ptr)

// CHECK-LABEL: llvm.func @mpcomm_train_step
// CHECK-SAME: (%[[CTX:.*]]: !llvm.ptr, %[[ARGS:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr) -> i32
// CHECK-DAG: %[[COMPUTE:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[ONE:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[SLOTS:.*]] = llvm.alloca
// CHECK: %[[X:.*]] = llvm.load
// CHECK: %[[W:.*]] = llvm.load
// CHECK: llvm.call @mprt_gemm(%[[CTX]], %[[COMPUTE]], %{{.*}}, %[[X]], %[[W]], %[[ARENA]])
// The second row of a matrix: 4 elements of 4 bytes further.
// CHECK: %[[ROW:.*]] = llvm.getelementptr %[[X]][16] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT: %[[SLOT0:.*]] = llvm.getelementptr %[[SLOTS]][0]
// CHECK-NEXT: llvm.store %[[ROW]], %[[SLOT0]]
// CHECK-NEXT: %[[B:.*]] = llvm.getelementptr %[[ARENA]][64] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT: %[[SLOT1:.*]] = llvm.getelementptr %[[SLOTS]][1]
// CHECK-NEXT: llvm.store %[[B]], %[[SLOT1]]
// CHECK: llvm.call @mprt_launch(%[[CTX]], %[[COMPUTE]], %{{.*}}, %[[SLOTS]])
// CHECK: llvm.call @mprt_event_record(%[[CTX]], %[[COMPUTE]], %[[COMPUTE]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%[[CTX]], %[[ONE]], %[[COMPUTE]])
// CHECK: llvm.call @mprt_collective_run(%[[CTX]], %[[ONE]], %{{.*}}, %[[ARENA]], %[[ARENA]])
// Its number is free again: the wait for it is after us.
// CHECK-NEXT: llvm.call @mprt_event_record(%[[CTX]], %[[ONE]], %[[COMPUTE]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%[[CTX]], %[[COMPUTE]], %[[COMPUTE]])
// CHECK: %[[S:.*]] = llvm.call @mprt_status_of(%[[CTX]])
// CHECK-NEXT: llvm.return %[[S]]
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @train_step(%x: memref<2x4xf32>, %w: memref<4x4xf32>, %arena: memref<128xi8>)
      attributes {mprt.arena_bytes = 128 : i64, mprt.results = []} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %a = memref.view %arena[%c0][] : memref<128xi8> to memref<2x4xf32>
    %b = memref.view %arena[%c64][] : memref<128xi8> to memref<4xf32>
    mprt.gemm %x, %w, %a m = 2 n = 4 k = 4 strides [4, 1] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
        : memref<2x4xf32>, memref<4x4xf32>, memref<2x4xf32> loc("blocks.0/addmm")
    %row = memref.subview %x[1, 0] [1, 4] [1, 1] : memref<2x4xf32> to memref<4xf32, strided<[1], offset: 4>>
    mprt.launch @k ins(%row : memref<4xf32, strided<[1], offset: 4>>) outs(%b : memref<4xf32>)
    mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%a, %b : memref<2x4xf32>, memref<4xf32>)
    mprt.await event = 0 ins() outs(%a, %b : memref<2x4xf32>, memref<4xf32>)
    return
  }
  func.func private @k(memref<4xf32>, memref<4xf32>) attributes {mpcomm.kernel}
}

// -----

// Offsets of 2^28 and more, and of 2^31 and more.

// CHECK-LABEL: llvm.func @mpcomm_train_step
// CHECK-SAME: %[[ARENA:[a-z0-9]*]]: !llvm.ptr) -> i32
// CHECK-DAG: %[[FAR:.*]] = llvm.mlir.constant(268435456 : i64)
// CHECK-DAG: %[[FARTHER:.*]] = llvm.mlir.constant(4294967296 : i64)
// CHECK: llvm.getelementptr %[[ARENA]][268435455] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK: llvm.getelementptr %[[ARENA]][%[[FAR]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: llvm.getelementptr %[[ARENA]][%[[FARTHER]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
module {
  func.func @train_step(%arena: memref<4294967360xi8>)
      attributes {mprt.arena_bytes = 4294967360 : i64, mprt.results = []} {
    %near = arith.constant 268435455 : index
    %far = arith.constant 268435456 : index
    %farther = arith.constant 4294967296 : index
    %a = memref.view %arena[%near][] : memref<4294967360xi8> to memref<1xi8>
    %b = memref.view %arena[%far][] : memref<4294967360xi8> to memref<4xf32>
    %c = memref.view %arena[%farther][] : memref<4294967360xi8> to memref<4xf32>
    mprt.launch @k ins(%a, %b : memref<1xi8>, memref<4xf32>) outs(%c : memref<4xf32>)
    return
  }
  func.func private @k(memref<1xi8>, memref<4xf32>, memref<4xf32>) attributes {mpcomm.kernel}
}
