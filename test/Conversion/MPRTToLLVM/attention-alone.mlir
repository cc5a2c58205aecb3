// A launch that belongs to an attention is no call of its own, and is not counted as one:
// without the attention's first launch right before it there is no program.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm=device=cuda --split-input-file --verify-diagnostics
// RUN: not mpcomm-opt %s --convert-mprt-to-llvm --split-input-file 2>&1 | FileCheck %s --check-prefix=HOST

// HOST: belongs to an attention, expected a program for a GPU

!q = memref<2x64x2x16xbf16>
!l = memref<2x2x64xf32>
func.func private @rows(!q, !q, !q, !q, !l) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 4, grid_stride = false, scratch = 0>}
func.func @alone(%q: !q, %o: !q, %l: !l, %arena: memref<0xi8>) attributes {mprt.results = [], mprt.arena_bytes = 0 : i64} {
  // expected-error @below {{belongs to an attention, expected its first launch before it, with the same operands}}
  mprt.launch @rows ins(%q, %q, %q : !q, !q, !q) outs(%o, %l : !q, !l) {mprt.attention}
  return
}

// -----

!q = memref<2x64x2x16xbf16>
!l = memref<2x2x64xf32>
func.func private @rows(!q, !q, !q, !q, !l) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 4, grid_stride = false, scratch = 0>}
func.func @of_another(%q: !q, %k: !q, %o: !q, %l: !l, %arena: memref<0xi8>) attributes {mprt.results = [], mprt.arena_bytes = 0 : i64} {
  mprt.launch @rows ins(%q, %q, %q : !q, !q, !q) outs(%o, %l : !q, !l) {mprt.attention = {kind = "attention", scale = 0.25 : f64}}
  // expected-error @below {{belongs to an attention}}
  mprt.launch @rows ins(%k, %k, %k : !q, !q, !q) outs(%o, %l : !q, !l) {mprt.attention}
  return
}
