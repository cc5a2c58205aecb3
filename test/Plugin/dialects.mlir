// Stock mlir-opt, given the plugin, knows the dialects and prints them in their
// own syntax.

// RUN: mlir-opt %s --load-dialect-plugin=%plugin | FileCheck %s
// RUN: mlir-opt %s --load-dialect-plugin=%plugin --mlir-print-op-generic \
// RUN:   | mlir-opt --load-dialect-plugin=%plugin | FileCheck %s
// RUN: mlir-opt --load-dialect-plugin=%plugin --show-dialects \
// RUN:   | FileCheck %s --check-prefix=DIALECTS
// RUN: not mlir-opt %s 2>&1 | FileCheck %s --check-prefix=STOCK

// DIALECTS: mpcomm
// DIALECTS: mprt

// Without the plugin it does not know them: the test is not about nothing.
// STOCK: error:{{.*}}mpcomm

// CHECK: mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x4xf32>, %b: memref<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: mpcomm.softmax %{{.*}}, dim = 1 : tensor<8x4xf32>
  %0 = mpcomm.softmax %x, dim = 1 : tensor<8x4xf32>
  // CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<8x4xf32>
  %1 = mpcomm.all_reduce(%0) on @mesh axes ["dp"] mean : tensor<8x4xf32>
  // CHECK: mprt.zero %{{.*}} : memref<8x4xf32>
  mprt.zero %b : memref<8x4xf32>
  return %1 : tensor<8x4xf32>
}
