// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s

// In what type reductions add: f32, but f64 for sums of more than 4096 rows, one
// row after the other.

// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: f64
func.func @few_rows(%x: tensor<64x64x8xf32>) -> tensor<8xf32> {
  %s = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<64x64x8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @many_rows
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<8xf64>)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.addf %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
func.func @many_rows(%x: tensor<64x65x8xf32>) -> tensor<8xf32> {
  %s = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<64x65x8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @narrow
// CHECK: arith.addf %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to bf16
func.func @narrow(%x: tensor<4097x8xbf16>) -> tensor<8xbf16> {
  %s = mpcomm.reduce sum %x, dims = [0] : (tensor<4097x8xbf16>) -> tensor<8xbf16>
  return %s : tensor<8xbf16>
}

// -----

// Along a row, and over everything, several sums are taken at a time.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: f64
func.func @columns(%x: tensor<8x8192xf32>) -> (tensor<8xf32>, tensor<f32>) {
  %s = mpcomm.reduce sum %x, dims = [1] : (tensor<8x8192xf32>) -> tensor<8xf32>
  %t = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<8x8192xf32>) -> tensor<f32>
  return %s, %t : tensor<8xf32>, tensor<f32>
}

// -----

// What does not round, and what is no float.
// CHECK-LABEL: func.func @others
// CHECK-NOT: f64
func.func @others(%x: tensor<8192x8xf32>, %i: tensor<8192x8xi32>) -> (tensor<8xf32>, tensor<8xi32>) {
  %m = mpcomm.reduce max %x, dims = [0] : (tensor<8192x8xf32>) -> tensor<8xf32>
  %s = mpcomm.reduce sum %i, dims = [0] : (tensor<8192x8xi32>) -> tensor<8xi32>
  return %m, %s : tensor<8xf32>, tensor<8xi32>
}
