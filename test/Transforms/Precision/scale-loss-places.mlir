// Where the factor comes in when no constant gradient of the loss is left.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-scale-loss="mode=static scale=4" | FileCheck %s

// A mean squared error whose gradient was folded into a constant, below a tanh:
// of the two factors of the product, the one that all gradients depend on.
// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %h = arith.mulf %w, %x : tensor<4xf32>
  %t = math.tanh %h : tensor<4xf32>
  %out = arith.mulf %t, %v : tensor<4xf32>
  %square = arith.mulf %out, %out : tensor<4xf32>
  %loss = mpcomm.reduce sum %square, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[S:.*]] = arith.constant dense<4.0{{.*}}> : tensor<f32>
  // The derivative of tanh is not scaled, though it too is of the backward pass.
  // CHECK: %[[T:.*]] = math.tanh
  // CHECK: %[[TT:.*]] = arith.mulf %[[T]], %[[T]] : tensor<4xf32>
  // CHECK-NEXT: %[[LOCAL:.*]] = arith.subf %{{.*}}, %[[TT]]
  %tt = arith.mulf %t, %t : tensor<4xf32>
  %local = arith.subf %one, %tt : tensor<4xf32>
  // CHECK: %[[D:.*]] = arith.mulf %{{.*}}, %cst
  // CHECK: %[[B:.*]] = mpcomm.broadcast_in_dim %[[S]], dims = []
  // CHECK: %[[SD:.*]] = arith.mulf %[[D]], %[[B]]
  %d = arith.mulf %out, %half : tensor<4xf32>
  // CHECK: arith.mulf %[[SD]], %[[T]]
  %gv = arith.mulf %d, %t : tensor<4xf32>
  // CHECK: %[[DT:.*]] = arith.mulf %[[SD]], %
  // CHECK: arith.mulf %[[DT]], %[[LOCAL]]
  %dt = arith.mulf %d, %v : tensor<4xf32>
  %dh = arith.mulf %dt, %local : tensor<4xf32>
  %gw = arith.mulf %dh, %x : tensor<4xf32>
  // CHECK-NOT: mpcomm.broadcast_in_dim
  %w1 = mpcomm.sgd_update %w, %gw, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v1 = mpcomm.sgd_update %v, %gv, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A sum of two losses, whose gradients have seeds of their own; one gradient is
// zero, one comes from outside.
// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %z: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "z"},
    %o: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "o"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %mask: tensor<2xi1> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "mask"},
    %outside: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "outside"},
    %y: tensor<4xi64> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "z"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "o"}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %quarter = arith.constant dense<0.25> : tensor<f32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %loss0, %lse = mpcomm.cross_entropy %w, %y mean ignore_index = -100 : (tensor<4x2xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %loss1 = arith.mulf %loss0, %quarter : tensor<f32>
  %loss = arith.addf %loss0, %loss1 : tensor<f32>
  // CHECK: %[[S:.*]] = arith.constant dense<4.0{{.*}}> : tensor<f32>
  // CHECK: %[[B:.*]] = mpcomm.broadcast_in_dim %[[S]], dims = [] : (tensor<f32>) -> tensor<2xf32>
  // CHECK: %[[O:.*]] = arith.mulf %{{.*}}, %[[B]] : tensor<2xf32>
  // CHECK-DAG: mpcomm.cross_entropy_grad %[[S]],
  // CHECK-DAG: %[[QS:.*]] = arith.mulf %{{.*}}, %[[S]] : tensor<f32>
  // CHECK-DAG: mpcomm.cross_entropy_grad %[[QS]],
  %d0 = mpcomm.cross_entropy_grad %one, %w, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  %d1 = mpcomm.cross_entropy_grad %quarter, %w, %y, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
  // A choice by a mask that was broadcast.
  %sum = arith.addf %d0, %d1 : tensor<4x2xf32>
  %none = arith.constant dense<0.0> : tensor<4x2xf32>
  %which = mpcomm.broadcast_in_dim %mask, dims = [1] : (tensor<2xi1>) -> tensor<4x2xi1>
  %d = arith.select %which, %sum, %none : tensor<4x2xi1>, tensor<4x2xf32>
  // CHECK: mpcomm.unscale(%{{.*}}, %{{.*}}, %[[O]])
  %w1 = mpcomm.sgd_update %w, %d, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %z1 = mpcomm.sgd_update %z, %zero, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %o1 = mpcomm.sgd_update %o, %outside, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %w1, %z1, %o1 : tensor<f32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// The gradient of x / |x| (as of normalize): two derivatives of one layer, of
// which the norm's takes the gradient of x / |x| that the other path scales too.
// The product of norm and derivative is not scaled again.
// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %four = arith.constant dense<4.0> : tensor<4xf32>
  %h = arith.mulf %w, %x : tensor<4xf32>
  %square = arith.mulf %h, %h : tensor<4xf32>
  %squares = mpcomm.reduce sum %square, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %norm = math.sqrt %squares : tensor<f32>
  %norms = mpcomm.broadcast_in_dim %norm, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %out = arith.divf %h, %norms : tensor<4xf32>
  %loss = mpcomm.reduce sum %out, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[D:.*]] = arith.divf %cst{{.*}}, %cst
  // CHECK: %[[SD:.*]] = arith.mulf %[[D]], %
  %d = arith.divf %one, %four : tensor<4xf32>
  // CHECK: %[[DH:.*]] = arith.divf %[[SD]], %[[NORMS:.*]] : tensor<4xf32>
  %dh = arith.divf %d, %norms : tensor<4xf32>
  // CHECK: %[[QUOTIENT:.*]] = arith.divf %{{.*}}, %[[NORMS]]
  %quotient = arith.divf %out, %norms : tensor<4xf32>
  // CHECK: %[[DN:.*]] = arith.mulf %[[SD]], %[[QUOTIENT]]
  // CHECK: %[[SUM:.*]] = mpcomm.reduce sum %[[DN]]
  %dn = arith.mulf %d, %quotient : tensor<4xf32>
  %sum = mpcomm.reduce sum %dn, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %sums = mpcomm.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<4xf32>
  // CHECK: %[[DIRECTION:.*]] = arith.divf %{{.*}}, %[[NORMS]]
  // CHECK: %[[ALONG:.*]] = arith.mulf %{{.*}}, %[[DIRECTION]]
  // CHECK-NEXT: arith.subf %[[DH]], %[[ALONG]]
  %direction = arith.divf %h, %norms : tensor<4xf32>
  %along = arith.mulf %sums, %direction : tensor<4xf32>
  %dx = arith.subf %dh, %along : tensor<4xf32>
  %gw = arith.mulf %dx, %x : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %gw, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1 : tensor<f32>, tensor<4xf32>
}
