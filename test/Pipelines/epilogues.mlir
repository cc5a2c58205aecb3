// RUN: mpcomm-opt %s --mpcomm-to-cuda --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefixes=CHECK,FORM
// RUN: mpcomm-opt %s --mpcomm-to-cuda=numerics=exact --dump-pass-pipeline 2>&1 | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-program --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=HOST

// A product with an epilogue rounds less often: not where all bits are to stay. The
// host has none.

// FORM: mpcomm-form-epilogues
// CHECK-NOT: mpcomm-form-epilogues
// CHECK: mpcomm-generate-gpu-kernels
// CHECK: mpcomm-batch-launches
// HOST-NOT: mpcomm-form-epilogues
module {}
