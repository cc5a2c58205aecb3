// RUN: mpcomm-opt %s --convert-mprt-to-llvm=device=cuda | FileCheck %s

// The kernels of an attention are one call, whose descriptor has the sizes, the
// strides of all operands and the kernels.

#qkv = strided<[6144, 96, 16, 1]>
!q = memref<2x64x2x16xbf16, #qkv>
!o = memref<2x64x2x16xbf16>
!l = memref<2x2x64xf32>
!m = memref<64x64xi1>

// CHECK: llvm.mlir.global internal constant @[[LIST:mpcomm\.kernels\.[0-9]+]](
// CHECK: llvm.mlir.global internal constant @[[DESC:mpcomm\.attention\.[0-9]+]]()
// CHECK-SAME: !llvm.struct<(i32, i8, i8, i8, i8, i64, i64, i64, i64, i64, f64, array<40 x i64>, i32, i32, ptr, ptr, ptr)>
// Kind, type (bf16) and mask; samples, heads, rows, columns and size.
// CHECK-DAG: llvm.mlir.constant(0 : i8)
// CHECK-DAG: llvm.mlir.constant(3 : i8)
// CHECK-DAG: llvm.mlir.constant(1 : i8)
// CHECK-DAG: llvm.mlir.constant(2.500000e-01 : f64)
// q, k and v as parts of one product, the mask, the output and its sums.
// CHECK: llvm.mlir.constant(dense<[6144, 96, 16, 1, 6144, 96, 16, 1, 6144, 96, 16, 1, 64, 1, 0, 0, 2048, 32, 16, 1, 128, 64, 1, 0, 0, {{[0, ]*}}]> : tensor<40xi64>)
// CHECK: llvm.mlir.addressof @[[LIST]]

func.func private @mask(!q, !q, !q, !m, !o, !l) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 32, blocks = 1, grid_stride = true, scratch = 128>}
func.func private @rows(!q, !q, !q, !m, !o, !l) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 4, grid_stride = false, scratch = 128>}

// CHECK-LABEL: llvm.func @mpcomm_step
// CHECK-NOT: @mprt_launch
// CHECK: llvm.mlir.addressof @[[DESC]]
// CHECK: llvm.call @mprt_attention(
// CHECK-NOT: @mprt_attention(
// CHECK: llvm.call @mprt_launch(
// CHECK: llvm.return
func.func @step(%q: !q, %m: !m, %o: !o, %l: !l, %arena: memref<0xi8>) attributes {mprt.results = [], mprt.arena_bytes = 0 : i64} {
  mprt.launch @mask ins(%q, %q, %q, %m : !q, !q, !q, !m) outs(%o, %l : !o, !l) {mprt.attention = {kind = "attention", scale = 0.25 : f64}}
  mprt.launch @rows ins(%q, %q, %q, %m : !q, !q, !q, !m) outs(%o, %l : !o, !l) {mprt.attention}
  mprt.launch @rows ins(%q, %q, %q, %m : !q, !q, !q, !m) outs(%o, %l : !o, !l)
  return
}
