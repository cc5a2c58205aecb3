// Of an update that is a region, momentum is what it makes of a state and the
// gradient with constant factors; other state that it makes of the gradient
// stays, and an element for which that is 0 gathers no momentum.
//
// RUN: mpcomm-opt %s --split-input-file --mpcomm-average-momentum --verify-diagnostics | FileCheck %s
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: (%[[P:.*]]: tensor<4xf32> {{.*}}, %[[M:.*]]: tensor<4xf32> {{.*}}, %[[V:.*]]: tensor<4xf32> {{.*}}, %[[LR:[a-z0-9]+]]: tensor<f32> {{.*}}, %[[X:[a-z0-9]+]]: tensor<4xf32> {mpcomm.name = "x"
// CHECK: %[[B:.*]] = arith.constant dense<7.500000e-01>
// CHECK: %[[BM:.*]] = arith.mulf %[[M]], %[[B]]
// CHECK: %[[G:.*]] = arith.constant dense<2.500000e-01>
// CHECK: %[[GX:.*]] = arith.mulf %[[X]], %[[G]]
// CHECK: %[[S:.*]] = arith.addf %[[BM]], %[[GX]]
// CHECK: %[[D:.*]] = arith.constant dense<1.250000e-01>
// CHECK: %[[DP:.*]] = arith.mulf %[[P]], %[[D]]
// CHECK: %[[C:.*]] = arith.addf %[[S]], %[[DP]]
// CHECK: mpcomm.update %[[P]], %[[C]], %[[M]], %[[V]], %[[LR]] {optimizer = "rule with averaged momentum"}
// CHECK: ^bb0(%[[Q:.*]]: tensor<4xf32>, %[[N:.*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>, %{{.*}}: tensor<f32>):
// CHECK: %[[IS:.*]] = arith.cmpf une, %[[W]], %
// CHECK: %[[USED:.*]] = arith.select %[[IS]], %[[N]], %
// CHECK: %[[R:.*]] = math.sqrt %[[W]]
// CHECK: arith.divf %[[USED]], %[[R]]
// CHECK: mpcomm.yield %{{.*}}, %[[USED]], %[[W]]
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %m: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m", mpcomm.donated = 1 : i64},
    %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.v", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.v"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %p1, %m1, %v1 = mpcomm.update %p, %x, %m, %v, %lr {optimizer = "rule"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%q: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<4xf32>, %w: tensor<4xf32>, %r: tensor<f32>):
    // With weight decay in the gradient: 0.75 n + 0.25 (g + 0.5 q).
    %half = arith.constant dense<0.5> : tensor<4xf32>
    %quarter = arith.constant dense<0.25> : tensor<4xf32>
    %four = arith.constant dense<4.0> : tensor<4xf32>
    %decay = arith.mulf %half, %q : tensor<4xf32>
    %all = arith.addf %g, %decay : tensor<4xf32>
    %part = arith.divf %n, %four : tensor<4xf32>
    %less = arith.subf %n, %part : tensor<4xf32>
    %new = arith.mulf %quarter, %all : tensor<4xf32>
    %n1 = arith.addf %less, %new : tensor<4xf32>
    %square = arith.mulf %all, %all : tensor<4xf32>
    %w1 = arith.addf %w, %square : tensor<4xf32>
    %root = math.sqrt %w1 : tensor<4xf32>
    %change = arith.divf %n1, %root : tensor<4xf32>
    %rate = mpcomm.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %step = arith.mulf %rate, %change : tensor<4xf32>
    %q1 = arith.subf %q, %step : tensor<4xf32>
    mpcomm.yield %q1, %n1, %w1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %p1, %m1, %v1, %l : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// -----

// The gradient itself moves the parameter.

func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %m: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m", mpcomm.donated = 1 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{reads the gradient beside momentum, expected an optimizer that goes by momentum alone}}
  %p1, %m1 = mpcomm.update %p, %x, %m {optimizer = "rule"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%q: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<4xf32>):
    %half = arith.constant dense<0.5> : tensor<4xf32>
    %old = arith.mulf %half, %n : tensor<4xf32>
    %n1 = arith.addf %old, %g : tensor<4xf32>
    %both = arith.addf %n1, %g : tensor<4xf32>
    %q1 = arith.subf %q, %both : tensor<4xf32>
    mpcomm.yield %q1, %n1 : tensor<4xf32>, tensor<4xf32>
  }
  return %p1, %m1, %l : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// -----

// Nothing that it keeps is momentum.

// expected-error @below {{has no update with momentum, expected one by mpcomm.adamw_update, mpcomm.sgd_update or mpcomm.update}}
func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %m: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m", mpcomm.donated = 1 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %p1, %m1 = mpcomm.update %p, %x, %m {optimizer = "rule"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%q: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<4xf32>):
    %square = arith.mulf %g, %g : tensor<4xf32>
    %n1 = arith.addf %n, %square : tensor<4xf32>
    %root = math.sqrt %n1 : tensor<4xf32>
    %change = arith.divf %g, %root : tensor<4xf32>
    %q1 = arith.subf %q, %change : tensor<4xf32>
    mpcomm.yield %q1, %n1 : tensor<4xf32>, tensor<4xf32>
  }
  return %p1, %m1, %l : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// -----

// The last gradient is not momentum, but as linear.

func.func @train_step(
    %p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p", mpcomm.donated = 0 : i64},
    %m: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m", mpcomm.donated = 1 : i64},
    %o: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.o", mpcomm.donated = 2 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "p"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.m"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "p.o"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %l = mpcomm.reduce sum %x, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // expected-error @below {{has state #1 that is linear in the gradient beside momentum, state #0, expected one such state}}
  %p1, %m1, %o1 = mpcomm.update %p, %x, %m, %o {optimizer = "rule"}
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%q: tensor<4xf32>, %g: tensor<4xf32>, %n: tensor<4xf32>, %last: tensor<4xf32>):
    %half = arith.constant dense<0.5> : tensor<4xf32>
    %old = arith.mulf %half, %n : tensor<4xf32>
    %n1 = arith.addf %old, %g : tensor<4xf32>
    %more = arith.subf %g, %last : tensor<4xf32>
    %both = arith.addf %n1, %more : tensor<4xf32>
    %q1 = arith.subf %q, %both : tensor<4xf32>
    mpcomm.yield %q1, %n1, %g : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %p1, %m1, %o1, %l : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
