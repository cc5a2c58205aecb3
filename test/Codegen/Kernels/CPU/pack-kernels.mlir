// RUN: mpcomm-opt %s --mpcomm-pack-kernels --split-input-file --verify-diagnostics | FileCheck %s

// The wrapper loads one pointer an operand.

// CHECK-LABEL: llvm.func internal @k.packed
// CHECK: %[[P0:.*]] = llvm.getelementptr %arg0[0]
// CHECK: %[[A:.*]] = llvm.load %[[P0]]
// CHECK: %[[P1:.*]] = llvm.getelementptr %arg0[1]
// CHECK: %[[B:.*]] = llvm.load %[[P1]]
// CHECK: llvm.call @k(%[[A]], %[[B]])
llvm.func @k(%a: !llvm.ptr, %b: !llvm.ptr) {
  llvm.return
}
llvm.func @k.packed(!llvm.ptr)

// -----

// expected-error @below {{expects a kernel 'missing' that is lowered to an llvm.func}}
llvm.func @missing.packed(!llvm.ptr)
