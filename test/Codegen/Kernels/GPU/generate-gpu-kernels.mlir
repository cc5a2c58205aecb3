// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// Elementwise kernels: 16 bytes of the narrowest operand at a time.

#id = affine_map<(i, j) -> (i, j)>
#col = affine_map<(i, j) -> (j)>
#row = affine_map<(i, j) -> (i)>

func.func private @narrow(%x: tensor<1024x768xf32>, %b: tensor<768xf32>, %d: tensor<1024x768xbf16>) -> tensor<1024x768xbf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<1024x768xf32>, tensor<768xf32>) outs(%d : tensor<1024x768xbf16>) {
  ^bb0(%a: f32, %c: f32, %o: bf16):
    %s = arith.addf %a, %c : f32
    %t = arith.truncf %s : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<1024x768xbf16>
  return %r : tensor<1024x768xbf16>
}
// 8 of bf16 are 16 bytes, and so many of f32 two accesses; 1024 * 768 / 8
// chunks are 384 blocks of 256.
// CHECK: func.func private @narrow{{.*}}#mprt.grid<threads = 256, blocks = 384, grid_stride = true, scratch = 0>
// Each element once: 1024 * 768 * (4 + 2) and 768 * 4 bytes.
// CHECK-SAME: mprt.moved_bytes = 4721664

// What is read where it is written moves twice; of a gathered row, what is taken:
// 2 * 8 * 16 * 4 bytes, and of the table 8 * 16 * 4, not 1000 * 16 * 4, and 8 ids.
func.func private @gathered(%ids: tensor<8xi64>, %table: tensor<1000x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<8xi64>) outs(%d : tensor<8x16xf32>) {
  ^bb0(%at: i64, %o: f32):
    %i = arith.index_cast %at : i64 to index
    %j = linalg.index 1 : index
    %x = tensor.extract %table[%i, %j] : tensor<1000x16xf32>
    %s = arith.addf %x, %o : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
// CHECK: func.func private @gathered{{.*}}mprt.moved_bytes = 1600

func.func private @odd(%x: tensor<1024x767xf32>, %b: tensor<1024xf32>, %d: tensor<1024x767xf32>) -> tensor<1024x767xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<1024x767xf32>, tensor<1024xf32>) outs(%d : tensor<1024x767xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<1024x767xf32>
  return %r : tensor<1024x767xf32>
}
// CHECK: func.func private @odd{{.*}}#mprt.grid<threads = 256, blocks = 767, grid_stride = true, scratch = 0>

func.func private @twice(%x: tensor<96xf32>, %d: tensor<96xf32>) -> tensor<96xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<96xf32>) outs(%d : tensor<96xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<96xf32>
  return %r : tensor<96xf32>
}
// One that begins at an address of 4 bytes is another kernel.
// CHECK: func.func private @twice(
// CHECK: func.func private @twice_0(

func.func @f(%x: memref<1024x768xf32>, %b: memref<768xf32>, %y: memref<1024x768xbf16>, %z: memref<1024x767xf32>, %c: memref<1024xf32>,
             %v: memref<97xf32>, %w: memref<96xf32>, %ids: memref<8xi64>, %table: memref<1000x16xf32>, %g: memref<8x16xf32>) {
  mprt.launch @gathered ins(%ids, %table : memref<8xi64>, memref<1000x16xf32>) outs(%g : memref<8x16xf32>)
  mprt.launch @narrow ins(%x, %b : memref<1024x768xf32>, memref<768xf32>) outs(%y : memref<1024x768xbf16>)
  mprt.launch @odd ins(%z, %c : memref<1024x767xf32>, memref<1024xf32>) outs(%z : memref<1024x767xf32>)
  mprt.launch @twice ins(%w : memref<96xf32>) outs(%w : memref<96xf32>)
  %part = memref.subview %v[1] [96] [1] : memref<97xf32> to memref<96xf32, strided<[1], offset: 1>>
  mprt.launch @twice ins(%part : memref<96xf32, strided<[1], offset: 1>>) outs(%w : memref<96xf32>)
  return
}

// CHECK: gpu.module @mpcomm_kernels
// CHECK-LABEL: gpu.func @narrow(
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 256, 1, 1>
// CHECK: scf.for %{{.*}} = %block_id_x to %{{.*}} step %grid_dim_x
// All chunks exist: nothing is asked.
// CHECK-NOT: scf.if
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<786432xf32>, vector<8xf32>
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<768xf32>, vector<8xf32>
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<786432xbf16>, vector<8xbf16>
// CHECK-NOT: gpu.barrier

// CHECK-LABEL: gpu.func @odd(
// CHECK: vector.load {{.*}} {alignment = 4 : i64} : memref<785408xf32>, vector<1xf32>

// CHECK-LABEL: gpu.func @twice(
// CHECK: %[[VALID:.*]] = arith.cmpi ult
// A thread beyond the end loads what the first does, and stores nothing.
// CHECK: arith.select %[[VALID]]
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<96xf32>, vector<4xf32>
// CHECK: scf.if %[[VALID]]
// CHECK: vector.store {{.*}} {alignment = 16 : i64}
// CHECK-LABEL: gpu.func @twice_0(
// CHECK: vector.load {{.*}} {alignment = 4 : i64} : memref<96xf32>, vector<4xf32>
