// What is lost of gradients that are multiplied by a loss scale is kept without
// it, and as it was where the step is not taken. A scale of 1, with which
// gradients are only checked, is none, and a constant may stand below.
//
// RUN: mpcomm-opt %s --split-input-file --mpcomm-compress-collectives="type=i4 block=4 min-bytes=0 error-feedback=true" --verify-diagnostics | FileCheck %s
// RUN: mpcomm-opt %mpcomm_src_root/docs/examples/linear.mlir --mpcomm-graph="mesh=dp:2 wire=i4 wire-min-bytes=0 check-gradients=true" -o /dev/null
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[SCALE:[^:]*]]: tensor<f32> {mpcomm.donated = 1
// CHECK-SAME: %[[RES:[^:]*]]: tensor<8xf32> {{{[^}]*}}mpcomm.name = "w.residual"
// CHECK: %[[ALL:.*]] = mpcomm.broadcast_in_dim %[[SCALE]]
// CHECK: %[[LEFT:.*]] = arith.mulf %[[RES]], %[[ALL]]
// CHECK: %[[SHARES:.*]] = mpcomm.reshape %[[LEFT]]
// CHECK: arith.addf %{{.*}}, %[[SHARES]]
// CHECK: mpcomm.all_to_all
// CHECK: %[[BACK:.*]] = mpcomm.broadcast_in_dim %[[SCALE]]
// CHECK: %[[LOST:.*]] = arith.divf %{{.*}}, %[[BACK]]
// CHECK: %{{.*}}, %[[FOUND:.*]] = mpcomm.unscale
// CHECK: %[[IS:.*]] = arith.cmpf ogt, %[[FOUND]], %
// CHECK: %[[SKIP:.*]] = mpcomm.broadcast_in_dim %[[IS]]
// CHECK: %[[KEPT:.*]] = arith.select %[[SKIP]], %[[RES]], %[[LOST]]
// CHECK: return {{.*}}, %[[KEPT]]
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale", mpcomm.donated = 1 : i64},
    %n: tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale.good_steps", mpcomm.donated = 2 : i64},
    %h: tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale.hysteresis", mpcomm.donated = 3 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale"},
        tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale.good_steps"},
        tensor<i32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "loss_scale.hysteresis"}) {
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<8xf32>
  %u, %found = mpcomm.unscale(%g) by %s : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %u, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %s1, %n1, %h1 = mpcomm.update_loss_scale %s, %n, %h, %found, growth = 2.0, backoff = 0.5, interval = 2000, min = 1.0, max = 1024.0, hysteresis = 1
      : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>)
  return %w1, %s1, %n1, %h1 : tensor<8xf32>, tensor<f32>, tensor<i32>, tensor<i32>
}

// -----

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[RES:[^:]*]]: tensor<8xf32> {{{[^}]*}}mpcomm.name = "w.residual"
// CHECK: %[[TWO:.*]] = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK: %[[ALL:.*]] = mpcomm.broadcast_in_dim %[[TWO]]
// CHECK: arith.mulf %[[RES]], %[[ALL]]
// CHECK-NOT: arith.select
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<8xf32>
  %two = arith.constant dense<2.0> : tensor<f32>
  %u, %found = mpcomm.unscale(%g) by %two : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %u, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<8xf32>
  %twice = arith.addf %lr, %lr : tensor<f32>
  // expected-error @below {{has a scale that is computed, expected an argument or a constant, by which what is lost is kept}}
  %u, %found = mpcomm.unscale(%g) by %twice : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %u, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "s"},
    %t: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "t"},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<8xf32>
  %u, %found = mpcomm.unscale(%g) by %s : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  // expected-error @below {{has another scale than an op before, expected one, by which what is lost is kept}}
  %v, %other = mpcomm.unscale(%u) by %t : (tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<f32>)
  %w1 = mpcomm.sgd_update %w, %v, %lr, weight_decay = 0.0 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}
