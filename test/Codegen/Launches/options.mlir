// RUN: not mpcomm-opt %s --mpcomm-batch-launches=processors=0 2>&1 | FileCheck %s --check-prefix=PROCESSORS
// RUN: not mpcomm-opt %s --mpcomm-batch-launches=parameter-bytes=8000 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: mpcomm-opt %s --mpcomm-batch-launches | FileCheck %s

// PROCESSORS: expected 'processors' in [1, 4096], got 0
// BYTES: expected 'parameter-bytes' in [8, 4096], got 8000

// A program without kernels of a GPU stays.
// CHECK: mprt.launch @k
// CHECK: mprt.launch @k
func.func private @k(memref<8xf32>) attributes {mpcomm.kernel}
func.func @f(%a: memref<8xf32>, %b: memref<8xf32>) {
  mprt.launch @k outs(%a : memref<8xf32>)
  mprt.launch @k outs(%b : memref<8xf32>)
  return
}
