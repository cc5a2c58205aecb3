// RUN: mpcomm-opt %s --convert-mprt-to-llvm --split-input-file --verify-diagnostics

// What is not Form 5 is an error at the op.

// expected-error @below {{expects 'mprt.results' and 'mprt.arena_bytes': run mpcomm-bufferize-step and mpcomm-plan-memory first}}
func.func @not_planned(%x: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{expects buffers, got 'tensor<4xf32>'}}
func.func @tensors(%x: tensor<4xf32>) {
  return
}

// -----

func.func @allocation(%arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{has no call in the runtime: it should be in a kernel}}
  %a = memref.alloc() : memref<4xf32>
  return
}

// -----

func.func @dynamic_offset(%x: memref<4xf32, strided<[1], offset: ?>>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{expects buffers at static offsets}}
  mprt.zero %x : memref<4xf32, strided<[1], offset: ?>>
  return
}

// -----

func.func @scattered(%x: memref<16xf32>, %y: memref<16xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{expects its buffers to lie in one range: run mpcomm-plan-memory first}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x, %y : memref<16xf32>, memref<16xf32>)
  return
}

// -----

memref.global "private" @c : memref<4xf32>
func.func @no_value(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{names 'c', expected a constant whose elements are known}}
  %c = memref.get_global @c : memref<4xf32>
  mprt.copy %c, %x : memref<4xf32>, memref<4xf32>
  return
}

// -----

memref.global "private" constant @c : memref<4xf32> = dense_resource<lost>
func.func @lost_value(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @below {{names 'c', expected a constant whose elements are known}}
  %c = memref.get_global @c : memref<4xf32>
  mprt.copy %c, %x : memref<4xf32>, memref<4xf32>
  return
}

// -----

// expected-error @below {{has the name 'mprt_launch', which is the runtime's}}
func.func private @mprt_launch(memref<4xf32>)
func.func @f(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  return
}

// -----

func.func @awaits_nothing(%x: memref<4xf32>, %arena: memref<0xi8>) attributes {mprt.arena_bytes = 0 : i64, mprt.results = []} {
  // expected-error @+1 {{awaits event 3, expected one that a start before it marks}}
  mprt.await event = 3 ins() outs(%x : memref<4xf32>)
  return
}

// -----

memref.global "private" constant @c : memref<134217728xf32> = dense<1.0>
// expected-error @below {{takes the program's constants to 1073741825 bytes, expected at most 1073741824}}
memref.global "private" constant @d : memref<536870913xi8> = dense<1>
