// Loops print as they are read.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s

// CHECK-LABEL: func.func private @cell
func.func private @cell(%h: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0 = mpcomm.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = arith.addf %0, %x : tensor<2x4xf32>
  return %1, %0 : tensor<2x4xf32>, tensor<2x4xf32>
}

func.func private @counter(%n: tensor<i32>) -> tensor<i32> {
  return %n : tensor<i32>
}

func.func private @elementwise(%x: tensor<f32>) -> tensor<f32> {
  %0 = math.exp %x : tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @all
// CHECK-SAME: %[[H:.*]]: tensor<2x4xf32>, %[[X:.*]]: tensor<512x2x4xf32>, %[[W:.*]]: tensor<4x4xf32>
func.func @all(%h: tensor<2x4xf32>, %x: tensor<512x2x4xf32>, %w: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<512x2x4xf32>) {
  // CHECK: mpcomm.scan @cell trips = 512 reverse carries(%[[H]] : tensor<2x4xf32>) slices(%[[X]] : tensor<512x2x4xf32>) captured(%[[W]] : tensor<4x4xf32>) -> tensor<2x4xf32>, tensor<512x2x4xf32>
  %0:2 = mpcomm.scan @cell trips = 512 reverse carries(%h : tensor<2x4xf32>)
      slices(%x : tensor<512x2x4xf32>) captured(%w : tensor<4x4xf32>)
      -> tensor<2x4xf32>, tensor<512x2x4xf32>
  return %0#0, %0#1 : tensor<2x4xf32>, tensor<512x2x4xf32>
}

// CHECK-LABEL: func.func @carries_alone
func.func @carries_alone(%n: tensor<i32>) -> tensor<i32> {
  // CHECK: mpcomm.scan @counter trips = 3 carries(%{{.*}} : tensor<i32>) -> tensor<i32>
  %0 = mpcomm.scan @counter trips = 3 carries(%n : tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// CHECK-LABEL: func.func @slices_alone
func.func @slices_alone(%x: tensor<7xf32>) -> tensor<7xf32> {
  // CHECK: mpcomm.scan @elementwise trips = 7 slices(%{{.*}} : tensor<7xf32>) -> tensor<7xf32>
  %0 = mpcomm.scan @elementwise trips = 7 slices(%x : tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
