// RUN: mpcomm-opt %s --mpcomm-form-epilogues | FileCheck %s --implicit-check-not=mprt.epilogue
// RUN: mpcomm-opt %s --mpcomm-form-epilogues --mpcomm-generate-gpu-kernels -o /dev/null

// Launches that are no epilogue, though their kernels could be: a library would read
// and write in another order.

#id = affine_map<(i, j) -> (i, j)>
#id1 = affine_map<(j) -> (j)>
#col = affine_map<(i, j) -> (j)>

func.func private @gelu(%b: tensor<16xf32>, %c: tensor<8x16xf32>, %g: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %b : tensor<8x16xf32>, tensor<16xf32>) outs(%c : tensor<8x16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %a = arith.constant 0.044715 : f32
  %d = arith.constant 0.797884583 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%r : tensor<8x16xf32>) outs(%g : tensor<8x16xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.mulf %x, %x : f32
    %1 = arith.mulf %0, %x : f32
    %2 = arith.mulf %1, %a : f32
    %3 = arith.addf %x, %2 : f32
    %4 = arith.mulf %3, %d : f32
    %5 = math.tanh %4 : f32
    %6 = arith.mulf %x, %half : f32
    %7 = arith.addf %5, %one : f32
    %8 = arith.mulf %6, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<8x16xf32>
  return %r, %t : tensor<8x16xf32>, tensor<8x16xf32>
}
func.func private @bias(%b: tensor<16xf32>, %c: tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id1, #id1, #id1], iterator_types = ["parallel"]}
      ins(%c, %b : tensor<16xf32>, tensor<16xf32>) outs(%c : tensor<16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.addf %y, %x : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}
func.func private @gg(%z: tensor<8x16xf32>, %old: tensor<8x16xf32>, %c: tensor<8x16xf32>, %e: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {mpcomm.kernel} {
  %a = arith.constant 0.044715 : f32
  %a3 = arith.constant 0.134145 : f32
  %d = arith.constant 0.797884583 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %z : tensor<8x16xf32>, tensor<8x16xf32>) outs(%c : tensor<8x16xf32>) {
  ^bb0(%dy: f32, %x: f32, %o: f32):
    %0 = arith.mulf %x, %x : f32
    %1 = arith.mulf %0, %x : f32
    %2 = arith.mulf %1, %a : f32
    %3 = arith.addf %x, %2 : f32
    %4 = arith.mulf %3, %d : f32
    %t = math.tanh %4 : f32
    %5 = arith.addf %t, %one : f32
    %6 = arith.mulf %5, %half : f32
    %7 = arith.mulf %t, %t : f32
    %8 = arith.subf %one, %7 : f32
    %9 = arith.mulf %x, %half : f32
    %10 = arith.mulf %9, %8 : f32
    %11 = arith.mulf %0, %a3 : f32
    %12 = arith.addf %11, %one : f32
    %13 = arith.mulf %12, %d : f32
    %14 = arith.mulf %10, %13 : f32
    %15 = arith.addf %6, %14 : f32
    %16 = arith.mulf %dy, %15 : f32
    linalg.yield %16 : f32
  } -> tensor<8x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%r, %old : tensor<8x16xf32>, tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %u = arith.mulf %p, %q : f32
    linalg.yield %u : f32
  } -> tensor<8x16xf32>
  return %r, %s : tensor<8x16xf32>, tensor<8x16xf32>
}
// Its gradient is two results: there is no rest that could read one of them.
func.func private @twice(%z: tensor<8x16xf32>, %old: tensor<8x16xf32>, %c: tensor<8x16xf32>, %e: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {mpcomm.kernel} {
  %a = arith.constant 0.044715 : f32
  %a3 = arith.constant 0.134145 : f32
  %d = arith.constant 0.797884583 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %z : tensor<8x16xf32>, tensor<8x16xf32>) outs(%c : tensor<8x16xf32>) {
  ^bb0(%dy: f32, %x: f32, %o: f32):
    %0 = arith.mulf %x, %x : f32
    %1 = arith.mulf %0, %x : f32
    %2 = arith.mulf %1, %a : f32
    %3 = arith.addf %x, %2 : f32
    %4 = arith.mulf %3, %d : f32
    %t = math.tanh %4 : f32
    %5 = arith.addf %t, %one : f32
    %6 = arith.mulf %5, %half : f32
    %7 = arith.mulf %t, %t : f32
    %8 = arith.subf %one, %7 : f32
    %9 = arith.mulf %x, %half : f32
    %10 = arith.mulf %9, %8 : f32
    %11 = arith.mulf %0, %a3 : f32
    %12 = arith.addf %11, %one : f32
    %13 = arith.mulf %12, %d : f32
    %14 = arith.mulf %10, %13 : f32
    %15 = arith.addf %6, %14 : f32
    %16 = arith.mulf %dy, %15 : f32
    linalg.yield %16 : f32
  } -> tensor<8x16xf32>
  return %r, %r : tensor<8x16xf32>, tensor<8x16xf32>
}
// A product after the launch makes another matrix; the one before it goes on
// with a sum.
// CHECK-LABEL: func.func @after(
// CHECK: mprt.gemm {{.*}} accumulate
// CHECK-NEXT: mprt.launch @gelu
// CHECK-NEXT: mprt.gemm
func.func @after(%a: memref<8x4xf32>, %w: memref<4x16xf32>, %b: memref<16xf32>, %c: memref<8x16xf32>, %g: memref<8x16xf32>,
                    %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      accumulate : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.launch @gelu ins(%b : memref<16xf32>) outs(%c, %g : memref<8x16xf32>, memref<8x16xf32>)
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  return
}

// The product is added to itself.
// CHECK-LABEL: func.func @itself(
// CHECK: mprt.launch @bias
func.func @itself(%a: memref<4xf32>, %w: memref<4x16xf32>, %c: memref<16xf32>,
                    %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %a, %w, %c m = 1 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<4xf32>, memref<4x16xf32>, memref<16xf32>
  mprt.launch @bias ins(%c : memref<16xf32>) outs(%c : memref<16xf32>)
  return
}

// What comes after gelu's gradient reads what that writes over.
// CHECK-LABEL: func.func @over(
// CHECK: mprt.launch @gg
func.func @over(%a: memref<8x4xf32>, %w: memref<4x16xf32>, %c: memref<8x16xf32>, %z: memref<8x16xf32>, %e: memref<8x16xf32>,
                    %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.launch @gg ins(%z, %c : memref<8x16xf32>, memref<8x16xf32>) outs(%c, %e : memref<8x16xf32>, memref<8x16xf32>)
  return
}

// CHECK-LABEL: func.func @results(
// CHECK: mprt.launch @twice
func.func @results(%a: memref<8x4xf32>, %w: memref<4x16xf32>, %c: memref<8x16xf32>, %z: memref<8x16xf32>, %e: memref<8x16xf32>,
                    %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.launch @twice ins(%z, %z : memref<8x16xf32>, memref<8x16xf32>) outs(%c, %e : memref<8x16xf32>, memref<8x16xf32>)
  return
}
