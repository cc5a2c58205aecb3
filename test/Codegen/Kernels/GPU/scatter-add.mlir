// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=processors=8 | FileCheck %s

// Rows added to rows: each block owns rows of the table, and adds in the order of
// the ids, so that sums have the same bits each time: no atomics.

func.func private @add(%dy: tensor<4096x256xf32>, %ids: tensor<4096xi64>, %to: tensor<512x256xf32>) -> tensor<512x256xf32>
    attributes {mpcomm.kernel, mpcomm.scatter_add = -1 : i64} {
  return %to : tensor<512x256xf32>
}

func.func @f(%dy: memref<4096x256xf32>, %ids: memref<4096xi64>, %to: memref<512x256xf32>) {
  // CHECK: mprt.launch @add ins
  // CHECK-NEXT: mprt.launch @add_rows ins
  mprt.launch @add ins(%dy, %ids : memref<4096x256xf32>, memref<4096xi64>) outs(%to : memref<512x256xf32>)
  return
}

// CHECK-LABEL: gpu.func @add(
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK-LABEL: gpu.func @add_rows(
// CHECK: scf.for
// CHECK-COUNT-8: nvvm.vote.sync ballot
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: scf.while
// CHECK: math.cttz
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<1048576xf32>, vector<4xf32>
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<131072xf32>, vector<4xf32>
// CHECK-NOT: atomic
