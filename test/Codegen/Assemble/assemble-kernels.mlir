// RUN: mpcomm-opt %s --mpcomm-assemble-kernels="chip=sm_90,sm_80 ptxas=none" | FileCheck %s --check-prefix=PTX
// RUN: mpcomm-opt %s --mpcomm-assemble-kernels="chip=sm_90a ptxas=none" | FileCheck %s --check-prefix=ONE
// RUN: not mpcomm-opt %s --mpcomm-assemble-kernels=chip=sm_60 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not mpcomm-opt %s --mpcomm-assemble-kernels=chip=fast 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not mpcomm-opt %s --mpcomm-assemble-kernels="chip=sm_90 ptxas=/nowhere/ptxas" 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not mpcomm-opt %s --mpcomm-assemble-kernels="chip=sm_90 ptx-directory=/nowhere" 2>&1 | FileCheck %s --check-prefix=FOLDER

// In the order of chips; each has PTX where there is no assembler.
// PTX: llvm.mlir.global internal constant @mpcomm.image.0("{{.*}}.target sm_80
// PTX-SAME: .visible .entry add(
// PTX: llvm.mlir.global internal constant @mpcomm.image.1("{{.*}}.target sm_90
// PTX: llvm.mlir.global external constant @mpcomm_images() {{.*}} : !llvm.array<3 x struct<(i32, i32, ptr, i64)>>
// PTX: llvm.mlir.constant(80 : i32)
// PTX: llvm.mlir.constant(90 : i32)
// PTX-NOT: gpu.module

// The code of sm_90a is for devices of that number.
// ONE: @mpcomm.image.0("{{.*}}.target sm_90a
// ONE: llvm.mlir.constant(90 : i32)

// OLD: cannot assemble for chip 'sm_60', expected sm_80, sm_90, sm_90a, sm_100 or another from sm_75 on
// NAME: cannot assemble for chip 'fast'
// NOWHERE: error: '/nowhere/ptxas' failed for sm_90: {{.+}}
// FOLDER: error: cannot write '/nowhere/sm_90.ptx': No such file or directory

gpu.module @mpcomm_kernels {
  llvm.func @add(%a: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr -> f32
    %1 = llvm.fadd %0, %0 : f32
    llvm.store %1, %a : f32, !llvm.ptr
    llvm.return
  }
}
