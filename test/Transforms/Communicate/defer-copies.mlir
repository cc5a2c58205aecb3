// A copy of a parameter that products read is made of the deferred update, not
// read; one that something else computes keeps the reduction in its step.
//
// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=1000" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-defer-reductions="max-bytes=1000" --mpcomm-verify-communication --mpcomm-verify-shardings -o /dev/null
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[N:[^:]*]]: tensor<4xbf16> {mpcomm.copy_of = "w"
// CHECK-SAME: %[[V:[^:]*]]: tensor<4xf32>
// CHECK-SAME: %[[M:[^:]*]]: tensor<4xbf16> {mpcomm.copy_of = "v"
// CHECK: %[[U:.*]] = mpcomm.sgd_update %[[W]]
// CHECK: %[[NOW:.*]] = arith.select %{{.*}}, %[[U]], %[[W]]
// CHECK: %[[COPY:.*]] = arith.truncf %[[NOW]] : tensor<4xf32> to tensor<4xbf16>
// CHECK: arith.mulf %{{.*}}, %[[COPY]]
// CHECK-NOT: %[[N]]
// CHECK: %[[V1:.*]] = mpcomm.sgd_update %[[V]]
// CHECK: return %[[NOW]], %[[COPY]], %[[V1]]

// CHECK-LABEL: func.func @apply_pending(
// CHECK: %[[NOW:.*]] = arith.select
// CHECK: %[[COPY:.*]] = arith.truncf %[[NOW]]
// CHECK: return %[[NOW]], %[[COPY]], %{{.*}} : tensor<4xf32>, tensor<4xbf16>, tensor<f32>

mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %n: tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16", mpcomm.copy_of = "w", mpcomm.donated = 1 : i64},
    %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 2 : i64},
    %m: tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.bf16", mpcomm.copy_of = "v", mpcomm.donated = 3 : i64},
    %x: tensor<4xbf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<4xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v.bf16"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %a = arith.mulf %x, %n : tensor<4xbf16>
  %b = arith.mulf %a, %m : tensor<4xbf16>
  %g = arith.extf %a : tensor<4xbf16> to tensor<4xf32>
  %h = arith.extf %b : tensor<4xbf16> to tensor<4xf32>
  %own = mpcomm.reduce sum %h, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %loss = mpcomm.all_reduce(%own) on @mesh axes ["dp"] mean : tensor<f32>
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
  %s = mpcomm.all_reduce(%h) on @mesh axes ["dp"] mean : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %n1 = arith.truncf %w1 : tensor<4xf32> to tensor<4xbf16>
  %v1 = mpcomm.sgd_update %v, %s, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %sum = arith.addf %v1, %v1 : tensor<4xf32>
  %m1 = arith.truncf %sum : tensor<4xf32> to tensor<4xbf16>
  return %w1, %n1, %v1, %m1, %loss : tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xbf16>, tensor<f32>
}
