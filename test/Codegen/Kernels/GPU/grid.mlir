// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// More work than a grid has blocks: each goes on with what is left.
// CHECK: func.func private @long{{.*}}#mprt.grid<threads = 256, blocks = 2147483647, grid_stride = true, scratch = 0>
// CHECK: scf.for %{{.*}} = %block_id_x to %c4294967296 step %grid_dim_x

#id = affine_map<(i, j) -> (i, j)>
func.func private @long(%x: tensor<8796093022208x2xf32>, %d: tensor<8796093022208x2xf32>) -> tensor<8796093022208x2xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8796093022208x2xf32>) outs(%d : tensor<8796093022208x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8796093022208x2xf32>
  return %r : tensor<8796093022208x2xf32>
}
func.func @launches(%x: memref<8796093022208x2xf32>, %y: memref<8796093022208x2xf32>) {
  mprt.launch @long ins(%x : memref<8796093022208x2xf32>) outs(%y : memref<8796093022208x2xf32>)
  return
}
