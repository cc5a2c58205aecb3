// What ranks exchange is a gradient where it has been summed over the ranks that
// it came from: not before, and not over another dimension.

// RUN: not mpcomm-opt %s --mpcomm-verify-shardings --split-input-file -o /dev/null 2>&1 | FileCheck %s --implicit-check-not="sgd_update' op"

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %g = mpcomm.reduce sum %e, dims = [0] : (tensor<2x2xf32>) -> tensor<2xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %g = mpcomm.reduce sum %e, dims = [1] : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK: error: 'mpcomm.sgd_update' op has a gradient, operand #1, which is exchanged along dimension 0 along 'dp', expected it reduced over them
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}

// -----

// The greatest of what came is no sum.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %g = mpcomm.reduce max %e, dims = [0] : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK: error: 'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp', expected it reduced over them
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}

// -----

// Elements of what came may be treated in different ways, ranks may not.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %i = mpcomm.iota dim = 1 : tensor<2x2xi32>
  %c = arith.sitofp %i : tensor<2x2xi32> to tensor<2x2xf32>
  %m = arith.mulf %e, %c : tensor<2x2xf32>
  %g = mpcomm.reduce sum %m, dims = [0] : (tensor<2x2xf32>) -> tensor<2xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %i = mpcomm.iota dim = 0 : tensor<2x2xi32>
  %c = arith.sitofp %i : tensor<2x2xi32> to tensor<2x2xf32>
  %m = arith.mulf %e, %c : tensor<2x2xf32>
  %g = mpcomm.reduce sum %m, dims = [0] : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK: error: 'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp', expected it reduced over them
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}

// -----

// Of a vector of the whole it would have to be the block.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64, mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>},
    %x: tensor<2x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %w0: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.global_type = tensor<4xf32>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>}) {
  %e = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = mpcomm.broadcast_in_dim %w0, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %m = arith.mulf %e, %c : tensor<2x2xf32>
  %g = mpcomm.reduce sum %m, dims = [0] : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK: error: 'mpcomm.sgd_update' op has a gradient, operand #1, which may differ between ranks along 'dp', expected it reduced over them
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %w1 : tensor<2xf32>
}
