// Attention has kernels of a GPU alone.

// RUN: mpcomm-opt %s --convert-mprt-to-llvm --verify-diagnostics

func.func @f(%q: memref<1x8x1x16xbf16>, %o: memref<1x8x1x16xbf16>, %l: memref<1x1x8xf32>) {
  // expected-error @below {{has no call in the runtime: expected kernels of a GPU in its place}}
  mprt.attention "attention" scale = 1.0 ins(%q, %q, %q : memref<1x8x1x16xbf16>, memref<1x8x1x16xbf16>, memref<1x8x1x16xbf16>) outs(%o, %l : memref<1x8x1x16xbf16>, memref<1x1x8xf32>)
  return
}
