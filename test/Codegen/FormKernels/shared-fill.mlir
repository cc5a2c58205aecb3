// A fill that is read by itself, and from which a product starts, is in both
// kernels.

// RUN: mpcomm-opt %s --mpcomm-form-kernels | FileCheck %s

#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// CHECK: func.func private @kernel_prod_0
// CHECK: %[[START:.*]] = linalg.fill
// CHECK: linalg.generic {{.*}} outs(%[[START]] : tensor<4xf32>)
func.func @shared(%x: tensor<4x8xf32>, %s: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %padded = tensor.insert_slice %s into %ones[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %product = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4x8xf32>) outs(%ones : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<4xf32> loc(fused<"prod">["here"])
  return %padded, %product : tensor<4xf32>, tensor<4xf32>
}
