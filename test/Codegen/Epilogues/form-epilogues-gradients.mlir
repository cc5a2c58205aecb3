// RUN: mpcomm-opt %s --mpcomm-form-epilogues | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-form-epilogues --mpcomm-generate-gpu-kernels --convert-mprt-to-llvm=device=cuda | FileCheck %s --check-prefix=LLVM

// Gradients of biases as epilogues: sums of an operand over what a product contracts.

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
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

// Sums of rows, sums that go on and the greatest of a column are none.
func.func private @rows(%x: tensor<1024x16xf32>, %b: tensor<1024xf32>) -> tensor<1024xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%b : tensor<1024xf32>) -> tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1024x16xf32>) outs(%init : tensor<1024xf32>) {
  ^bb0(%e: f32, %o: f32):
    %s = arith.addf %e, %o : f32
    linalg.yield %s : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
func.func private @onward(%x: tensor<1024x16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1024x16xf32>) outs(%b : tensor<16xf32>) {
  ^bb0(%e: f32, %o: f32):
    %s = arith.addf %e, %o : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}
func.func private @greatest(%x: tensor<1024x16xf32>, %b: tensor<16xf32>) -> tensor<16xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %init = linalg.fill ins(%zero : f32) outs(%b : tensor<16xf32>) -> tensor<16xf32>
  %r = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<1024x16xf32>) outs(%init : tensor<16xf32>) {
  ^bb0(%e: f32, %o: f32):
    %s = arith.maximumf %e, %o : f32
    linalg.yield %s : f32
  } -> tensor<16xf32>
  return %r : tensor<16xf32>
}

// Of the first product that has the sum's matrix as an operand, before the sum or
// after it; of A where that is transposed, else of B.
// CHECK-LABEL: func.func @places(
// CHECK: mprt.gemm %[[X:[^,]*]], %{{.*}} m = 16 n = 4 k = 1024
// CHECK-NEXT: mprt.launch @sum ins(%[[X]] : {{.*}}) {mprt.epilogue = {bias = 1 : i64, kind = "bias_grad_a"}}
// CHECK-NEXT: mprt.gemm %{{.*}} m = 1024 n = 4 k = 16
// CHECK-NEXT: mprt.gemm %{{[^,]*}}, %[[Y:[^,]*]], %{{.*}} m = 4 n = 16 k = 1024
// CHECK-NEXT: mprt.launch @sum ins(%[[Y]] : {{.*}}) {mprt.epilogue = {bias = 1 : i64, kind = "bias_grad_b"}}
// CHECK-NEXT: return
func.func @places(%x: memref<1024x16xf32>, %y: memref<1024x16xf32>, %a: memref<1024x4xf32>, %w: memref<16x4xf32>,
                  %bx: memref<16xf32>, %by: memref<16xf32>,
                  %dw: memref<16x4xf32>, %du: memref<4x16xf32>, %dx: memref<1024x4xf32>,
                  %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.launch @sum ins(%x : memref<1024x16xf32>) outs(%bx : memref<16xf32>)
  mprt.gemm %x, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.gemm %a, %y, %du m = 4 n = 16 k = 1024 strides [1, 4] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<1024x4xf32>, memref<1024x16xf32>, memref<4x16xf32>
  // What is contracted here is a row of it.
  mprt.gemm %y, %w, %dx m = 1024 n = 4 k = 16 strides [16, 1] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<16x4xf32>, memref<1024x4xf32>
  mprt.launch @sum ins(%y : memref<1024x16xf32>) outs(%by : memref<16xf32>)
  return
}

// CHECK-LABEL: func.func @others(
// CHECK-NOT: mprt.epilogue
// CHECK: return
func.func @others(%x: memref<1024x16xf32>, %a: memref<1024x4xf32>, %b: memref<16xf32>, %c: memref<1024xf32>,
                  %dw: memref<16x4xf32>,
                  %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %x, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.launch @rows ins(%x : memref<1024x16xf32>) outs(%c : memref<1024xf32>)
  mprt.launch @onward ins(%x : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  mprt.launch @greatest ins(%x : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  return
}

// A product has one epilogue; one that goes on with a sum has none.
// CHECK-LABEL: func.func @taken(
// CHECK: mprt.gemm
// CHECK-NEXT: mprt.launch @sum {{.*}} {mprt.epilogue
// CHECK-NEXT: mprt.launch @sum {{.*}} outs(%{{.*}} : memref<16xf32>){{$}}
// CHECK: mprt.gemm
// CHECK-NEXT: mprt.launch @sum {{.*}} outs(%{{.*}} : memref<16xf32>){{$}}
func.func @taken(%x: memref<1024x16xf32>, %y: memref<1024x16xf32>, %a: memref<1024x4xf32>, %b: memref<16xf32>, %c: memref<16xf32>,
                 %dw: memref<16x4xf32>,
                 %arena: memref<64xi8>) attributes {mprt.results = [], mprt.arena_bytes = 64} {
  mprt.gemm %x, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.launch @sum ins(%x : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  mprt.launch @sum ins(%x : memref<1024x16xf32>) outs(%c : memref<16xf32>)
  mprt.gemm %y, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      accumulate : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.launch @sum ins(%y : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  return
}

// Not where the matrix is another one by then, nor where the sum's place is still in
// use: by what is in between, or by the product itself.
// CHECK-LABEL: func.func @order(
// CHECK-NOT: mprt.epilogue
// CHECK: return
func.func @order(%x: memref<1024x16xf32>, %a: memref<1024x4xf32>, %b: memref<16xf32>, %w: memref<4x16xf32>,
                 %dw: memref<16x4xf32>,
                 %arena: memref<131072xi8>) attributes {mprt.results = [], mprt.arena_bytes = 131072} {
  %c0 = arith.constant 0 : index
  %c65536 = arith.constant 65536 : index
  %t = memref.view %arena[%c0][] : memref<131072xi8> to memref<1024x16xf32>
  %u = memref.view %arena[%c65536][] : memref<131072xi8> to memref<1024x4xf32>
  %inside = memref.view %arena[%c65536][] : memref<131072xi8> to memref<16xf32>
  mprt.launch @sum ins(%t : memref<1024x16xf32>) outs(%b : memref<16xf32>)
  mprt.gemm %a, %w, %t m = 1024 n = 16 k = 4 strides [4, 1] x [16, 1] -> [16, 1] batch [] strides [] x [] -> []
      : memref<1024x4xf32>, memref<4x16xf32>, memref<1024x16xf32>
  mprt.gemm %t, %a, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.gemm %x, %u, %dw m = 16 n = 4 k = 1024 strides [1, 16] x [4, 1] -> [4, 1] batch [] strides [] x [] -> []
      : memref<1024x16xf32>, memref<1024x4xf32>, memref<16x4xf32>
  mprt.launch @sum ins(%x : memref<1024x16xf32>) outs(%inside : memref<16xf32>)
  return
}

// A sum of many rows is two kernels: both are the epilogue.
// LLVM-DAG: llvm.mlir.global internal constant @[[LIST:mpcomm.kernels.[0-9]+]]() {{.*}} : !llvm.struct<(ptr, ptr)>
// LLVM-LABEL: llvm.func @mpcomm_places(
// LLVM: llvm.call @mprt_gemm_epilogue
// LLVM-NOT: mprt_launch
// LLVM: llvm.call @mprt_gemm_epilogue
// LLVM-NOT: mprt_launch
// LLVM: llvm.return
