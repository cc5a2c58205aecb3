// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=processors=4 --mpcomm-batch-launches | FileCheck %s

// Sums over rows leave terms in scratch, which a second kernel adds up: joined, each
// launch has scratch of its own.

func.func private @sums(%x: tensor<4096x24xf32>, %d: tensor<24xf32>) -> tensor<24xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<24xf32>) -> tensor<24xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x24xf32>) outs(%f : tensor<24xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<24xf32>
  return %g : tensor<24xf32>
}

// CHECK: func.func private @sums_batch({{.*}}) attributes {{{.*}}#mprt.grid<threads = 256, blocks = 16, grid_stride = false, scratch = 1536>, mprt.moved_bytes = 788160
// CHECK-LABEL: func.func @f(
// CHECK-NEXT: mprt.launch @sums_batch ins(%arg0, %arg2 : {{.*}}) outs(%arg1, %arg3 :
// CHECK-NEXT: mprt.launch @sums_sums_batch ins(%arg0, %arg2 : {{.*}}) outs(%arg1, %arg3 :
// CHECK-NEXT: return
func.func @f(%x: memref<4096x24xf32>, %d: memref<24xf32>, %y: memref<4096x24xf32>, %e: memref<24xf32>) {
  mprt.launch @sums ins(%x : memref<4096x24xf32>) outs(%d : memref<24xf32>)
  mprt.launch @sums ins(%y : memref<4096x24xf32>) outs(%e : memref<24xf32>)
  return
}
// CHECK: gpu.func @sums_batch({{.*}}, %[[SCRATCH:arg4]]: memref<1536xi8>)
// CHECK: %[[AT:.*]]:3 = scf.index_switch
// CHECK: memref.view %[[SCRATCH]][%[[AT]]#2][] : memref<1536xi8> to memref<768xi8>
