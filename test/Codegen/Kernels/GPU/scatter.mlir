// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=processors=8 | FileCheck %s

// Slices combined by index: blocks own slices of the target, and combine in the order of
// the indices, so that sums have the same bits each time: no atomics.

func.func private @add(%dy: tensor<4096x256xf32>, %ids: tensor<4096xi64>, %to: tensor<512x256xf32>) -> tensor<512x256xf32>
    attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%to : tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp ins(%dy, %ids : tensor<4096x256xf32>, tensor<4096xi64>) outs(%f : tensor<512x256xf32>)
  return %r : tensor<512x256xf32>
}

func.func @f(%dy: memref<4096x256xf32>, %ids: memref<4096xi64>, %to: memref<512x256xf32>) {
  // CHECK: mprt.launch @add ins
  // CHECK-NEXT: mprt.launch @add_slices ins
  mprt.launch @add ins(%dy, %ids : memref<4096x256xf32>, memref<4096xi64>) outs(%to : memref<512x256xf32>)
  return
}

// A thread for each row goes through its few indices.
func.func private @each_row(%u: tensor<65536x2xi8>, %i: tensor<65536x2xi32>, %d: tensor<65536x10xi8>) -> tensor<65536x10xi8>
    attributes {mpcomm.kernel} {
  %r = mprt.scatter "replace" dim = 1 batch_dims = 1 ins(%u, %i : tensor<65536x2xi8>, tensor<65536x2xi32>) outs(%d : tensor<65536x10xi8>)
  return %r : tensor<65536x10xi8>
}

func.func @g(%u: memref<65536x2xi8>, %i: memref<65536x2xi32>, %d: memref<65536x10xi8>) {
  // CHECK: mprt.launch @each_row ins
  // CHECK-NEXT: return
  mprt.launch @each_row ins(%u, %i : memref<65536x2xi8>, memref<65536x2xi32>) outs(%d : memref<65536x10xi8>)
  return
}

// CHECK-LABEL: gpu.func @add(
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK-LABEL: gpu.func @add_slices(
// CHECK: scf.for
// CHECK-COUNT-8: nvvm.vote.sync ballot
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: scf.while
// CHECK: math.cttz
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<1048576xf32>, vector<4xf32>
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK-NOT: atomic
// CHECK-LABEL: gpu.func @each_row(
// CHECK-NOT: vote
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.store
