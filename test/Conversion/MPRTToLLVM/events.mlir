// RUN: mpcomm-opt %s --split-input-file --convert-mprt-to-llvm | FileCheck %s
// RUN: mpcomm-opt %s --split-input-file --convert-mprt-to-llvm --remarks-filter=convert-mprt-to-llvm --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Events are recorded, and waited for, only where nothing else gives the order:
// neither a stream nor another wait. Streams: 0 computes, 1 and 2 are those of
// communicators 0 and 1. Events are numbered from 0.

// One record serves both communicators, and what they need is after it.
// CHECK-LABEL: llvm.func @mpcomm_two_communicators
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.call @mprt_launch
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C0]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C1]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C1]],
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C1]], %[[C1]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C2]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C2]],
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C2]], %[[C0]])
// The end of the function has what was awaited.
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C0]], %[[C1]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C0]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_status_of

// REMARK: [Analysis] Events | Category:convert-mprt-to-llvm | Function=two_communicators | collectives=2, events=2, records=3, waits=4
module attributes {mprt.communicators = [["dp"], ["tp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2, "tp" = 2]>
  func.func @two_communicators(%a: memref<4xf32>, %b: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.launch @k outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%a : memref<4xf32>)
    mprt.start "all_reduce" "sum" id = 1 communicator = 1 event = 1 peer = -1 accumulate f32 ins() outs(%b : memref<4xf32>)
    mprt.await event = 0 ins() outs(%a : memref<4xf32>)
    mprt.await event = 1 ins() outs(%b : memref<4xf32>)
    return
  }
  func.func private @k(memref<4xf32>, memref<4xf32>) attributes {mpcomm.kernel}
}

// -----

// The second start comes after the first on its stream, and what was computed
// in between does not touch its buffer. Who awaits the second has the first.
// CHECK-LABEL: llvm.func @mpcomm_one_communicator
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: llvm.call @mprt_launch
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C0]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C1]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_zero
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_collective_run
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C1]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C0]], %[[C0]])
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_copy
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_status_of

// REMARK: Function=one_communicator | collectives=2, events=1, records=2, waits=2
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @one_communicator(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.launch @k outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%a : memref<4xf32>)
    mprt.zero %c : memref<4xf32>
    mprt.start "all_reduce" "sum" id = 1 communicator = 0 event = 1 peer = -1 accumulate f32 ins() outs(%b : memref<4xf32>)
    mprt.await event = 1 ins() outs(%b : memref<4xf32>)
    mprt.await event = 0 ins() outs(%a : memref<4xf32>)
    mprt.copy %a, %c : memref<4xf32>, memref<4xf32>
    mprt.await event = 0 ins() outs(%a : memref<4xf32>)
    mprt.copy %b, %c : memref<4xf32>, memref<4xf32>
    return
  }
  func.func private @k(memref<4xf32>, memref<4xf32>) attributes {mpcomm.kernel}
}

// -----

// One collective reads what another wrote: their streams need no third between
// them. What is read in both does not order them.
// CHECK-LABEL: llvm.func @mpcomm_from_one_to_another
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.call @mprt_event_record(%{{.*}}, %[[C0]], %[[C0]])
// CHECK: llvm.call @mprt_stream_wait(%{{.*}}, %[[C1]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C1]],
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C1]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C2]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C2]],
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C2]], %[[C0]])
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C0]], %[[C0]])
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_status_of

// REMARK: Function=from_one_to_another | collectives=2, events=1, records=3, waits=3
module attributes {mprt.communicators = [["dp"], ["tp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2, "tp" = 2]>
  func.func @from_one_to_another(%a: memref<8xf32>, %b: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.start "reduce_scatter" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins(%a : memref<8xf32>) outs(%b : memref<4xf32>)
    mprt.await event = 0 ins(%a : memref<8xf32>) outs(%b : memref<4xf32>)
    mprt.start "all_reduce" "sum" id = 1 communicator = 1 event = 1 peer = -1 accumulate f32 ins() outs(%b : memref<4xf32>)
    mprt.await event = 1 ins() outs(%b : memref<4xf32>)
    return
  }
}

// -----

// What a start writes may be memory that was something else before: it waits
// for the copy that read it, and not for the zeroes after that. Without a use
// in the function it waits for what came before the call.
// CHECK-LABEL: llvm.func @mpcomm_used_again
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[C2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.call @mprt_event_record(%{{.*}}, %[[C0]], %[[C0]])
// CHECK: llvm.call @mprt_zero
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C1]], %[[C0]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C1]],
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C1]], %[[C0]])
// CHECK: llvm.call @mprt_copy
// CHECK-NEXT: llvm.call @mprt_event_record(%{{.*}}, %[[C0]], %[[C1]])
// CHECK-NOT: llvm.call @mprt_{{event_|stream_}}
// CHECK: llvm.call @mprt_zero
// CHECK-NEXT: llvm.call @mprt_stream_wait(%{{.*}}, %[[C2]], %[[C1]])
// CHECK: llvm.call @mprt_collective_run(%{{.*}}, %[[C2]],
module attributes {mprt.communicators = [["pp"], ["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
  func.func @used_again(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xf32>, %arena: memref<128xi8>)
      attributes {mprt.arena_bytes = 128 : i64, mprt.results = []} {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    mprt.zero %z : memref<4xf32>
    mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = 0 accumulate f32 ins() outs(%x : memref<4xf32>)
    %was = memref.view %arena[%c64][] : memref<128xi8> to memref<4xf32>
    mprt.copy %was, %y : memref<4xf32>, memref<4xf32>
    %other = memref.view %arena[%c0][] : memref<128xi8> to memref<16xf32>
    mprt.zero %other : memref<16xf32>
    %is = memref.view %arena[%c64][] : memref<128xi8> to memref<2xf32>
    mprt.start "recv" "" id = 1 communicator = 1 event = 1 peer = 0 accumulate f32 ins() outs(%is : memref<2xf32>)
    mprt.await event = 0 ins() outs(%x : memref<4xf32>)
    mprt.await event = 1 ins() outs(%is : memref<2xf32>)
    return
  }
}

// -----

// A barrier has no buffers, and comes after all and before all.
// CHECK-LABEL: llvm.func @mpcomm_barrier
// CHECK: llvm.call @mprt_zero
// CHECK-NEXT: llvm.call @mprt_event_record
// CHECK-NEXT: llvm.call @mprt_stream_wait
// CHECK: llvm.call @mprt_collective_run
// CHECK-NEXT: llvm.call @mprt_event_record
// CHECK-NEXT: llvm.call @mprt_stream_wait
// CHECK-NEXT: llvm.call @mprt_zero
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @barrier(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
    mprt.zero %x : memref<4xf32>
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    mprt.await event = 0 ins() outs()
    mprt.zero %x : memref<4xf32>
    return
  }
}
