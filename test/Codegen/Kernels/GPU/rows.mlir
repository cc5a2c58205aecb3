// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels=launch-shared=180000 | FileCheck %s --check-prefix=SHARED
// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels --mpcomm-gpu-kernels-to-nvvm | FileCheck %s --check-prefix=NVVM

// Row kernels: a group of threads has a row, in registers from one pass to the
// next; memory is read once.

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A warp has two of 8192 rows of 256 at a time.
func.func private @warp(%x: tensor<8192x256xf32>, %d: tensor<8192x256xf32>) -> tensor<8192x256xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<8192xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<8192xf32>) -> tensor<8192xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8192x256xf32>) outs(%f : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<8192xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<8192x256xf32>, tensor<8192xf32>) outs(%d : tensor<8192x256xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %q = arith.mulf %a, %c : f32
    linalg.yield %q : f32
  } -> tensor<8192x256xf32>
  return %r : tensor<8192x256xf32>
}

// A block a row, of 32 rows: nothing else would fill a GPU.
func.func private @block(%x: tensor<32x4096xf32>, %d: tensor<32x4096xf32>) -> tensor<32x4096xf32> attributes {mpcomm.kernel} {
  %low = arith.constant 0xFF800000 : f32
  %i = tensor.empty() : tensor<32xf32>
  %f = linalg.fill ins(%low : f32) outs(%i : tensor<32xf32>) -> tensor<32xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<32x4096xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.maximumf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<32x4096xf32>, tensor<32xf32>) outs(%d : tensor<32x4096xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %q = arith.subf %a, %c : f32
    linalg.yield %q : f32
  } -> tensor<32x4096xf32>
  return %r : tensor<32x4096xf32>
}

// Eight lanes a row of 32 columns.
func.func private @lanes(%x: tensor<65536x32xf32>, %d: tensor<65536xf32>) -> tensor<65536xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<65536xf32>) -> tensor<65536xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<65536x32xf32>) outs(%f : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<65536xf32>
  return %s : tensor<65536xf32>
}

// More columns than registers: loops over them, with what a row has in front.
func.func private @long(%x: tensor<600x40000xf32>, %b: tensor<600xf32>, %d: tensor<600x40000xf32>) -> tensor<600x40000xf32> attributes {mpcomm.kernel} {
  %low = arith.constant 0xFF800000 : f32
  %i = tensor.empty() : tensor<600xf32>
  %f = linalg.fill ins(%low : f32) outs(%i : tensor<600xf32>) -> tensor<600xf32>
  %s = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %b : tensor<600x40000xf32>, tensor<600xf32>) outs(%f : tensor<600xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %q = arith.mulf %a, %c : f32
    %p = arith.maximumf %o, %q : f32
    linalg.yield %p : f32
  } -> tensor<600xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<600x40000xf32>, tensor<600xf32>) outs(%d : tensor<600x40000xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %q = arith.subf %a, %c : f32
    linalg.yield %q : f32
  } -> tensor<600x40000xf32>
  return %r : tensor<600x40000xf32>
}

// No columns: the result is what the sum starts with, and nothing is read.
func.func private @empty(%x: tensor<64x0xf32>, %d: tensor<64xf32>) -> tensor<64xf32> attributes {mpcomm.kernel} {
  %one = arith.constant 1.0 : f32
  %f = linalg.fill ins(%one : f32) outs(%d : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x0xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// A row's sum goes on from what is there, which all threads of the row read
// before one of them replaces it.
func.func private @goes_on(%x: tensor<32x4096xf32>, %t: tensor<32xf32>, %d: tensor<32x4096xf32>) -> (tensor<32xf32>, tensor<32x4096xf32>) attributes {mpcomm.kernel} {
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<32x4096xf32>) outs(%t : tensor<32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<32x4096xf32>, tensor<32xf32>) outs(%d : tensor<32x4096xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %q = arith.subf %a, %c : f32
    linalg.yield %q : f32
  } -> tensor<32x4096xf32>
  return %s, %r : tensor<32xf32>, tensor<32x4096xf32>
}

func.func @f(%a: memref<8192x256xf32>, %b: memref<32x4096xf32>, %c: memref<65536x32xf32>, %d: memref<65536xf32>,
             %l: memref<600x40000xf32>, %m: memref<600xf32>, %x: memref<64x0xf32>, %y: memref<64xf32>, %g: memref<32xf32>) {
  mprt.launch @warp ins(%a : memref<8192x256xf32>) outs(%a : memref<8192x256xf32>)
  mprt.launch @block ins(%b : memref<32x4096xf32>) outs(%b : memref<32x4096xf32>)
  mprt.launch @lanes ins(%c : memref<65536x32xf32>) outs(%d : memref<65536xf32>)
  mprt.launch @goes_on ins(%b : memref<32x4096xf32>) outs(%g, %b : memref<32xf32>, memref<32x4096xf32>)
  mprt.launch @long ins(%l, %m : memref<600x40000xf32>, memref<600xf32>) outs(%l : memref<600x40000xf32>)
  mprt.launch @empty ins(%x : memref<64x0xf32>) outs(%y : memref<64xf32>)
  return
}

// CHECK: func.func private @warp{{.*}}#mprt.grid<threads = 256, blocks = 512, grid_stride = true, scratch = 0>
// CHECK: func.func private @block{{.*}}#mprt.grid<threads = 1024, blocks = 32, grid_stride = true, scratch = 0>

// CHECK-LABEL: gpu.func @warp(
// CHECK: scf.for
// CHECK-COUNT-4: vector.load {{.*}} {alignment = 16 : i64} : memref<2097152xf32>, vector<4xf32>
// CHECK-NOT: vector.load
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-4: vector.store {{.*}} {alignment = 16 : i64} : memref<2097152xf32>, vector<4xf32>

// Shuffles in the warp, one barrier, shuffles of the warps' results.
// CHECK-LABEL: gpu.func @block(
// CHECK-SAME: workgroup(%{{.*}} : memref<64xf32, #gpu.address_space<workgroup>>)
// CHECK-COUNT-1: vector.load
// CHECK-NOT: vector.load
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK: vector.store

// CHECK-LABEL: gpu.func @lanes(
// Four rows at a time, so that loads do not wait for one another.
// CHECK-COUNT-4: vector.load {{.*}} vector<4xf32>
// CHECK-NOT: vector.load
// CHECK-COUNT-12: gpu.shuffle xor
// CHECK-NOT: gpu.shuffle
// CHECK-COUNT-4: memref.store

// CHECK-LABEL: gpu.func @long(
// CHECK: scf.for
// CHECK: memref.load {{.*}} : memref<600xf32>
// CHECK: scf.for
// CHECK: gpu.barrier
// CHECK: scf.for
// CHECK: vector.store

// CHECK-LABEL: gpu.func @empty(
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK-NOT: memref<0xf32>,
// CHECK: gpu.return

// CHECK-LABEL: gpu.func @goes_on(
// CHECK: gpu.barrier
// CHECK: memref.load %arg1[%{{.*}}] : memref<32xf32>
// CHECK: gpu.barrier
// CHECK: memref.store %{{.*}}, %arg1[%{{.*}}] : memref<32xf32>

// NVVM-LABEL: llvm.func @warp(
// NVVM-SAME: nvvm.kernel
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// NVVM: nvvm.shfl.sync bfly
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr

// A row of 160,000 bytes: the first pass puts it where the others find it.
// SHARED: func.func private @long({{.*}} mprt.shared_bytes = 160016 : i64
// SHARED-LABEL: gpu.func @long(
// SHARED: gpu.dynamic_shared_memory
// SHARED: scf.for
// SHARED: vector.load
// SHARED: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<3>
// SHARED: gpu.barrier
// SHARED-NOT: vector.load
// SHARED: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// SHARED: vector.store
// SHARED: gpu.return
