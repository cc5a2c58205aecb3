// The contract of Form 5: what the addresses of buffers alone show.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-runtime-programs

// Two buffers share bytes one after the other; a collective in flight, and what
// is computed beside it.
func.func @accepted(%p: memref<4xf32> {mprt.update}, %x: memref<4xf32>, %loss: memref<f32>, %arena: memref<32xi8>)
    attributes {mprt.arena_bytes = 32 : i64, mprt.results = [
      {argument = -1 : i64, type = tensor<f32>, mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
      {argument = 0 : i64, type = tensor<4xf32>, mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"}]} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %a = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  %b = memref.view %arena[%c16][] : memref<32xi8> to memref<4xf32>
  mprt.copy %x, %a : memref<4xf32>, memref<4xf32>
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins() outs(%a : memref<4xf32>)
  mprt.copy %x, %b : memref<4xf32>, memref<4xf32>
  mprt.await event = 0 ins() outs(%a : memref<4xf32>)
  mprt.copy %a, %p : memref<4xf32>, memref<4xf32>
  %d = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  mprt.copy %b, %d : memref<4xf32>, memref<4xf32>
  mprt.zero %loss : memref<f32>
  return
}

// -----

// What a collective reads may be an argument that is not written.
func.func @gathered(%x: memref<2xf32>, %arena: memref<16xi8>) attributes {mprt.arena_bytes = 16 : i64} {
  %c0 = arith.constant 0 : index
  %a = memref.view %arena[%c0][] : memref<16xi8> to memref<4xf32>
  mprt.start "all_gather" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins(%x : memref<2xf32>) outs(%a : memref<4xf32>)
  mprt.await event = 0 ins(%x : memref<2xf32>) outs(%a : memref<4xf32>)
  return
}

// -----

func.func @flat(%x: memref<4xf32>, %y: memref<4xf32> {mprt.update}, %i: index) {
  // expected-error@+1 {{'memref.copy' op is left in a runtime program, expected ops of mprt on buffers, one after the other}}
  memref.copy %x, %y : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func @marked(%x: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error@+1 {{'mprt.copy' op writes a buffer of the caller's, expected 'mprt.update' on the argument}}
  mprt.copy %x, %y : memref<4xf32>, memref<4xf32>
  return
}

// -----

func.func @inside(%x: memref<4xf32>, %arena: memref<24xi8>) attributes {mprt.arena_bytes = 24 : i64} {
  %c = arith.constant 16 : index
  %a = memref.view %arena[%c][] : memref<24xi8> to memref<4xf32>
  // expected-error@+1 {{'mprt.copy' op uses bytes 16 to 32 of a buffer of 24}}
  mprt.copy %x, %a : memref<4xf32>, memref<4xf32>
  return
}

// -----

func.func @written(%y: memref<4xf32> {mprt.update}, %arena: memref<32xi8>) attributes {mprt.arena_bytes = 32 : i64} {
  %c = arith.constant 16 : index
  %a = memref.view %arena[%c][] : memref<32xi8> to memref<4xf32>
  // expected-error@+1 {{'mprt.start' op reads bytes 16 to 32 of the arena, which nothing has written}}
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32
      ins(%a : memref<4xf32>) outs()
  mprt.await event = 0 ins(%a : memref<4xf32>) outs()
  return
}

// -----

// A copy of nothing is nothing.
func.func @copied(%arena: memref<32xi8>) attributes {mprt.arena_bytes = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %a = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  %b = memref.view %arena[%c16][] : memref<32xi8> to memref<4xf32>
  mprt.copy %a, %b : memref<4xf32>, memref<4xf32>
  // expected-error@+1 {{'mprt.start' op reads bytes 16 to 32 of the arena, which nothing has written}}
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32
      ins(%b : memref<4xf32>) outs()
  mprt.await event = 0 ins(%b : memref<4xf32>) outs()
  return
}

// -----

func.func @apart(%x: memref<4xf32>, %y: memref<4xf32> {mprt.update}, %arena: memref<32xi8>) attributes {mprt.arena_bytes = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  // expected-note@+1 {{that one is at bytes 0 to 16}}
  %a = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  // expected-error@+1 {{'memref.view' op is at bytes 8 to 24 of the arena, where another buffer lives}}
  %b = memref.view %arena[%c8][] : memref<32xi8> to memref<4xf32>
  mprt.copy %x, %a : memref<4xf32>, memref<4xf32>
  mprt.copy %x, %b : memref<4xf32>, memref<4xf32>
  mprt.copy %a, %y : memref<4xf32>, memref<4xf32>
  return
}

// -----

// The buffer of a collective lives to its await, though nothing reads it.
func.func @in_flight(%x: memref<4xf32>, %arena: memref<32xi8>) attributes {mprt.arena_bytes = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  %b = memref.view %arena[%c0][] : memref<32xi8> to memref<4xf32>
  mprt.copy %x, %a : memref<4xf32>, memref<4xf32>
  // expected-note@+1 {{it starts here}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins() outs(%a : memref<4xf32>)
  // expected-error@+1 {{'mprt.copy' op writes what a collective in flight writes, expected its await before}}
  mprt.copy %x, %b : memref<4xf32>, memref<4xf32>
  mprt.await event = 0 ins() outs(%a : memref<4xf32>)
  return
}

// -----

func.func @sent(%x: memref<4xf32> {mprt.update}, %y: memref<4xf32>) {
  // expected-note@+1 {{it starts here}}
  mprt.start "send" "" id = 0 communicator = 0 event = 0 peer = 1 accumulate f32
      ins(%x : memref<4xf32>) outs()
  // expected-error@+1 {{'mprt.copy' op writes what a collective in flight reads, expected its await before}}
  mprt.copy %y, %x : memref<4xf32>, memref<4xf32>
  mprt.await event = 0 ins(%x : memref<4xf32>) outs()
  return
}

// -----

func.func @event(%x: memref<4xf32> {mprt.update}, %y: memref<4xf32> {mprt.update}) {
  // expected-note@+1 {{that one starts here}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 3 peer = -1 accumulate f32
      ins() outs(%x : memref<4xf32>)
  // expected-error@+1 {{'mprt.start' op marks its end by event 3, which another collective in flight has}}
  mprt.start "all_reduce" "sum" id = 1 communicator = 1 event = 3 peer = -1 accumulate f32
      ins() outs(%y : memref<4xf32>)
  return
}

// -----

func.func @unknown_event(%x: memref<4xf32> {mprt.update}) {
  // expected-error@+1 {{'mprt.await' op awaits event 1, which no collective in flight has}}
  mprt.await event = 1 ins() outs(%x : memref<4xf32>)
  return
}

// -----

func.func @lacks(%x: memref<4xf32> {mprt.update}, %y: memref<4xf32> {mprt.update}) {
  // expected-note@+1 {{the collective starts here}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins() outs(%x, %y : memref<4xf32>, memref<4xf32>)
  // expected-error@+1 {{'mprt.await' op lacks a buffer that its collective writes}}
  mprt.await event = 0 ins() outs(%x : memref<4xf32>)
  return
}

// -----

func.func @never(%x: memref<4xf32> {mprt.update}) {
  // expected-error@+1 {{'mprt.start' op is never awaited, expected an mprt.await of its event}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
      ins() outs(%x : memref<4xf32>)
  return
}
