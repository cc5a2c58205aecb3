// RUN: not mpcomm-opt %s --mpcomm-generate-gpu-kernels 2>&1 | FileCheck %s

// A grid has 31 bits; where each block has sums of its own no fewer will do.
// CHECK: op would take 1099511627776 blocks, expected at most 2147483647 on a GPU

func.func private @few(%x: tensor<2x3x1099511627776x4xf32>, %d: tensor<1099511627776xf32>) -> tensor<1099511627776xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<1099511627776xf32>) -> tensor<1099511627776xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k, l) -> (i, j, k, l)>, affine_map<(i, j, k, l) -> (k)>], iterator_types = ["reduction", "reduction", "parallel", "reduction"]}
      ins(%x : tensor<2x3x1099511627776x4xf32>) outs(%f : tensor<1099511627776xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<1099511627776xf32>
  return %s : tensor<1099511627776xf32>
}
func.func @f(%e: memref<2x3x1099511627776x4xf32>, %g: memref<1099511627776xf32>) {
  mprt.launch @few ins(%e : memref<2x3x1099511627776x4xf32>) outs(%g : memref<1099511627776xf32>)
  return
}
