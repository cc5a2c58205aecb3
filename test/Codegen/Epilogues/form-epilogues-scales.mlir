// RUN: mpcomm-opt %s --mpcomm-form-epilogues | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-form-epilogues --mpcomm-generate-gpu-kernels --convert-mprt-to-llvm=device=cuda | FileCheck %s --check-prefix=LLVM
//
// Products of 8 bits are multiplied by the scales of their operands, by the
// library.

#id = affine_map<(i, j) -> (i, j)>
#col = affine_map<(i, j) -> (j)>
#number = affine_map<(i, j) -> ()>

func.func private @scale(%p: tensor<f32>, %q: tensor<f32>, %c: tensor<16x32xbf16>) -> tensor<16x32xbf16> attributes {mpcomm.kernel} {
  %0 = tensor.empty() : tensor<16x32xf32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<16x32xbf16>) outs(%0 : tensor<16x32xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %r = arith.extf %x : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %once = linalg.generic {indexing_maps = [#id, #number, #id], iterator_types = ["parallel", "parallel"]}
      ins(%wide, %p : tensor<16x32xf32>, tensor<f32>) outs(%0 : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.mulf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %twice = linalg.generic {indexing_maps = [#number, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %once : tensor<f32>, tensor<16x32xf32>) outs(%0 : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.mulf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %narrow = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%twice : tensor<16x32xf32>) outs(%c : tensor<16x32xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %r = arith.truncf %x : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  return %narrow : tensor<16x32xbf16>
}

// One number, and a bias.
func.func private @bias(%p: tensor<f32>, %b: tensor<32xbf16>, %c: tensor<16x32xbf16>) -> tensor<16x32xbf16> attributes {mpcomm.kernel} {
  %0 = tensor.empty() : tensor<16x32xf32>
  %1 = tensor.empty() : tensor<16x32xbf16>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c : tensor<16x32xbf16>) outs(%0 : tensor<16x32xf32>) {
  ^bb0(%x: bf16, %o: f32):
    %r = arith.extf %x : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %once = linalg.generic {indexing_maps = [#id, #number, #id], iterator_types = ["parallel", "parallel"]}
      ins(%wide, %p : tensor<16x32xf32>, tensor<f32>) outs(%0 : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.mulf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  %narrow = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%once : tensor<16x32xf32>) outs(%1 : tensor<16x32xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %r = arith.truncf %x : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  %sum = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%narrow, %b : tensor<16x32xbf16>, tensor<32xbf16>) outs(%c : tensor<16x32xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %r = arith.addf %x, %y : bf16
    linalg.yield %r : bf16
  } -> tensor<16x32xbf16>
  return %sum : tensor<16x32xbf16>
}

// Results in f32 are not widened.
func.func private @full(%p: tensor<f32>, %c: tensor<16x32xf32>) -> tensor<16x32xf32> attributes {mpcomm.kernel} {
  %once = linalg.generic {indexing_maps = [#number, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %c : tensor<f32>, tensor<16x32xf32>) outs(%c : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.mulf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %once : tensor<16x32xf32>
}

// A factor for each column is no scale, nor is a quotient.
func.func private @columns(%p: tensor<32xf32>, %c: tensor<16x32xf32>) -> tensor<16x32xf32> attributes {mpcomm.kernel} {
  %once = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %p : tensor<16x32xf32>, tensor<32xf32>) outs(%c : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.mulf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %once : tensor<16x32xf32>
}
func.func private @quotient(%p: tensor<f32>, %c: tensor<16x32xf32>) -> tensor<16x32xf32> attributes {mpcomm.kernel} {
  %once = linalg.generic {indexing_maps = [#id, #number, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %p : tensor<16x32xf32>, tensor<f32>) outs(%c : tensor<16x32xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.divf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<16x32xf32>
  return %once : tensor<16x32xf32>
}

// CHECK-LABEL: func.func @products(
func.func @products(%a: memref<16x64xf8E4M3FN>, %w: memref<32x64xf8E5M2>, %p: memref<f32>, %q: memref<f32>, %b: memref<32xbf16>,
                    %c: memref<16x32xbf16>, %f: memref<16x32xf32>, %arena: memref<64xi8>)
    attributes {mprt.results = [], mprt.arena_bytes = 64} {
  // CHECK: mprt.launch @scale {{.*}} {mprt.epilogue = {kind = "scale", scales = array<i64: 0, 1>}}
  mprt.gemm %a, %w, %c m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xf8E4M3FN>, memref<32x64xf8E5M2>, memref<16x32xbf16>
  mprt.launch @scale ins(%p, %q : memref<f32>, memref<f32>) outs(%c : memref<16x32xbf16>)
  // CHECK: mprt.launch @bias {{.*}} {mprt.epilogue = {bias = 1 : i64, kind = "bias", scales = array<i64: 0>}}
  mprt.gemm %a, %w, %c m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xf8E4M3FN>, memref<32x64xf8E5M2>, memref<16x32xbf16>
  mprt.launch @bias ins(%p, %b : memref<f32>, memref<32xbf16>) outs(%c : memref<16x32xbf16>)
  // CHECK: mprt.launch @full {{.*}} {mprt.epilogue = {kind = "scale", scales = array<i64: 0>}}
  mprt.gemm %a, %w, %f m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xf8E4M3FN>, memref<32x64xf8E5M2>, memref<16x32xf32>
  mprt.launch @full ins(%p : memref<f32>) outs(%f : memref<16x32xf32>)
  return
}

// Kinds 7, 1 and 7, the number of scales, and which pointers they are.
//      LLVM: llvm.mlir.global internal constant @mpcomm.epilogue
//      LLVM: constant(7 : i32)
// LLVM-NEXT: insertvalue {{.*}}[0]
//      LLVM: insertvalue {{.*}}[4]
// LLVM-NEXT: constant(2 : i32)
// LLVM-NEXT: insertvalue {{.*}}[5]
// LLVM-NEXT: constant(0 : i32)
// LLVM-NEXT: insertvalue {{.*}}[6]
// LLVM-NEXT: constant(1 : i32)
// LLVM-NEXT: insertvalue {{.*}}[7]
//      LLVM: llvm.mlir.global internal constant @mpcomm.epilogue
//      LLVM: constant(1 : i32)
// LLVM-NEXT: insertvalue {{.*}}[0]
//      LLVM: insertvalue {{.*}}[4]
// LLVM-NEXT: constant(1 : i32)
// LLVM-NEXT: insertvalue {{.*}}[5]
// LLVM-NEXT: constant(0 : i32)
// LLVM-NEXT: insertvalue {{.*}}[6]
// LLVM-NEXT: constant(0 : i32)
// LLVM-NEXT: insertvalue {{.*}}[7]
//      LLVM: llvm.mlir.global internal constant @mpcomm.epilogue
//      LLVM: constant(7 : i32)
// LLVM-NEXT: insertvalue {{.*}}[0]
//      LLVM: insertvalue {{.*}}[4]
// LLVM-NEXT: constant(1 : i32)
// LLVM-NEXT: insertvalue {{.*}}[5]
// LLVM-NEXT: constant(0 : i32)
// LLVM-NEXT: insertvalue {{.*}}[6]
// LLVM-NEXT: constant(0 : i32)
// LLVM-NEXT: insertvalue {{.*}}[7]
// LLVM-LABEL: llvm.func @mpcomm_products(
// LLVM-COUNT-3: llvm.call @mprt_gemm_epilogue(

// CHECK-LABEL: func.func @others(
// CHECK-NOT: mprt.epilogue
func.func @others(%a: memref<16x64xf8E4M3FN>, %w: memref<32x64xf8E4M3FN>, %h: memref<16x64xbf16>, %v: memref<32x64xbf16>,
                  %p: memref<f32>, %q: memref<f32>, %col: memref<32xf32>, %c: memref<16x32xbf16>, %f: memref<16x32xf32>,
                  %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %a, %w, %f m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xf8E4M3FN>, memref<32x64xf8E4M3FN>, memref<16x32xf32>
  mprt.launch @columns ins(%col : memref<32xf32>) outs(%f : memref<16x32xf32>)
  mprt.gemm %a, %w, %f m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xf8E4M3FN>, memref<32x64xf8E4M3FN>, memref<16x32xf32>
  mprt.launch @quotient ins(%p : memref<f32>) outs(%f : memref<16x32xf32>)
  // Of 16 bits the library scales none.
  mprt.gemm %h, %v, %c m = 16 n = 32 k = 64 strides [64, 1] x [1, 64] -> [32, 1] batch [] strides [] x [] -> []
      : memref<16x64xbf16>, memref<32x64xbf16>, memref<16x32xbf16>
  mprt.launch @scale ins(%p, %q : memref<f32>, memref<f32>) outs(%c : memref<16x32xbf16>)
  return
}
