// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=warpgroups=true | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=warpgroups=true | FileCheck %s --check-prefix=CODE
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=warpgroups=true --mpcomm-gpu-kernels-to-nvvm \
// RUN:   --mpcomm-assemble-kernels="chip=sm_90a ptxas=none" | FileCheck %s --check-prefix=PTX
// RUN: not mpcomm-opt %s --mpcomm-generate-gpu-kernels=warpgroups=true --mpcomm-gpu-kernels-to-nvvm \
// RUN:   --mpcomm-assemble-kernels=chip=sm_100 2>&1 | FileCheck %s --check-prefix=OTHER

// Attention of which warpgroups multiply whole tiles.

// OTHER: kernels of attention that multiply by warpgroups need sm_90a, got 'sm_100'

// Heads of 64 have what a kernel declares of shared memory; those of 128 ask for
// more when they are launched: 128 rows of q, and twice 64 of k and v, aligned.
// CHECK: func.func private @kernel_attention({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 128, blocks = 768, grid_stride = false, scratch = 0>}
// CHECK: func.func private @kernel_attention_0({{.*}}) attributes {mpcomm.kernel, mprt.grid = #mprt.grid<threads = 256, blocks = 768, grid_stride = false, scratch = 0>, mprt.shared_bytes = 99328 : i64}
// CHECK: func.func private @kernel_attention_grad_columns({{.*}}threads = 128, blocks = 1536, {{.*}}mprt.shared_bytes = 100352 : i64}
// CHECK: func.func private @kernel_attention_grad_rows({{.*}}threads = 128, blocks = 1536, {{.*}}mprt.shared_bytes = 99328 : i64}
// Elements that do not come 16 bytes at a time, and heads of other sizes, are
// left to the kernels of every chip.
// CHECK: func.func private @kernel_attention_1({{.*}}64xbf16, strided<[2560, 66, 66, 1]>>
// CHECK: func.func private @kernel_attention_2({{.*}}32xf16

// CODE-LABEL: gpu.func @kernel_attention(
// CODE-SAME: memref<49152xi8, #gpu.address_space<workgroup>> {llvm.align = 1024 : i64}
// CODE: scf.while
// CODE: nvvm.cp.async.wait.group 0
// CODE-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CODE-NEXT: gpu.barrier
// Two times 64 rows: both products of scores begin before either is waited for.
// CODE-COUNT-2: llvm.inline_asm has_side_effects "{{.*}} setp.ne.b32 adds, 0, 0;{{.*}}m64n64k16.f32.bf16.bf16 {{[{][^}]*}}}, $35, $39, yes, 1, 1, 0, 0;
// CODE: llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 1;"
// CODE-COUNT-32: llvm.nvvm.ex2
// CODE: setp.ne.b32 adds, 1, 0;{{.*}}m64n64k16.f32.bf16.bf16 {{[{][^}]*}}}, {$76, $77, $78, $79}, $83, yes, 1, 1, 1;
// CODE-NEXT: llvm.extractvalue
// CODE: "wgmma.wait_group.sync.aligned 1;"
// CODE: setp.ne.b32 adds, 1, 0;{{.*}}, 1, 1, 1;
// CODE: "wgmma.wait_group.sync.aligned 0;"
// CODE-NOT: nvvm.mma.sync
// CODE: gpu.return
// CODE-LABEL: gpu.func @kernel_attention_0(
// CODE: gpu.dynamic_shared_memory
// CODE: m64n128k16.f32.bf16.bf16 {{[{][^}]*}}}, {{[{][^}]*}}}, $147, yes, 1, 1, 1;
// CODE-LABEL: gpu.func @kernel_attention_1(
// CODE-NOT: wgmma
// CODE: nvvm.mma.sync
// CODE-NOT: wgmma
// CODE: gpu.return

// Eight rows are 1,024 bytes from the next eight; the swizzle is one of 128 bytes.
// PTX: .target sm_90a
// The left operand is a tile, and both are read along rows; or it is in registers,
// and the right one is read across.
// PTX: .extern .shared .align 16 .b8 __dynamic_shmem__0[];
// PTX: setp.ne.b32 adds, {{[01]}}, 0;
// PTX: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{[^}]*}}}, %rd{{[0-9]+}}, %rd{{[0-9]+}}, adds, 1, 1, 0, 0;
// PTX-SAME: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{[^}]*}}}, %rd{{[0-9]+}}, %rd{{[0-9]+}}, yes, 1, 1, 0, 0;
// PTX: wgmma.commit_group.sync.aligned
// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{[^}]*}}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd{{[0-9]+}}, adds, 1, 1, 1;

func.func @forward(%q: memref<8x1024x12x64xbf16>, %o: memref<8x1024x12x64xbf16>, %l: memref<8x12x1024xf32>,
    %wide: memref<8x1024x12x128xbf16>, %wideTo: memref<8x1024x12x128xbf16>,
    %apart: memref<1x32x1x64xbf16, strided<[2560, 66, 66, 1]>>, %apartTo: memref<1x32x1x64xbf16>, %few: memref<1x1x32xf32>,
    %small: memref<1x32x1x32xf16>) {
  mprt.attention "attention" scale = 0.125 ins(%q, %q, %q : memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>, memref<8x1024x12x64xbf16>) outs(%o, %l : memref<8x1024x12x64xbf16>, memref<8x12x1024xf32>)
  mprt.attention "attention" scale = 0.125 ins(%wide, %wide, %wide : memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>) outs(%wideTo, %l : memref<8x1024x12x128xbf16>, memref<8x12x1024xf32>)
  mprt.attention "attention_grad" scale = 0.125 ins(%wide, %wide, %wide, %wide, %wide, %l : memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x12x1024xf32>) outs(%wideTo, %wideTo, %wideTo : memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>, memref<8x1024x12x128xbf16>)
  mprt.attention "attention" scale = 0.125 ins(%apart, %apart, %apart : memref<1x32x1x64xbf16, strided<[2560, 66, 66, 1]>>, memref<1x32x1x64xbf16, strided<[2560, 66, 66, 1]>>, memref<1x32x1x64xbf16, strided<[2560, 66, 66, 1]>>) outs(%apartTo, %few : memref<1x32x1x64xbf16>, memref<1x1x32xf32>)
  mprt.attention "attention" scale = 0.125 ins(%small, %small, %small : memref<1x32x1x32xf16>, memref<1x32x1x32xf16>, memref<1x32x1x32xf16>) outs(%small, %few : memref<1x32x1x32xf16>, memref<1x1x32xf32>)
  return
}
