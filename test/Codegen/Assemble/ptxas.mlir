// REQUIRES: ptxas
// RUN: mpcomm-opt %s --mpcomm-assemble-kernels --remarks-filter=mpcomm-assemble-kernels -o %t.mlir 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=IMAGES < %t.mlir

// Machine code for three chips, and PTX of the last for newer ones.
// IMAGES: @mpcomm.image.0("\7FELF
// IMAGES: @mpcomm.image.1("\7FELF
// IMAGES: @mpcomm.image.2("\7FELF
// IMAGES: @mpcomm.image.3("{{.*}}.target sm_100

// CHECK: KernelResources{{.*}}Function=add{{.*}}chip=sm_80, kernel=add, registers={{[1-9][0-9]*}}, shared_bytes=0, spill_bytes=0, stack_bytes=0
// CHECK: chip=sm_90
// CHECK: chip=sm_100

gpu.module @mpcomm_kernels {
  llvm.func @add(%a: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    %0 = llvm.load %a : !llvm.ptr -> f32
    %1 = llvm.fadd %0, %0 : f32
    llvm.store %1, %a : f32, !llvm.ptr
    llvm.return
  }
}
