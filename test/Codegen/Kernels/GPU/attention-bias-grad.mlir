// The gradient of a bias has kernels of its own, which no library replaces.

// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels \
// RUN:   | FileCheck %s --implicit-check-not="{mprt.attention"
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=warpgroups=true | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=processors=4 | FileCheck %s --check-prefix=FEW
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s --check-prefix=CODE

// Two heads of 2 x 2 tiles, summed over three samples, which are too few blocks
// for 132 multiprocessors: each sample has its own. Scratch has 12 KiB of
// numbers, and 16 KiB for each of the 24 tiles, of which blocks of 256 threads
// add up an element each.
// CHECK: func.func private @kernel_attention_grad_bias({{.*}}memref<1x2x128x128xf32>{{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 24, grid_stride = false, scratch = 405504>}
// CHECK: func.func private @kernel_attention_grad_bias_sums({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 256, blocks = 128, grid_stride = false, scratch = 405504>}
// CHECK-LABEL: func.func @of_heads
// CHECK-NEXT: mprt.launch @kernel_attention_grad_deltas ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_columns ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_rows ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_bias ins
// CHECK-NEXT: mprt.launch @kernel_attention_grad_bias_sums ins
// CHECK-NEXT: return

// For four multiprocessors the tiles are enough.
// FEW: @kernel_attention_grad_bias({{.*}} blocks = 8, grid_stride = false, scratch = 12288>}
// FEW-LABEL: func.func @of_heads
// FEW: mprt.launch @kernel_attention_grad_bias ins
// FEW-NEXT: return

// Two pairs of operands, of 64 rows and 64 columns of 80 bytes each; the last
// step of a loop adds to 32 sums; nothing is added in memory.
// CODE-LABEL: gpu.func @kernel_attention_grad_bias(
// CODE-SAME: workgroup(%{{.*}} : memref<20480xi8, #gpu.address_space<workgroup>> {llvm.align = 128 : i64})
// CODE: %{{.*}}:32 = scf.for
// CODE-COUNT-2: nvvm.cp.async.wait.group 0
// CODE-NOT: atomic
// CODE: gpu.return
func.func @of_heads(%q: memref<3x128x2x32xbf16>, %l: memref<3x2x128x2xf32>, %b: memref<1x2x128x128xf32>, %d: memref<1x2x128x128xf32>) {
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %q, %q, %q, %l, %b : memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<3x2x128x2xf32>, memref<1x2x128x128xf32>) outs(%q, %q, %q, %d : memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<3x128x2x32xbf16>, memref<1x2x128x128xf32>)
  return
}

// A bias of all scores has nothing to sum over: 3 * 2 * 2 * 2 tiles. Heads of
// 128 come in two pieces of 64.
// CHECK: func.func private @kernel_attention_grad_bias_{{[0-9]+}}({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 24, grid_stride = false, scratch = 12288>}
// CHECK-LABEL: func.func @of_all
// CHECK: mprt.launch @kernel_attention_grad_bias_{{[0-9]+}} ins
// CHECK-NEXT: return

// CODE-LABEL: gpu.func @kernel_attention_grad_bias_{{[0-9]+}}(
// CODE-SAME: workgroup(%{{.*}} : memref<36864xi8, #gpu.address_space<workgroup>> {llvm.align = 128 : i64})
// CODE: %{{.*}}:32 = scf.for
// CODE-COUNT-4: nvvm.cp.async.wait.group 0
// CODE: gpu.return
func.func @of_all(%q: memref<3x100x2x128xf16>, %l: memref<3x2x100x2xf32>, %b: memref<3x2x100x100xbf16>, %d: memref<3x2x100x100xf32>) {
  mprt.attention "attention_grad" scale = 0.25 ins(%q, %q, %q, %q, %q, %l, %b : memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x2x100x2xf32>, memref<3x2x100x100xbf16>) outs(%q, %q, %q, %d : memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x100x2x128xf16>, memref<3x2x100x100xf32>)
  return
}
