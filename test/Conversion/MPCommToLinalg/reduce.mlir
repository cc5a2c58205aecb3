// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg=rows-at-a-time=8 --split-input-file | FileCheck %s --check-prefix=GPU
// RUN: not mpcomm-opt %s --convert-mpcomm-to-linalg=rows-at-a-time=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: cannot add 0 rows at a time, expected at least 1

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

// -----

// Eight times as many where eight are added side by side, if all rows are.
// CHECK-LABEL: func.func @side_by_side
// CHECK: arith.addf %{{.*}} : f64
// CHECK: arith.addf %{{.*}} : f64
// CHECK: arith.addf %{{.*}} : f64
// GPU-LABEL: func.func @side_by_side
// GPU: arith.addf %{{.*}} : f32
// GPU: arith.addf %{{.*}} : f64
// GPU: arith.addf %{{.*}} : f64
func.func @side_by_side(%x: tensor<64x512x8xf32>, %y: tensor<64x513x8xf32>, %z: tensor<4097x2x8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<2x8xf32>) {
  %s = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<64x512x8xf32>) -> tensor<8xf32>
  %t = mpcomm.reduce sum %y, dims = [0, 1] : (tensor<64x513x8xf32>) -> tensor<8xf32>
  %u = mpcomm.reduce sum %z, dims = [0] : (tensor<4097x2x8xf32>) -> tensor<2x8xf32>
  return %s, %t, %u : tensor<8xf32>, tensor<8xf32>, tensor<2x8xf32>
}

// -----

// A dimension of one element keeps no rows apart.
// CHECK-LABEL: func.func @one_of_them
// CHECK: arith.addf %{{.*}} : f64
// GPU-LABEL: func.func @one_of_them
// GPU-NOT: f64
func.func @one_of_them(%x: tensor<1x20000x16xf32>) -> tensor<1x16xf32> {
  %s = mpcomm.reduce sum %x, dims = [1] : (tensor<1x20000x16xf32>) -> tensor<1x16xf32>
  return %s : tensor<1x16xf32>
}
