// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels --remarks-filter=".*" --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
//
// Equal groups share a kernel; launches know where their ops come from.

// gelu and gelu are equal; gelu by tanh is not, nor is another shape.
//   CHECK-LABEL: func.func @equal
// CHECK-COUNT-2: mprt.launch @kernel_gelu_0
//         CHECK: mprt.launch @kernel_gelu_1
//         CHECK: mprt.launch @kernel_gelu_2
//
// Reads 4 x 8 f32 and writes as many, four times (the last 4 x 4): all of it is
// work of single ops, nothing is saved.
// REMARK: Function=equal | Bytes=896, BytesSaved=0, Function=equal, Launches=4, Ops=4
func.func @equal(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4x8xf32>, %d: tensor<4x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>) {
  %0 = mpcomm.gelu %a : tensor<4x8xf32>
  %1 = mpcomm.gelu %b : tensor<4x8xf32>
  %2 = mpcomm.gelu %c approximate tanh : tensor<4x8xf32>
  %3 = mpcomm.gelu %d : tensor<4x4xf32>
  return %0, %1, %2, %3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x4xf32>
}

//   CHECK-LABEL: func.func @located
//         CHECK: mprt.launch @kernel_mulf_addf_0 {{.*}} loc(fused["first", "second"])
//
// The product of 8 f32 is neither written (32 bytes) nor read again (32).
// REMARK: Function=located | Bytes=96, BytesSaved=64, Function=located, Launches=1, Ops=2
// REMARK: Kernels=4
func.func @located(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %a, %a : tensor<8xf32> loc("first")
  %1 = arith.addf %0, %b : tensor<8xf32> loc("second")
  return %1 : tensor<8xf32>
}
