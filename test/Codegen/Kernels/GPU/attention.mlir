// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s --check-prefix=CODE

// Attention on tensor cores: a block has rows and goes through tiles of columns,
// whose operands come by copies of 16 bytes while the tile before is computed.

#qkv = strided<[2359296, 2304, 64, 1]>

// 8 * 12 heads with 8 tiles of 128 rows each. Equal ones are one kernel.
// CHECK: func.func private @kernel_attention(memref<8x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>, {{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 768, grid_stride = false, scratch = 0>}
// The mask's 8 x 16 tiles have a byte each.
// CHECK: func.func private @kernel_attention_mask(memref<8x1024x12x64xbf16>, {{.*}}, memref<1024x1024xi8>, {{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 32, blocks = 128, grid_stride = true, scratch = 128>}
// CHECK: func.func private @kernel_attention_0({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 768, grid_stride = false, scratch = 128>}
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: mprt.launch @kernel_attention ins
// CHECK-NEXT: mprt.launch @kernel_attention ins
// CHECK-NEXT: mprt.launch @kernel_attention_mask ins
// CHECK-NEXT: mprt.launch @kernel_attention_0 ins
// CHECK-NEXT: return
func.func @forward(%q: memref<8x1024x12x64xbf16, #qkv>, %x: memref<8x1024x12x64xbf16>, %o: memref<8x1024x12x64xbf16>, %l: memref<8x12x1024xf32>, %m: memref<1024x1024xi1>) {
  mprt.attention "attention" scale = 0.125 ins(%q, %q, %q : memref<8x1024x12x64xbf16, #qkv>, memref<8x1024x12x64xbf16, #qkv>, memref<8x1024x12x64xbf16, #qkv>) outs(%o, %l : memref<8x1024x12x64xbf16>, memref<8x12x1024xf32>)
  mprt.attention "attention" scale = 0.125 ins(%q, %q, %q : memref<8x1024x12x64xbf16, #qkv>, memref<8x1024x12x64xbf16, #qkv>, memref<8x1024x12x64xbf16, #qkv>) outs(%x, %l : memref<8x1024x12x64xbf16>, memref<8x12x1024xf32>)
  mprt.attention "attention" scale = 0.125 ins(%x, %x, %x, %m : memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<1024x1024xi1>) outs(%o, %l : memref<8x1024x12x64xbf16>, memref<8x12x1024xf32>)
  return
}

// Rows beside the last are zeros; few heads have blocks of 64 rows; f16 that
// lies in pairs comes 4 bytes at a time.
// CHECK: func.func private @kernel_attention_1({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 4, grid_stride = false, scratch = 0>}
// CHECK-LABEL: func.func @narrow
func.func @narrow(%q: memref<1x100x2x32xf16, strided<[6600, 66, 32, 1], offset: 2>>, %o: memref<1x100x2x32xf16>, %l: memref<1x2x100xf32>) {
  mprt.attention "attention" scale = 1.0 ins(%q, %q, %q : memref<1x100x2x32xf16, strided<[6600, 66, 32, 1], offset: 2>>, memref<1x100x2x32xf16, strided<[6600, 66, 32, 1], offset: 2>>, memref<1x100x2x32xf16, strided<[6600, 66, 32, 1], offset: 2>>) outs(%o, %l : memref<1x100x2x32xf16>, memref<1x2x100xf32>)
  return
}

// CHECK-LABEL: func.func @backward
// CHECK-NEXT: mprt.launch @kernel_attention_grad_mask ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_deltas ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_columns ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_rows ins
// CHECK-NEXT: return
func.func @backward(%x: memref<8x1024x12x64xbf16>, %y: memref<8x1024x12x64xbf16>, %l: memref<8x12x1024xf32>, %m: memref<1024x1024xi1>) {
  mprt.attention "attention_grad" scale = 0.125 ins(%x, %x, %x, %x, %x, %l, %m : memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x12x1024xf32>, memref<1024x1024xi1>) outs(%y, %y, %y : memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>)
  return
}

// A bias, the same for all rows; numbers of gradients are four of f32 for each
// of 2 * 128 rows.
// CHECK: func.func private @kernel_attention_2({{.*}}memref<1x2x1x128xf32>{{.*}}memref<1x2x128x2xf32>{{.*}}scratch = 0>}
// CHECK: func.func private @kernel_attention_grad_columns_4({{.*}}scratch = 4096>}
// CHECK-LABEL: func.func @biased
func.func @biased(%q: memref<1x128x2x32xbf16>, %l: memref<1x2x128x2xf32>, %b: memref<1x2x1x128xf32>) {
  mprt.attention "attention" scale = 0.25 ins(%q, %q, %q, %b : memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x2x1x128xf32>) outs(%q, %l : memref<1x128x2x32xbf16>, memref<1x2x128x2xf32>)
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %q, %q, %q, %l, %b : memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x2x128x2xf32>, memref<1x2x1x128xf32>) outs(%q, %q, %q : memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>, memref<1x128x2x32xbf16>)
  return
}

// The rows of q come to a stage of their own, beside the first of k and v:
// CODE-LABEL: gpu.func @kernel_attention(
// CODE-SAME: workgroup(%{{.*}} : memref<36864xi8, #gpu.address_space<workgroup>> {llvm.align = 128 : i64})
// CODE-COUNT-8: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CODE: nvvm.cp.async.commit.group
// CODE-COUNT-8: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CODE: nvvm.cp.async.commit.group
// CODE: nvvm.cp.async.wait.group 1
// CODE: gpu.barrier
// CODE-COUNT-8: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// One barrier a tile; the next one's copies begin after it, and each fragment
// of k and of v makes four products.
// CODE: scf.while
// CODE-NOT: gpu.barrier
// CODE: nvvm.cp.async.wait.group 0
// CODE-NEXT: gpu.barrier
// CODE-NOT: gpu.barrier
// CODE-COUNT-8: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CODE: nvvm.cp.async.commit.group
// CODE-NOT: gpu.barrier
// CODE: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// CODE-COUNT-4: nvvm.mma.sync
// CODE-NOT: nvvm.mma.sync
// CODE: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// CODE: llvm.nvvm.ex2.approx.ftz.f32
// CODE: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4
// CODE-COUNT-4: nvvm.mma.sync
// CODE-NOT: gpu.barrier
// CODE: gpu.return

// Tiles that the mask keeps nothing of are passed over; only tiles that it
// keeps some of look at it.
// CODE-LABEL: gpu.func @kernel_attention_0(
// CODE: scf.while
// CODE: scf.while
// CODE: scf.while
// CODE: nvvm.cp.async.wait.group 0
// CODE-NEXT: gpu.barrier
// CODE: %[[SOME:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i8
// CODE: scf.if %[[SOME]] -> (f32,
// CODE: gpu.return

// CODE-LABEL: gpu.func @kernel_attention_1(
// CODE: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca, %{{.*}} : !llvm.ptr<3>, !llvm.ptr<1>, i32

// S and dP, then P and dS as left operands; no barrier between.
// CODE-LABEL: gpu.func @kernel_attention_grad_columns(
// CODE: nvvm.cp.async.wait.group 0
// CODE-NEXT: gpu.barrier
// CODE-NOT: gpu.barrier
// CODE: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>
// CODE: llvm.nvvm.ex2.approx.ftz.f32
// CODE: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>
// CODE-NOT: gpu.barrier
// CODE: gpu.return
// CODE-LABEL: gpu.func @kernel_attention_grad_rows(

// Pairs of columns, once for all rows of a thread.
// CODE-LABEL: gpu.func @kernel_attention_2(
// CODE: nvvm.mma.sync
// CODE-COUNT-8: llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CODE-NOT: !llvm.ptr<1> ->
// CODE: gpu.return
