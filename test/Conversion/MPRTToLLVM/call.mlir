// A part is a function of the program's own, in no manifest; a call gives it the
// addresses of its arguments, in their order, and scratch.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm -split-input-file -verify-diagnostics | FileCheck %s

// CHECK: llvm.mlir.global {{.*}} @mpcomm_manifest
// CHECK-NOT: mpcomm_part
// CHECK-LABEL: llvm.func @mpcomm_step(
// CHECK-SAME: %[[CTX:[a-z0-9]+]]: !llvm.ptr, %[[ARGS:[a-z0-9]+]]: !llvm.ptr, %[[ARENA:[a-z0-9]+]]: !llvm.ptr)
// CHECK: %[[SLOTS:.*]] = llvm.alloca
// CHECK: %[[A0:.*]] = llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[X:.*]] = llvm.load %[[A0]]
// CHECK: %[[A1:.*]] = llvm.getelementptr %[[ARGS]][1]
// CHECK: %[[SUM:.*]] = llvm.load %[[A1]]
// CHECK: %[[A2:.*]] = llvm.getelementptr %[[ARGS]][2]
// CHECK: %[[Y:.*]] = llvm.load %[[A2]]
// CHECK: %[[SCRATCH:.*]] = llvm.getelementptr %[[ARENA]][64]
// CHECK: %[[S0:.*]] = llvm.getelementptr %[[SLOTS]][0]
// CHECK: llvm.store %[[SUM]], %[[S0]]
// CHECK: %[[S1:.*]] = llvm.getelementptr %[[SLOTS]][1]
// CHECK: llvm.store %[[X]], %[[S1]]
// CHECK: %[[S2:.*]] = llvm.getelementptr %[[SLOTS]][2]
// CHECK: llvm.store %[[Y]], %[[S2]]
// CHECK: llvm.call @mpcomm_part(%[[CTX]], %[[SLOTS]], %[[SCRATCH]])
// CHECK: llvm.func internal @mpcomm_part(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) -> i32
func.func @step(%x: memref<4xf32>, %sum: memref<4xf32> {mprt.update}, %y: memref<f32>, %arena: memref<128xi8>)
    attributes {mprt.arena_bytes = 128 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = [{type = tensor<4xf32>, argument = 1 : i64}, {type = tensor<f32>, argument = -1 : i64}]} {
  %c = arith.constant 64 : index
  %s = memref.view %arena[%c][] : memref<128xi8> to memref<64xi8>
  mprt.call @part ins(%x : memref<4xf32>) outs(%y, %sum : memref<f32>, memref<4xf32>) scratch(%s : memref<64xi8>)
  return
}
func.func private @part(%sum: memref<4xf32> {mprt.update}, %x: memref<4xf32>, %y: memref<f32>, %arena: memref<64xi8>)
    attributes {mprt.arena_bytes = 64 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = [{type = tensor<f32>, argument = -1 : i64}, {type = tensor<4xf32>, argument = 0 : i64}]} {
  mprt.copy %x, %sum : memref<4xf32>, memref<4xf32>
  return
}

// -----

func.func @step(%x: memref<4x4xf32>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  %a = memref.subview %x[0, 0] [4, 2] [1, 1] : memref<4x4xf32> to memref<4x2xf32, strided<[4, 1]>>
  // expected-error @+1 {{expects contiguous buffers: run mpcomm-plan-memory first}}
  mprt.call @part ins(%a : memref<4x2xf32, strided<[4, 1]>>)
  return
}
func.func private @part(%x: memref<4x2xf32>) attributes {mprt.results = []} {
  return
}

// -----

func.func @step(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @+1 {{expects scratch: run mpcomm-plan-memory first}}
  mprt.call @part
  return
}
func.func private @part(%arena: memref<64xi8>) attributes {mprt.arena_bytes = 64 : i64, mprt.results = []} {
  return
}

// -----

// Parts have the first events, and a function the collectives of what it calls.
// CHECK: @mpcomm_manifest({{.*}}\22collectives\22: [{{.*}}\22id\22: 1{{.*}}\22id\22: 0{{.*}}\22events\22: 2
// CHECK: llvm.func @mpcomm_communicates
// CHECK: %[[OWN:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: llvm.call @mprt_event_record({{.*}}, %[[OWN]])
// CHECK: llvm.call @mpcomm_part
// CHECK: llvm.call @mprt_stream_wait({{.*}}, %[[OWN]])
// CHECK: llvm.func internal @mpcomm_part
// CHECK: %[[PARTS:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: llvm.call @mprt_event_record({{.*}}, %[[PARTS]])
func.func @communicates(%x: memref<4xf32> {mprt.update}, %y: memref<4xf32> {mprt.update}, %arena: memref<0xi8>)
    attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  mprt.start "all_reduce" "mean" id = 1 communicator = 0 event = 1 peer = -1 accumulate f32 ins() outs(%y : memref<4xf32>)
  mprt.call @part outs(%x : memref<4xf32>)
  mprt.await event = 1 ins() outs(%y : memref<4xf32>)
  return
}
func.func private @part(%x: memref<4xf32> {mprt.update}) attributes {mprt.results = [{type = tensor<4xf32>, argument = 0 : i64}]} {
  mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<4xf32>)
  mprt.await event = 0 ins() outs(%x : memref<4xf32>)
  return
}

// -----

func.func @loops(%x: memref<4xf32> {mprt.update}, %arena: memref<0xi8>)
    attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @+1 {{runs @part in a loop, expected a part of a step that does not communicate}}
  mprt.call @part trips = 2 outs(%x : memref<4xf32>)
  return
}
func.func private @part(%x: memref<4xf32> {mprt.update}) attributes {mprt.results = [{type = tensor<4xf32>, argument = 0 : i64}]} {
  mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<4xf32>)
  mprt.await event = 0 ins() outs(%x : memref<4xf32>)
  return
}

// -----

// A part that takes nothing gets a list all the same.
// CHECK: llvm.func @mpcomm_calls_nothing
// CHECK: %[[LIST:.*]] = llvm.alloca
// CHECK: llvm.call @mpcomm_nothing(%{{.*}}, %[[LIST]], %{{.*}})
// CHECK: llvm.func internal @mpcomm_nothing
func.func @calls_nothing(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  mprt.call @nothing
  return
}
func.func private @nothing() attributes {mprt.results = []} {
  return
}

// -----

func.func private @one(%x: memref<4xf32>, %arena: memref<0xi8>)
    attributes {mprt.arena_bytes = 0 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = []} {
  mprt.call @other ins(%x : memref<4xf32>) scratch(%arena : memref<0xi8>)
  return
}
func.func private @other(%x: memref<4xf32>, %arena: memref<0xi8>)
    attributes {mprt.arena_bytes = 0 : i64, mprt.bucket_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{calls 'one', which is being run: a program has no stack for that}}
  mprt.call @one ins(%x : memref<4xf32>) scratch(%arena : memref<0xi8>)
  return
}
