// A collective between ranks that run different functions stays as it is: the
// other function would have to change in the same way. Messages outside of
// functions are nobody's.

// RUN: mpcomm-opt %s --mpcomm-move-casts | FileCheck %s

mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @step on @mesh axes ["pp"] runs [@step.rank0, @step.rank1]

// CHECK-LABEL: func.func @step.rank0
func.func @step.rank0(%x: tensor<4xbf16>) -> tensor<8xf32> {
  // CHECK: %[[W:.*]] = arith.mulf
  // CHECK: mpcomm.all_gather(%[[W]]) {{.*}} : (tensor<4xf32>) -> tensor<8xf32>
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
  %m = arith.mulf %w, %two : tensor<4xf32>
  %r = mpcomm.all_gather(%m) on @mesh axes ["pp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func @step.rank1
func.func @step.rank1(%x: tensor<4xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mpcomm.all_gather(%arg0) {{.*}} : (tensor<4xf32>) -> tensor<8xf32>
  %r = mpcomm.all_gather(%x) on @mesh axes ["pp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK: mpcomm.recv {{.*}} : tensor<4xf32>
%v = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
%n = arith.truncf %v : tensor<4xf32> to tensor<4xbf16>
%o = arith.extf %n : tensor<4xbf16> to tensor<4xf32>
mpcomm.send(%o) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
