// RUN: mpcomm-opt %s --mpcomm-compile | FileCheck %s

// A constant tensor is data of the program, which comes before all that
// the compiler adds.

// CHECK-DAG: llvm.mlir.global internal constant @mpcomm.data.{{.*}}(dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>)
// CHECK-DAG: llvm.mlir.global external constant @mpcomm_manifest
// CHECK-DAG: llvm.func @mpcomm_train_step
func.func @train_step(%x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"}) -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = arith.mulf %x, %c : tensor<4xf32>
  %1 = mpcomm.reduce sum %0, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
