// RUN: mpcomm-opt %s --mpcomm-lower --mpcomm-program -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-lower --mpcomm-generate-kernels --canonicalize | FileCheck %s

// Tensors without elements go the whole way. A sum of nothing is zero, a
// maximum of nothing the least number.

// CHECK-LABEL: func.func @sums
func.func @sums(%x: tensor<0xf32>, %y: tensor<4x0xf32>, %z: tensor<0x4xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<0xf32>) {
  %0 = mpcomm.reduce sum %x, dims = [0] : (tensor<0xf32>) -> tensor<f32>
  %1 = mpcomm.reduce max %y, dims = [1] : (tensor<4x0xf32>) -> tensor<4xf32>
  %2 = mpcomm.reduce sum %z, dims = [0] : (tensor<0x4xf32>) -> tensor<4xf32>
  %3 = mpcomm.reduce sum %z, dims = [1] : (tensor<0x4xf32>) -> tensor<0xf32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<0xf32>
}

// CHECK-LABEL: func.func @elements
func.func @elements(%x: tensor<4x0x2xf32>, %b: tensor<2xf32>) -> tensor<4x0x2xf32> {
  %0 = mpcomm.broadcast_in_dim %b, dims = [2] : (tensor<2xf32>) -> tensor<4x0x2xf32>
  %1 = arith.addf %x, %0 : tensor<4x0x2xf32>
  %2 = mpcomm.gelu %1 : tensor<4x0x2xf32>
  return %2 : tensor<4x0x2xf32>
}

// A window that begins where the operand ends.
// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<8x8xf32>, %e: tensor<8x0xf32>, %v: tensor<f32>) -> (tensor<0x8xf32>, tensor<8x8xf32>, tensor<8x3xf32>) {
  %0 = mpcomm.slice %x, starts = [8, 0], limits = [8, 8], strides = [1, 1] : (tensor<8x8xf32>) -> tensor<0x8xf32>
  %1 = mpcomm.concatenate %x, %e, dim = 1 : (tensor<8x8xf32>, tensor<8x0xf32>) -> tensor<8x8xf32>
  %2 = mpcomm.pad %e, %v, low = [0, 3], high = [0, 0], interior = [0, 0] : (tensor<8x0xf32>, tensor<f32>) -> tensor<8x3xf32>
  return %0, %1, %2 : tensor<0x8xf32>, tensor<8x8xf32>, tensor<8x3xf32>
}

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<4x0xf32>, %b: tensor<0x3xf32>, %c: tensor<3x4xf32>) -> (tensor<4x3xf32>, tensor<0x4xf32>) {
  %0 = mpcomm.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x0xf32>, tensor<0x3xf32>) -> tensor<4x3xf32>
  %1 = mpcomm.dot_general %b, %c, contracting_dims = [1] x [0] : (tensor<0x3xf32>, tensor<3x4xf32>) -> tensor<0x4xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<0x4xf32>
}

// CHECK-LABEL: func.func @embedding
func.func @embedding(%dy: tensor<0x4xf32>, %ids: tensor<0xi64>, %dz: tensor<3x0xf32>, %ids3: tensor<3xi64>) -> (tensor<5x4xf32>, tensor<5x0xf32>) {
  %0 = mpcomm.gather_grad %dy, %ids : (tensor<0x4xf32>, tensor<0xi64>) -> tensor<5x4xf32>
  %1 = mpcomm.gather_grad %dz, %ids3 : (tensor<3x0xf32>, tensor<3xi64>) -> tensor<5x0xf32>
  return %0, %1 : tensor<5x4xf32>, tensor<5x0xf32>
}

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<4x0xf32>, %y: tensor<0x4xf32>) -> (tensor<4x0xf32>, tensor<0x4xf32>) {
  %0 = mpcomm.softmax %x, dim = 1 : tensor<4x0xf32>
  %1 = mpcomm.softmax %y, dim = 1 : tensor<0x4xf32>
  return %0, %1 : tensor<4x0xf32>, tensor<0x4xf32>
}

// CHECK-LABEL: func.func private @kernel_sum_0(
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: memref.store %[[ZERO]]
// CHECK-LABEL: func.func private @kernel_max_0(
// CHECK-DAG: %[[LEAST:.*]] = arith.constant dense<0xFF800000> : vector<4xf32>
// CHECK: vector.store %[[LEAST]], %{{.*}}
