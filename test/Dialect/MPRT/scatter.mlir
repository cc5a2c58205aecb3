// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// The custom form survives a round trip, and each constraint is checked.

// CHECK-LABEL: func.func @round_trip
func.func @round_trip(%u: tensor<32x64xf32>, %i: tensor<32xi64>, %x: tensor<10x64xf32>, %v: tensor<8x2xi8>, %j: tensor<8x2xi32>, %y: tensor<8x10xi8>) -> (tensor<10x64xf32>, tensor<8x10xi8>) {
  // CHECK: mprt.scatter "sum" dim = 0 batch_dims = 0 clamp skipped = 3 ins(%{{.*}}, %{{.*}} : tensor<32x64xf32>, tensor<32xi64>) outs(%{{.*}} : tensor<10x64xf32>)
  %0 = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp skipped = 3 ins(%u, %i : tensor<32x64xf32>, tensor<32xi64>) outs(%x : tensor<10x64xf32>)
  // CHECK: mprt.scatter "replace" dim = 1 batch_dims = 1 ins(%{{.*}}, %{{.*}} : tensor<8x2xi8>, tensor<8x2xi32>) outs(%{{.*}} : tensor<8x10xi8>)
  %1 = mprt.scatter "replace" dim = 1 batch_dims = 1 ins(%v, %j : tensor<8x2xi8>, tensor<8x2xi32>) outs(%y : tensor<8x10xi8>)
  return %0, %1 : tensor<10x64xf32>, tensor<8x10xi8>
}

// -----

func.func @scatter_c1(%u: tensor<3x4xf32>, %i: tensor<3xi64>, %x: tensor<8x4xf32>) {
  // expected-error @below {{does not know the kind 'mean'}}
  %0 = mprt.scatter "mean" dim = 0 batch_dims = 0 ins(%u, %i : tensor<3x4xf32>, tensor<3xi64>) outs(%x : tensor<8x4xf32>)
  return
}

// -----

func.func @scatter_c2(%u: tensor<3x4xf32>, %i: tensor<3xi64>, %x: tensor<8x4xf32>) {
  // expected-error @below {{expects updates of shape 'tensor<8x3xf32>', got 'tensor<3x4xf32>'}}
  %0 = mprt.scatter "sum" dim = 1 batch_dims = 0 ins(%u, %i : tensor<3x4xf32>, tensor<3xi64>) outs(%x : tensor<8x4xf32>)
  return
}

// -----

func.func @scatter_c2_empty(%u: tensor<3x4xf32>, %i: tensor<3xi64>, %x: tensor<0x4xf32>) {
  // expected-error @below {{expects 'dim' to be a dimension of 'tensor<0x4xf32>' that is not empty, got 0}}
  %0 = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp ins(%u, %i : tensor<3x4xf32>, tensor<3xi64>) outs(%x : tensor<0x4xf32>)
  return
}

// -----

func.func @scatter_c3(%u: tensor<3x4xf64>, %i: tensor<3xi64>, %x: tensor<8x4xf32>) {
  // expected-error @below {{expects one element type, got 'f32' and 'f64'}}
  %0 = mprt.scatter "sum" dim = 0 batch_dims = 0 ins(%u, %i : tensor<3x4xf64>, tensor<3xi64>) outs(%x : tensor<8x4xf32>)
  return
}

// -----

func.func @scatter_c4(%u: tensor<3x4xf32>, %i: tensor<3xi64>, %x: tensor<8x4xf32>) {
  // expected-error @below {{expects 'skipped' of at least 0, got -1}}
  %0 = mprt.scatter "sum" dim = 0 batch_dims = 0 skipped = -1 ins(%u, %i : tensor<3x4xf32>, tensor<3xi64>) outs(%x : tensor<8x4xf32>)
  return
}
