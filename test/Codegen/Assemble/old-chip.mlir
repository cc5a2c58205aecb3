// What came with sm_80 is refused for chips before, by name.

// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-gpu-kernels-to-nvvm --mpcomm-assemble-kernels=chip=sm_75 --verify-diagnostics

// expected-error @below {{kernels of attention need sm_80 or later, got 'sm_75'}}
module {
  func.func @f(%q: memref<1x8x1x16xbf16>, %o: memref<1x8x1x16xbf16>, %l: memref<1x1x8xf32>) {
    mprt.attention "attention" scale = 1.0 ins(%q, %q, %q : memref<1x8x1x16xbf16>, memref<1x8x1x16xbf16>, memref<1x8x1x16xbf16>) outs(%o, %l : memref<1x8x1x16xbf16>, memref<1x1x8xf32>)
    return
  }
}
