// Order, running totals and random numbers: what is printed is what was parsed; and
// what is in order already is not ordered.

// RUN: mpcomm-opt %s | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --mlir-print-op-generic | mpcomm-opt | FileCheck %s
// RUN: mpcomm-opt %s --canonicalize --cse | FileCheck %s --check-prefix=FOLD

// CHECK-LABEL: func.func @top_k
func.func @top_k(%x: tensor<8x64xf32>, %i: tensor<5xi8>) -> (tensor<8x2xf32>, tensor<8x2xi64>, tensor<5xi8>, tensor<5xi32>) {
  // CHECK: mpcomm.top_k %{{.*}}, dim = 1, k = 2 largest : (tensor<8x64xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
  %v, %at = mpcomm.top_k %x, dim = 1, k = 2 largest : (tensor<8x64xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
  // CHECK: mpcomm.top_k %{{.*}}, dim = 0, k = 5 : (tensor<5xi8>) -> (tensor<5xi8>, tensor<5xi32>)
  %w, %to = mpcomm.top_k %i, dim = 0, k = 5 : (tensor<5xi8>) -> (tensor<5xi8>, tensor<5xi32>)
  return %v, %at, %w, %to : tensor<8x2xf32>, tensor<8x2xi64>, tensor<5xi8>, tensor<5xi32>
}

// CHECK-LABEL: func.func @cumulative
func.func @cumulative(%x: tensor<8x64xf32>, %i: tensor<5xi1>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<5xi1>) {
  // CHECK: mpcomm.cumulative sum %{{.*}}, dim = 1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %0 = mpcomm.cumulative sum %x, dim = 1 : (tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK: mpcomm.cumulative max %{{.*}}, dim = 0 reverse : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = mpcomm.cumulative max %x, dim = 0 reverse : (tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK: mpcomm.cumulative prod
  %2 = mpcomm.cumulative prod %i, dim = 0 : (tensor<5xi1>) -> tensor<5xi1>
  return %0, %1, %2 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<5xi1>
}

// CHECK-LABEL: func.func @rng
// FOLD-LABEL: func.func @rng
func.func @rng(%s: tensor<2xi32>) -> (tensor<8x64xbf16>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  // CHECK: mpcomm.rng uniform %{{.*}}, id = 3 : (tensor<2xi32>) -> tensor<8x64xbf16>
  %0 = mpcomm.rng uniform %s, id = 3 : (tensor<2xi32>) -> tensor<8x64xbf16>
  // CHECK: mpcomm.rng normal %{{.*}}, id = 4294967295 : (tensor<2xi32>) -> tensor<3xf64>
  %1 = mpcomm.rng normal %s, id = 4294967295 : (tensor<2xi32>) -> tensor<3xf64>
  // One id, the same numbers; another id, others.
  // FOLD: %[[N:.*]] = mpcomm.rng normal %{{.*}}, id = 4294967295
  // FOLD: %[[M:.*]] = mpcomm.rng normal %{{.*}}, id = 1
  // FOLD: return %{{.*}}, %[[N]], %[[N]], %[[M]]
  %2 = mpcomm.rng normal %s, id = 4294967295 : (tensor<2xi32>) -> tensor<3xf64>
  %3 = mpcomm.rng normal %s, id = 1 : (tensor<2xi32>) -> tensor<3xf64>
  return %0, %1, %2, %3 : tensor<8x64xbf16>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// FOLD-LABEL: func.func @one_element
// FOLD-SAME: %[[X:.*]]: tensor<8x1x4xf32>
func.func @one_element(%x: tensor<8x1x4xf32>) -> (tensor<8x1x4xf32>, tensor<8x1x4xi64>, tensor<8x1x4xf32>) {
  // FOLD: %[[I:.*]] = arith.constant dense<0> : tensor<8x1x4xi64>
  %v, %i = mpcomm.top_k %x, dim = 1, k = 1 largest : (tensor<8x1x4xf32>) -> (tensor<8x1x4xf32>, tensor<8x1x4xi64>)
  %s = mpcomm.cumulative prod %x, dim = 1 reverse : (tensor<8x1x4xf32>) -> tensor<8x1x4xf32>
  // FOLD: return %[[X]], %[[I]], %[[X]]
  return %v, %i, %s : tensor<8x1x4xf32>, tensor<8x1x4xi64>, tensor<8x1x4xf32>
}

// CHECK-LABEL: func.func @empty
func.func @empty(%x: tensor<0x3xf32>) -> (tensor<0x2xf32>, tensor<0x2xi64>, tensor<0x3xf32>) {
  // CHECK: mpcomm.top_k
  %v, %i = mpcomm.top_k %x, dim = 1, k = 2 : (tensor<0x3xf32>) -> (tensor<0x2xf32>, tensor<0x2xi64>)
  %s = mpcomm.cumulative sum %x, dim = 0 : (tensor<0x3xf32>) -> tensor<0x3xf32>
  return %v, %i, %s : tensor<0x2xf32>, tensor<0x2xi64>, tensor<0x3xf32>
}
