// RUN: rm -rf %t && mkdir %t
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=launch-shared=120000 -o %t/kernels.mlir
// RUN: FileCheck %s < %t/kernels.mlir
// RUN: mpcomm-opt %t/kernels.mlir --mpcomm-gpu-kernels-to-nvvm --mpcomm-assemble-kernels="chip=sm_90 ptxas=none ptx-directory=%t" -o %t/ptx.mlir
// RUN: FileCheck %s --check-prefix=PTX < %t/sm_90.ptx
// RUN: not mpcomm-opt %s --mpcomm-generate-gpu-kernels=launch-shared=-1 2>&1 | FileCheck %s --check-prefix=RANGE

// Rows that registers do not hold, and that a later pass reads again, stay in
// shared memory, as integers: LLVM has no floats of 8 bits.

// RANGE: expected 'launch-shared' in [0, 232448], got -1

#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>

// CHECK: func.func private @bytes({{.*}} mprt.shared_bytes = 50016 : i64
// Only the first pass reads %x, and only the last one %z.
// CHECK: func.func private @once(
// CHECK-NOT: shared_bytes
// CHECK: func.func @f(

// CHECK-LABEL: gpu.func @bytes(
// CHECK: llvm.store {{.*}} {alignment = 4 : i64} : vector<4xi8>, !llvm.ptr<3>
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> vector<4xi8>
// CHECK-LABEL: gpu.func @once(
// CHECK-NOT: gpu.dynamic_shared_memory

// PTX: st.shared
// PTX: ld.shared
func.func private @bytes(%x: tensor<64x50000xf8E4M3FN>, %y: tensor<64x50000xf32>) -> tensor<64x50000xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x50000xf8E4M3FN>) outs(%f : tensor<64xf32>) {
  ^bb0(%i: f8E4M3FN, %o: f32):
    %a = arith.extf %i : f8E4M3FN to f32
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<64x50000xf8E4M3FN>, tensor<64xf32>) outs(%y : tensor<64x50000xf32>) {
  ^bb0(%i: f8E4M3FN, %m: f32, %o: f32):
    %a = arith.extf %i : f8E4M3FN to f32
    %p = arith.subf %a, %m : f32
    linalg.yield %p : f32
  } -> tensor<64x50000xf32>
  return %r : tensor<64x50000xf32>
}

func.func private @once(%x: tensor<64x40000xbf16>, %z: tensor<64x40000xbf16>, %y: tensor<64x40000xbf16>) -> tensor<64x40000xbf16> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x40000xbf16>) outs(%f : tensor<64xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %a = arith.extf %i : bf16 to f32
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%z, %s : tensor<64x40000xbf16>, tensor<64xf32>) outs(%y : tensor<64x40000xbf16>) {
  ^bb0(%i: bf16, %m: f32, %o: bf16):
    %a = arith.extf %i : bf16 to f32
    %p = arith.subf %a, %m : f32
    %q = arith.truncf %p : f32 to bf16
    linalg.yield %q : bf16
  } -> tensor<64x40000xbf16>
  return %r : tensor<64x40000xbf16>
}

func.func @f(%a: memref<64x50000xf8E4M3FN>, %b: memref<64x50000xf32>, %c: memref<64x40000xbf16>, %d: memref<64x40000xbf16>, %e: memref<64x40000xbf16>) {
  mprt.launch @bytes ins(%a : memref<64x50000xf8E4M3FN>) outs(%b : memref<64x50000xf32>)
  mprt.launch @once ins(%c, %d : memref<64x40000xbf16>, memref<64x40000xbf16>) outs(%e : memref<64x40000xbf16>)
  return
}
