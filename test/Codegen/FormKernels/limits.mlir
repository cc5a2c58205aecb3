// RUN: mpcomm-opt %s --mpcomm-form-kernels=max-operands=4 --split-input-file | FileCheck %s
//
// What keeps ops apart, and what stays outside of kernels.

// Five tensors are too many: the sum is split where the limit is reached.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @operands
//       CHECK: %[[A:.+]] = mprt.launch @{{.+}} ins(%arg0, %arg1, %arg2 : {{.*}}) outs
//       CHECK: mprt.launch @{{.+}} ins(%arg3{{.*}} outs(%[[A]]
func.func @operands(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%a, %b : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%0, %c : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%1, %d : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Products and the zeros they start from stay; other values are a kernel.
// CHECK-LABEL: func.func @fills
//       CHECK: linalg.fill
//       CHECK: linalg.matmul
//       CHECK: mprt.launch @kernel_fill_0 outs
func.func @fills(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = linalg.fill ins(%one : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Kernels are not formed within kernels.
// CHECK-LABEL: func.func private @kernel
//       CHECK: linalg.generic
//   CHECK-NOT: mprt.launch
#id = affine_map<(d0) -> (d0)>
func.func private @kernel(%a: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%d : tensor<8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.addf %x, %x : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Collectives keep their place and their order.
#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @collectives
//       CHECK: mprt.launch @{{.+}} ins(%arg0
//       CHECK: mprt.start {{.*}} id = 0
//       CHECK: mprt.start {{.*}} id = 1
//       CHECK: mprt.await event = 0
//       CHECK: mprt.launch
//       CHECK: mprt.await event = 1
func.func @collectives(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.addf %x, %x : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%0 : tensor<8xf32>) -> (tensor<8xf32>)
  %2 = mprt.start "all_reduce" "sum" id = 1 communicator = 0 event = 1 peer = -1 accumulate f32 ins() outs(%b : tensor<8xf32>) -> (tensor<8xf32>)
  %3 = mprt.await event = 0 ins() outs(%1 : tensor<8xf32>) -> (tensor<8xf32>)
  %4 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%3 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = arith.mulf %x, %x : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %5 = mprt.await event = 1 ins() outs(%2 : tensor<8xf32>) -> (tensor<8xf32>)
  return %4, %5 : tensor<8xf32>, tensor<8xf32>
}
