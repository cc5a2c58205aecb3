// RUN: mpcomm-opt %s --mpcomm-form-epilogues 2>&1 | FileCheck %s --implicit-check-not=error

#id = affine_map<(i, j) -> (i, j)>
#col = affine_map<(i, j) -> (j)>

func.func private @sum(%x: tensor<1024x16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%b : tensor<16xf32>) -> tensor<16xf32>
  %r = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1024x16xf32>) outs(%init : tensor<16xf32>) {
  ^bb0(%e: f32, %o: f32):
    %s = arith.addf %e, %o : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// No epilogue, and not a word, where nobody knows where a buffer is.
// CHECK-LABEL: func.func @unplanned(
// CHECK-NOT: mprt.epilogue
// CHECK: return
func.func @unplanned(%x: memref<1024x16xf32>, %a: memref<1024x4xf32>, %b: memref<16xf32>,
                     %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  %dw = memref.alloc() : memref<16x4xf32>
  mprt.gemm %x, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.launch @sum ins(%x : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  return
}
