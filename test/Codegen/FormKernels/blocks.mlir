// RUN: mpcomm-opt %s --mpcomm-form-kernels | FileCheck %s
//
// Functions of several blocks: each is grouped by itself, and what another
// block uses stays before the branch to it.

#id = affine_map<(d0) -> (d0)>

// The kernel runs where its second op was; the slice of its result, which only
// another block reads, comes after it.
// CHECK-LABEL: func.func @slice_elsewhere
//       CHECK: %[[Y:.+]]:2 = mprt.launch
//       CHECK: %[[S:.+]] = tensor.extract_slice %[[Y]]#{{[01]}}[0] [4] [1]
//       CHECK: cf.cond_br
//       CHECK: ^bb1:
//       CHECK: return %[[S]]
func.func @slice_elsewhere(%c: i1, %x: tensor<8xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %slice = tensor.extract_slice %0[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  return %slice : tensor<4xf32>
^bb2:
  %other = tensor.extract_slice %1[4] [4] [1] : tensor<8xf32> to tensor<4xf32>
  return %other : tensor<4xf32>
}

// What a branch passes on is no result: the argument's buffer is donated to
// the function's.
// CHECK-LABEL: func.func @donated
//       CHECK: %[[E:.+]] = tensor.empty
//       CHECK: mprt.launch {{.*}} ins(%arg0 {{.*}} outs(%[[E]]
//       CHECK: cf.br
func.func @donated(%x: tensor<8xf32> {mpcomm.donated = 0 : i64}) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  cf.br ^bb1(%0 : tensor<8xf32>)
^bb1(%y: tensor<8xf32>):
  return %y : tensor<8xf32>
}
