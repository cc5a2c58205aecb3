// RUN: mpcomm-opt %s --mpcomm-form-epilogues | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-form-epilogues --mpcomm-form-epilogues --remarks-filter=mpcomm-form-epilogues -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: mpcomm-opt %s --mpcomm-form-epilogues --mpcomm-generate-gpu-kernels --convert-mprt-to-llvm=device=cuda | FileCheck %s --check-prefix=LLVM

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

func.func private @bias(%b: tensor<16xbf16>, %c: tensor<8x16xbf16>) -> tensor<8x16xbf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %b : tensor<8x16xbf16>, tensor<16xbf16>) outs(%c : tensor<8x16xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %s = arith.addf %y, %x : bf16
    linalg.yield %s : bf16
  } -> tensor<8x16xbf16>
  return %r : tensor<8x16xbf16>
}

// A bias a row is none that the library has, nor is a difference.
func.func private @other(%b: tensor<16xbf16>, %c: tensor<16x16xbf16>) -> tensor<16x16xbf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %b : tensor<16x16xbf16>, tensor<16xbf16>) outs(%c : tensor<16x16xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %s = arith.addf %y, %x : bf16
    linalg.yield %s : bf16
  } -> tensor<16x16xbf16>
  return %r : tensor<16x16xbf16>
}
func.func private @difference(%b: tensor<16xbf16>, %c: tensor<16x16xbf16>) -> tensor<16x16xbf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%c, %b : tensor<16x16xbf16>, tensor<16xbf16>) outs(%c : tensor<16x16xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %s = arith.subf %x, %y : bf16
    linalg.yield %s : bf16
  } -> tensor<16x16xbf16>
  return %r : tensor<16x16xbf16>
}

// CHECK-LABEL: func.func @products(
// REMARK: Epilogues {{.*}}Function=products | epilogues=1, products=5
func.func @products(%a: memref<8x4xbf16>, %w: memref<4x16xbf16>, %b: memref<16xbf16>, %c: memref<8x16xbf16>,
                    %d: memref<16x4xbf16>, %e: memref<16x16xbf16>, %f: memref<8x16xbf16>,
                    %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  // CHECK: mprt.launch @bias {{.*}} {mprt.epilogue = {bias = 0 : i64, kind = "bias"}}
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xbf16>, memref<4x16xbf16>, memref<8x16xbf16>
  mprt.launch @bias ins(%b : memref<16xbf16>) outs(%c : memref<8x16xbf16>)
  // CHECK-NOT: mprt.epilogue
  // The product of another launch, a sum that goes on, and what something comes
  // in between.
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xbf16>, memref<4x16xbf16>, memref<8x16xbf16>
  mprt.launch @bias ins(%b : memref<16xbf16>) outs(%f : memref<8x16xbf16>)
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      accumulate : memref<8x4xbf16>, memref<4x16xbf16>, memref<8x16xbf16>
  mprt.launch @bias ins(%b : memref<16xbf16>) outs(%c : memref<8x16xbf16>)
  mprt.gemm %d, %w, %e m = 16 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<16x4xbf16>, memref<4x16xbf16>, memref<16x16xbf16>
  mprt.launch @other ins(%b : memref<16xbf16>) outs(%e : memref<16x16xbf16>)
  mprt.gemm %d, %w, %e m = 16 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<16x4xbf16>, memref<4x16xbf16>, memref<16x16xbf16>
  mprt.launch @difference ins(%b : memref<16xbf16>) outs(%e : memref<16x16xbf16>)
  return
}

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

// gelu may not go where the library still reads: A's memory is free after the
// product, not during it.
// CHECK-LABEL: func.func @memory(
// CHECK: mprt.launch @gelu {{.*}} {mprt.epilogue = {bias = 0 : i64, kind = "bias_gelu_aux", matrix = 2 : i64}}
// CHECK-NOT: mprt.epilogue
func.func @memory(%w: memref<4x16xf32>, %b: memref<16xf32>, %arena: memref<2048xi8>) attributes {mprt.results = [], mprt.arena_bytes = 2048} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c640 = arith.constant 640 : index
  %c1280 = arith.constant 1280 : index
  %a = memref.view %arena[%c0][] : memref<2048xi8> to memref<8x4xf32>
  %c = memref.view %arena[%c640][] : memref<2048xi8> to memref<8x16xf32>
  %far = memref.view %arena[%c1280][] : memref<2048xi8> to memref<8x16xf32>
  %near = memref.view %arena[%c64][] : memref<2048xi8> to memref<8x16xf32>
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.launch @gelu ins(%b : memref<16xf32>) outs(%c, %far : memref<8x16xf32>, memref<8x16xf32>)
  mprt.gemm %a, %w, %c m = 8 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<8x4xf32>, memref<4x16xf32>, memref<8x16xf32>
  mprt.launch @gelu ins(%b : memref<16xf32>) outs(%c, %near : memref<8x16xf32>, memref<8x16xf32>)
  return
}

// LLVM-DAG: llvm.mlir.global internal constant @[[KERNEL:mpcomm.kernel.[0-9]+]]
// LLVM-DAG: llvm.mlir.global internal constant @[[EPILOGUE:mpcomm.epilogue.[0-9]+]]
// LLVM-LABEL: llvm.func @mpcomm_products(
// LLVM: %[[E:.*]] = llvm.mlir.addressof @mpcomm.epilogue
// LLVM: llvm.call @mprt_gemm_epilogue({{.*}}, %[[E]], %{{.*}}) : (!llvm.ptr, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
// LLVM-NOT: mprt_gemm_epilogue
// LLVM: llvm.call @mprt_gemm(
// LLVM: llvm.call @mprt_launch(
