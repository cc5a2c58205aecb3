// RUN: mpcomm-opt %s --mpcomm-plan-memory --split-input-file | FileCheck %s

// What travels between two ranks is in use from its start to its await: the
// runtime reads what is sent, and writes what is received, all that time.

// %a is sent while %b is made, so both have their place; %c takes one of them
// after that: 64 bytes each, 128 in all.
// CHECK-LABEL: func.func @sent
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<128xi8>)
// CHECK: memref.view %[[ARENA]][%[[A:.*]]][]
// CHECK: memref.view %[[ARENA]][%[[B:.*]]][]
func.func @sent(%x: memref<16xf32>, %y: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  mprt.copy %x, %a : memref<16xf32>, memref<16xf32>
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%a : memref<16xf32>) outs()
  mprt.copy %x, %b : memref<16xf32>, memref<16xf32>
  mprt.copy %b, %y : memref<16xf32>, memref<16xf32>
  mprt.await event = 0 ins(%a : memref<16xf32>) outs()
  mprt.copy %x, %c : memref<16xf32>, memref<16xf32>
  mprt.copy %c, %y : memref<16xf32>, memref<16xf32>
  return
}

// -----

// Two receives are posted at once, and computing goes on beside: three buffers.
// CHECK-LABEL: func.func @received
// CHECK-SAME: memref<192xi8>)
func.func @received(%x: memref<16xf32>, %y: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins() outs(%a : memref<16xf32>)
  mprt.start "recv" "" id = 1 communicator = 0 event = 1 peer = 1 accumulate f32 ins() outs(%b : memref<16xf32>)
  mprt.copy %x, %c : memref<16xf32>, memref<16xf32>
  mprt.copy %c, %y : memref<16xf32>, memref<16xf32>
  mprt.await event = 0 ins() outs(%a : memref<16xf32>)
  mprt.copy %a, %y : memref<16xf32>, memref<16xf32>
  mprt.await event = 1 ins() outs(%b : memref<16xf32>)
  mprt.copy %b, %y : memref<16xf32>, memref<16xf32>
  return
}

// -----

// Each function of a program has a plan of its own.
// CHECK-LABEL: func.func @stage0
// CHECK-SAME: memref<64xi8>)
// CHECK-LABEL: func.func @stage1
// CHECK-SAME: memref<128xi8>)
func.func @stage0(%x: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  mprt.copy %x, %a : memref<16xf32>, memref<16xf32>
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins(%a : memref<16xf32>) outs()
  mprt.await event = 0 ins(%a : memref<16xf32>) outs()
  return
}
func.func @stage1(%y: memref<16xf32>) {
  %a = memref.alloc() : memref<32xf32>
  mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32 ins() outs(%a : memref<32xf32>)
  mprt.await event = 0 ins() outs(%a : memref<32xf32>)
  mprt.zero %a : memref<32xf32>
  return
}
