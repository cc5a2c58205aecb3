// The factor goes through a loop of the backward pass: on its carries, of which zeros have
// it anyway, and on the slices that the body adds to what has it. The gates have none.
// Integers that the loop carries have none either; where they depend on gradients, the
// factor comes after the loop.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-scale-loss="mode=static scale=4" | FileCheck %s

// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %v: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %h, %y = mpcomm.scan @cell trips = 8 carries(%zero : tensor<2x4xf32>) slices(%x : tensor<8x2x4xf32>)
      captured(%w : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<8x2x4xf32>
  %vs = mpcomm.broadcast_in_dim %v, dims = [2] : (tensor<4xf32>) -> tensor<8x2x4xf32>
  %m = arith.mulf %y, %vs : tensor<8x2x4xf32>
  %loss = mpcomm.reduce sum %m, dims = [0, 1, 2] : (tensor<8x2x4xf32>) -> tensor<f32>
  // CHECK: %[[Y:.*]]:2 = mpcomm.scan @cell
  // CHECK: %[[SCALE:.*]] = mpcomm.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<8x2x4xf32>
  // CHECK: %[[DY:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
  // CHECK: mpcomm.scan @cell_grad trips = 8 reverse carries(%{{.*}} : tensor<2x4xf32>) slices(%[[DY]], %[[Y]]#1 :
  // CHECK-NOT: arith.mulf
  // CHECK: mpcomm.sgd_update
  %one = arith.constant dense<1.0> : tensor<8x2x4xf32>
  %dy = arith.mulf %one, %vs : tensor<8x2x4xf32>
  %dh, %d = mpcomm.scan @cell_grad trips = 8 reverse carries(%zero : tensor<2x4xf32>)
      slices(%dy, %y : tensor<8x2x4xf32>, tensor<8x2x4xf32>) captured(%w : tensor<4x4xf32>)
      -> tensor<2x4xf32>, tensor<8x2x4xf32>
  %gw = mpcomm.dot_general %y, %d, contracting_dims = [0, 1] x [0, 1] : (tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> tensor<4x4xf32>
  %gv = mpcomm.reduce sum %d, dims = [0, 1] : (tensor<8x2x4xf32>) -> tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %gw, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %v1 = mpcomm.sgd_update %v, %gv, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<4x4xf32>, tensor<4xf32>
}
func.func private @cell(%h: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = mpcomm.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = arith.addf %x, %0 : tensor<2x4xf32>
  %2 = math.tanh %1 : tensor<2x4xf32>
  return %2, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @cell_grad(%dh: tensor<2x4xf32>, %dy: tensor<2x4xf32>, %y: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %sum = arith.addf %dh, %dy : tensor<2x4xf32>
  %yy = arith.mulf %y, %y : tensor<2x4xf32>
  %local = arith.subf %one, %yy : tensor<2x4xf32>
  %d = arith.mulf %sum, %local : tensor<2x4xf32>
  %0 = mpcomm.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0, %d : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// The body reads the gates by a counter, whose last value is state of the step.

// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %n: tensor<i32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "n"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<i32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "n"}) {
  %ws = mpcomm.broadcast_in_dim %w, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %m = arith.mulf %x, %ws : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %m, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  // CHECK: %[[SCALE:.*]] = mpcomm.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  // CHECK: %[[DY:.*]] = arith.mulf %{{.*}}, %[[SCALE]]
  // CHECK: %[[LOOP:.*]]:3 = mpcomm.scan @counted_grad trips = 8 reverse carries(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<i32>) slices(%[[DY]] :
  // CHECK-NOT: arith.mulf
  // CHECK: mpcomm.sgd_update
  // CHECK: return %{{.*}}, %{{.*}}, %[[LOOP]]#1 :
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<8x4xf32>
  %dy = arith.mulf %one, %x : tensor<8x4xf32>
  %g, %last, %d = mpcomm.scan @counted_grad trips = 8 reverse carries(%zero, %n : tensor<4xf32>, tensor<i32>)
      slices(%dy : tensor<8x4xf32>) captured(%x : tensor<8x4xf32>) -> tensor<4xf32>, tensor<i32>, tensor<8x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1, %last : tensor<f32>, tensor<4xf32>, tensor<i32>
}
func.func private @counted_grad(%g: tensor<4xf32>, %i: tensor<i32>, %dy: tensor<4xf32>, %x: tensor<8x4xf32>) -> (tensor<4xf32>, tensor<i32>, tensor<4xf32>) {
  %one = arith.constant dense<1> : tensor<i32>
  %row = mpcomm.gather %x, %i : (tensor<8x4xf32>, tensor<i32>) -> tensor<4xf32>
  %sum = arith.addf %g, %dy : tensor<4xf32>
  %d = arith.mulf %sum, %row : tensor<4xf32>
  %next = arith.addi %i, %one : tensor<i32>
  return %sum, %next, %d : tensor<4xf32>, tensor<i32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK: %[[LOOP:.*]]:2 = mpcomm.scan @counts_gradients {{.*}} slices(%[[X]] :
// CHECK: arith.mulf %[[LOOP]]#0, %{{.*}} : tensor<4xf32>
// CHECK: mpcomm.unscale
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %ws = mpcomm.broadcast_in_dim %w, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %m = arith.mulf %x, %ws : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %m, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %count = arith.constant dense<0> : tensor<4xi32>
  %g, %last = mpcomm.scan @counts_gradients trips = 8 carries(%zero, %count : tensor<4xf32>, tensor<4xi32>)
      slices(%x : tensor<8x4xf32>) -> tensor<4xf32>, tensor<4xi32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1 : tensor<f32>, tensor<4xf32>
}
func.func private @counts_gradients(%g: tensor<4xf32>, %n: tensor<4xi32>, %d: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %positive = arith.cmpf ogt, %d, %zero : tensor<4xf32>
  %one = arith.extui %positive : tensor<4xi1> to tensor<4xi32>
  %next = arith.addi %n, %one : tensor<4xi32>
  %sum = arith.addf %g, %d : tensor<4xf32>
  return %sum, %next : tensor<4xf32>, tensor<4xi32>
}
