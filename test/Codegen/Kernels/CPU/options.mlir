// RUN: not mpcomm-opt %s --mpcomm-generate-kernels=vector-bits=96 2>&1 | FileCheck %s
// RUN: not mpcomm-opt %s --mpcomm-generate-kernels=vector-bits=16 2>&1 | FileCheck %s
// RUN: not mpcomm-opt %s --mpcomm-generate-kernels=vector-bits=0 2>&1 | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-kernels=vector-bits=32

// Lanes are halved until one is left.
// CHECK: error: expected 'vector-bits' to be a power of two in [32, 4096], got {{96|16|0}}
module {}
