// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --canonicalize --cse --mpcomm-form-kernels --split-input-file | FileCheck %s
//
// What runs in one kernel.

// A product, its bias, the residual and the layer norm: one pass over memory.
// The product's buffer takes the sum.
// CHECK-LABEL: func.func @residual_norm
//       CHECK: %[[P:.+]] = linalg.contract
//       CHECK: %[[K:.+]]:4 = mprt.launch @kernel_layer_norm_0 ins(%{{[^:]+}} : tensor<16xf32>, tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>)
//  CHECK-SAME: outs(%[[P]],
//   CHECK-NOT: mprt.launch
//       CHECK: return
//       CHECK: func.func private @kernel_layer_norm_0({{.*}} attributes {mpcomm.kernel}
func.func @residual_norm(%x: tensor<4x8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>, %g: tensor<16xf32>, %h: tensor<16xf32>)
    -> (tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
  %1 = mpcomm.broadcast_in_dim %b, dims = [2] : (tensor<16xf32>) -> tensor<4x8x16xf32>
  %2 = arith.addf %0, %1 : tensor<4x8x16xf32>
  %3 = arith.addf %x, %2 : tensor<4x8x16xf32>
  %y, %m, %r = mpcomm.layer_norm %3, %g, %h, eps = 1.0e-05 : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  return %y, %3, %m, %r : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// The mask is inverted within the kernel, which repeats over batch and heads.
// CHECK-LABEL: func.func @masked_softmax
//       CHECK: mprt.launch @kernel_softmax_0 ins(%arg1, %arg0 : tensor<8x8xi1>, tensor<2x4x8x8xf32>)
//   CHECK-NOT: mprt.launch
func.func @masked_softmax(%x: tensor<2x4x8x8xf32>, %mask: tensor<8x8xi1>) -> tensor<2x4x8x8xf32> {
  %true = arith.constant dense<true> : tensor<8x8xi1>
  %inf = arith.constant dense<0xFF800000> : tensor<2x4x8x8xf32>
  %scale = arith.constant dense<0.5> : tensor<2x4x8x8xf32>
  %not = arith.xori %mask, %true : tensor<8x8xi1>
  %0 = mpcomm.broadcast_in_dim %not, dims = [2, 3] : (tensor<8x8xi1>) -> tensor<2x4x8x8xi1>
  %1 = arith.mulf %x, %scale : tensor<2x4x8x8xf32>
  %2 = arith.select %0, %inf, %1 : tensor<2x4x8x8xi1>, tensor<2x4x8x8xf32>
  %3 = mpcomm.softmax %2, dim = 3 : tensor<2x4x8x8xf32>
  return %3 : tensor<2x4x8x8xf32>
}

// -----

// What is expensive is not repeated for every row.
// CHECK-LABEL: func.func @expensive_row
//       CHECK: %[[E:.+]] = mprt.launch @kernel_exp_0 ins(%arg1 : tensor<16xf32>)
//       CHECK: mprt.launch @kernel_mulf_0 ins(%arg0, %[[E]] :
func.func @expensive_row(%x: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %0 = math.exp %b : tensor<16xf32>
  %1 = mpcomm.broadcast_in_dim %0, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %2 = arith.mulf %x, %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// The gradient and its column sums, though a product is in between.
// CHECK-LABEL: func.func @gelu_grad
//       CHECK: %[[K:.+]]:2 = mprt.launch @kernel_gelu_grad_0
//       CHECK: linalg.contract {{.*}} ins(%[[K]]#0,
//   CHECK-NOT: mprt.launch
//       CHECK: return %{{.+}}, %[[K]]#1
func.func @gelu_grad(%dy: tensor<8x16xf32>, %x: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> (tensor<8x4xf32>, tensor<16xf32>) {
  %dx = mpcomm.gelu_grad %dy, %x : tensor<8x16xf32>
  %0 = mpcomm.dot_general %dx, %w, contracting_dims = [1] x [1] : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>
  %db = mpcomm.reduce sum %dx, dims = [0] : (tensor<8x16xf32>) -> tensor<16xf32>
  return %0, %db : tensor<8x4xf32>, tensor<16xf32>
}

// -----

// Layer norm's gradient, the residual's gradient added to it.
// CHECK-LABEL: func.func @layer_norm_grad
//       CHECK: mprt.launch @kernel_layer_norm_grad_0
//   CHECK-NOT: mprt.launch
func.func @layer_norm_grad(%dy: tensor<8x16xf32>, %x: tensor<8x16xf32>, %m: tensor<8xf32>, %r: tensor<8xf32>, %g: tensor<16xf32>, %res: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %dx, %dg, %db = mpcomm.layer_norm_grad %dy, %x, %m, %r, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  %0 = arith.addf %res, %dx : tensor<8x16xf32>
  return %0, %dg, %db : tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

// A sum over rows is complete only at the end: what reads it comes after.
// CHECK-LABEL: func.func @sum_then_read
//       CHECK: %[[S:.+]] = mprt.launch @kernel_sum_0
//       CHECK: mprt.launch @kernel_addf_0 ins(%arg0, %[[S]] :
func.func @sum_then_read(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = mpcomm.reduce sum %x, dims = [0] : (tensor<8x16xf32>) -> tensor<16xf32>
  %1 = mpcomm.broadcast_in_dim %0, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %2 = arith.addf %x, %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// Through a product there is a path from the first op to the last one: they
// cannot run at once.
// CHECK-LABEL: func.func @no_cycle
//       CHECK: %[[A:.+]] = mprt.launch @kernel_exp_0
//       CHECK: %[[P:.+]] = linalg.contract {{.*}} ins(%[[A]],
//       CHECK: mprt.launch @kernel_addf_0 ins(%[[A]] : {{.*}} outs(%[[P]] :
func.func @no_cycle(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.exp %x : tensor<8x8xf32>
  %1 = mpcomm.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = arith.addf %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// A tensor that is read in another order than it is written in is no
// intermediate.
// CHECK-LABEL: func.func @transposed
//       CHECK: mprt.launch @kernel_exp_0
//       CHECK: mprt.launch @kernel_transpose_0
func.func @transposed(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = math.exp %x : tensor<8x8xf32>
  %1 = mpcomm.transpose %0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// The loss and its gradient; what both divide by comes before.
// CHECK-LABEL: func.func @loss
//       CHECK: %[[N:.+]] = mprt.launch @kernel_cross_entropy_0 ins(%arg1 : tensor<8xi64>)
//       CHECK: mprt.launch @kernel_cross_entropy_1 ins(%arg0, %arg1, %[[N]], %arg2 :
//   CHECK-NOT: mprt.launch
func.func @loss(%x: tensor<8x16xf32>, %y: tensor<8xi64>, %one: tensor<f32>) -> (tensor<f32>, tensor<8x16xf32>) {
  %l, %lse = mpcomm.cross_entropy %x, %y mean ignore_index = -100 : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %d = mpcomm.cross_entropy_grad %one, %x, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<8x16xf32>
  return %l, %d : tensor<f32>, tensor<8x16xf32>
}

// -----

// Indices of both tables are read in the kernel that adds the rows.
// CHECK-LABEL: func.func @embeddings
//       CHECK: mprt.launch @kernel_gather_0 ins(%arg2, %arg0, %arg1 : tensor<4x8xi64>, tensor<32x16xf32>, tensor<8x16xf32>)
//   CHECK-NOT: mprt.launch
func.func @embeddings(%t: tensor<32x16xf32>, %p: tensor<8x16xf32>, %ids: tensor<4x8xi64>) -> tensor<4x8x16xf32> {
  %i = mpcomm.iota dim = 0 : tensor<8xi64>
  %0 = mpcomm.gather %t, %ids : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>
  %1 = mpcomm.broadcast_in_dim %p, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<4x8x16xf32>
  %2 = arith.addf %0, %1 : tensor<4x8x16xf32>
  return %2 : tensor<4x8x16xf32>
}

// -----

// CHECK-LABEL: func.func @gather_grad
//       CHECK: mprt.launch @kernel_gather_grad_0 ins(%arg0, %arg1 : tensor<6x4xf32>, tensor<6xi64>) outs(%{{.+}} : tensor<3x4xf32>)
//       CHECK: func.func private @kernel_gather_grad_0({{.*}} attributes {mpcomm.kernel}
//       CHECK: %[[FILL:.*]] = linalg.fill
//       CHECK: mprt.scatter "sum" dim = 0 batch_dims = 0 clamp ins(%arg0, %arg1 : tensor<6x4xf32>, tensor<6xi64>) outs(%[[FILL]] : tensor<3x4xf32>)
func.func @gather_grad(%dy: tensor<6x4xf32>, %ids: tensor<6xi64>) -> tensor<3x4xf32> {
  %0 = mpcomm.gather_grad %dy, %ids : (tensor<6x4xf32>, tensor<6xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A scatter writes over its operand, which is copied later on where it is still needed.
// Constants are in the kernel.
// CHECK-LABEL: func.func @scatter
//       CHECK: mprt.launch @kernel_scatter_0 ins(%arg1 : tensor<6xi64>) outs(%arg0 : tensor<9x4xf32>)
//       CHECK: func.func private @kernel_scatter_0(%arg0: tensor<6xi64>, %arg1: tensor<9x4xf32>)
//       CHECK: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<6x4xf32>
//       CHECK: mprt.scatter "replace" dim = 0 batch_dims = 0 ins(%[[ONE]], %arg0 : tensor<6x4xf32>, tensor<6xi64>) outs(%arg1 : tensor<9x4xf32>)
func.func @scatter(%x: tensor<9x4xf32>, %ids: tensor<6xi64>) -> tensor<9x4xf32> {
  %one = arith.constant dense<1.0> : tensor<6x4xf32>
  %0 = mpcomm.scatter %x, %ids, %one : (tensor<9x4xf32>, tensor<6xi64>, tensor<6x4xf32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}
