// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// A scalar that all threads read and one replaces is replaced by a kernel of its
// own, after the others.

#all = affine_map<(i) -> (i)>
#one = affine_map<(i) -> ()>

func.func private @count(%x: tensor<4096xf32>, %d: tensor<4096xf32>, %n: tensor<f32>) -> (tensor<4096xf32>, tensor<f32>) attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#all, #one, #all], iterator_types = ["parallel"]}
      ins(%x, %n : tensor<4096xf32>, tensor<f32>) outs(%d : tensor<4096xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.mulf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<4096xf32>
  %next = linalg.generic {indexing_maps = [affine_map<() -> ()>], iterator_types = []} outs(%n : tensor<f32>) {
  ^bb0(%o: f32):
    %one = arith.constant 1.0 : f32
    %s = arith.addf %o, %one : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %r, %next : tensor<4096xf32>, tensor<f32>
}

func.func @f(%x: memref<4096xf32>, %n: memref<f32>) {
  // CHECK: mprt.launch @count ins
  // CHECK-NEXT: mprt.launch @count_scalars ins
  mprt.launch @count ins(%x : memref<4096xf32>) outs(%x, %n : memref<4096xf32>, memref<f32>)
  return
}

// CHECK-LABEL: gpu.func @count(
// CHECK-NOT: memref.store
// CHECK-LABEL: gpu.func @count_scalars(
// CHECK: memref.store
