// REQUIRES: ptxas
// RUN: mpcomm-opt %s --pass-pipeline='builtin.module(mpcomm-graph{target=cuda mesh=dp:1},mpcomm-lower{target=cuda},mpcomm-to-cuda)' \
// RUN:   --remarks-filter=mpcomm-assemble-kernels -o /dev/null 2>&1 | FileCheck %s --implicit-check-not='spill_bytes={{[1-9]}}'

// Kernels of gathers and scatters are machine code of three chips, without spills.

// CHECK-DAG: chip=sm_80, kernel=kernel_gather_0_batch,
// CHECK-DAG: chip=sm_90, kernel=kernel_gather_0_batch,
// CHECK-DAG: chip=sm_100, kernel=kernel_gather_0_batch,
// CHECK-DAG: chip=sm_80, kernel=kernel_gather_grad_0_slices,
// CHECK-DAG: chip=sm_90, kernel=kernel_scatter_0{{[_a-z]*}},
// The scatter of single elements is launched together with the gather.
// CHECK-DAG: chip=sm_100, kernel=kernel_gather_0_sums_batch,

func.func @train_step(
    %w: tensor<512x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %ids: tensor<4096xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "ids"},
    %x: tensor<4096x64xi8> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %i: tensor<4096x3xi32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "i"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<512x256xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4096x64xi8> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "y"},
        tensor<4096xi32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "z"}) {
  %rows = mpcomm.gather %w, %ids : (tensor<512x256xf32>, tensor<4096xi64>) -> tensor<4096x256xf32>
  %loss = mpcomm.reduce sum %rows, dims = [0, 1] : (tensor<4096x256xf32>) -> tensor<f32>
  %dw = mpcomm.gather_grad %rows, %ids padding_idx = 3 : (tensor<4096x256xf32>, tensor<4096xi64>) -> tensor<512x256xf32>
  %new = mpcomm.sgd_update %w, %dw, %lr, weight_decay = 0.0 : (tensor<512x256xf32>, tensor<512x256xf32>, tensor<f32>) -> tensor<512x256xf32>
  // A thread for each row, and single elements that blocks search for.
  %picked = mpcomm.gather %x, %i dim = 1 batch_dims = 1 : (tensor<4096x64xi8>, tensor<4096x3xi32>) -> tensor<4096x3xi8>
  %y = mpcomm.scatter %x, %i, %picked reduction max dim = 1 batch_dims = 1 : (tensor<4096x64xi8>, tensor<4096x3xi32>, tensor<4096x3xi8>) -> tensor<4096x64xi8>
  %zero = arith.constant dense<0> : tensor<4096xi32>
  %z = mpcomm.scatter %zero, %i, %i reduction sum : (tensor<4096xi32>, tensor<4096x3xi32>, tensor<4096x3xi32>) -> tensor<4096xi32>
  return %loss, %new, %y, %z : tensor<f32>, tensor<512x256xf32>, tensor<4096x64xi8>, tensor<4096xi32>
}
