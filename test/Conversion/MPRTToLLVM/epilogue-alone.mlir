// RUN: not mpcomm-opt %s --convert-mprt-to-llvm=device=cuda 2>&1 | FileCheck %s

// CHECK: 'mprt.launch' op is the epilogue of a product, expected mprt.gemm before it
func.func private @k(memref<16xf32>, memref<8x16xf32>) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 32, blocks = 1, grid_stride = true, scratch = 0>}
func.func @alone(%b: memref<16xf32>, %c: memref<8x16xf32>) {
  mprt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<8x16xf32>) {mprt.epilogue = {kind = "bias", bias = 0}}
  return
}
