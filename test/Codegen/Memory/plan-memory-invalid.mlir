// RUN: mpcomm-opt %s --mpcomm-plan-memory --split-input-file --verify-diagnostics

func.func @dynamic(%n: index) {
  // expected-error @below {{expects an allocation of static shape and identity layout}}
  %a = memref.alloc(%n) : memref<?xf32>
  return
}

// -----

func.func @nested(%c: i1) {
  scf.if %c {
    // expected-error @below {{expects allocations in the function's own block}}
    %a = memref.alloc() : memref<4xf32>
  }
  return
}

// -----

func.func @not_awaited(%x: memref<4xf32>) {
  // expected-error @below {{expects an await of its buffers, later in the function's own block}}
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x : memref<4xf32>)
  return
}
