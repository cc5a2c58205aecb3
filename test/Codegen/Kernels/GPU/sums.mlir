// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// Sums over rows: in registers while a block goes through its rows, then a term
// a block in scratch, which a second kernel adds up.

#id = affine_map<(i, j) -> (i, j)>
#col = affine_map<(i, j) -> (j)>

func.func private @columns(%x: tensor<4096x1024xf32>, %d: tensor<1024xf32>) -> tensor<1024xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<1024xf32>) -> tensor<1024xf32>
  %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<4096x1024xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<1024xf32>
  return %s : tensor<1024xf32>
}

// All of a long row: it is cut into rows.
func.func private @all(%x: tensor<1048576xbf16>, %d: tensor<f32>) -> tensor<f32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<f32>) -> tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<1048576xbf16>) outs(%f : tensor<f32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %q = arith.mulf %w, %w : f32
    %p = arith.addf %o, %q : f32
    linalg.yield %p : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// Few rows: each block ends its own sums, added to what is there.
func.func private @few(%x: tensor<8x65536xf32>, %d: tensor<65536xf32>) -> tensor<65536xf32> attributes {mpcomm.kernel} {
  %s = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<8x65536xf32>) outs(%d : tensor<65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.addf %o, %a : f32
    linalg.yield %p : f32
  } -> tensor<65536xf32>
  return %s : tensor<65536xf32>
}

// Sums of four rows, of which there are many: each group of threads has its own.
#middle = affine_map<(b, g, r, j) -> (b, g, r, j)>
#rest = affine_map<(b, g, r, j) -> (b, g, j)>
func.func private @groups(%x: tensor<4096x4x4x64xbf16>, %d: tensor<4096x4x64xf32>) -> tensor<4096x4x64xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<4096x4x64xf32>) -> tensor<4096x4x64xf32>
  %s = linalg.generic {indexing_maps = [#middle, #rest], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%x : tensor<4096x4x4x64xbf16>) outs(%f : tensor<4096x4x64xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %p = arith.addf %o, %w : f32
    linalg.yield %p : f32
  } -> tensor<4096x4x64xf32>
  return %s : tensor<4096x4x64xf32>
}

func.func @f(%a: memref<4096x1024xf32>, %b: memref<1024xf32>, %c: memref<1048576xbf16>, %d: memref<f32>, %e: memref<8x65536xf32>, %g: memref<65536xf32>, %h: memref<4096x4x4x64xbf16>, %i: memref<4096x4x64xf32>) {
  // CHECK: mprt.launch @columns ins
  // CHECK-NEXT: mprt.launch @columns_sums ins
  mprt.launch @columns ins(%a : memref<4096x1024xf32>) outs(%b : memref<1024xf32>)
  // CHECK-NEXT: mprt.launch @all ins
  // CHECK-NEXT: mprt.launch @all_sums ins
  mprt.launch @all ins(%c : memref<1048576xbf16>) outs(%d : memref<f32>)
  // CHECK-NEXT: mprt.launch @few ins
  // CHECK-NEXT: mprt.launch @groups ins
  // CHECK-NEXT: return
  mprt.launch @few ins(%e : memref<8x65536xf32>) outs(%g : memref<65536xf32>)
  mprt.launch @groups ins(%h : memref<4096x4x4x64xbf16>) outs(%i : memref<4096x4x64xf32>)
  return
}

// Eight blocks along the columns, 32 * 4 each; 33 splits of the rows make 264
// blocks for 132 processors; 33 terms of 1024 f32.
// CHECK-LABEL: gpu.func @columns(
// CHECK-SAME: memref<135168xi8>
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<4xf32>
// CHECK: vector.load {{.*}} vector<4xf32>
// CHECK: scf.yield
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK-NOT: gpu.shuffle
// CHECK-LABEL: gpu.func @columns_sums(
// CHECK: scf.for
// CHECK: memref.load
// CHECK-COUNT-3: gpu.barrier
// CHECK-NOT: gpu.barrier

// CHECK-LABEL: gpu.func @all(
// CHECK: vector.load {{.*}} vector<8xbf16>
// CHECK: gpu.shuffle xor

// CHECK-LABEL: gpu.func @few(
// CHECK-NOT: xi8>
// CHECK: memref.load
// CHECK: arith.addf
// CHECK: memref.store

// 32 groups of 8 threads have a sum of 8 columns each, of all its rows, which
// are loaded at once; nobody waits for anybody.
// CHECK-LABEL: gpu.func @groups(
// CHECK-NOT: workgroup
// CHECK-COUNT-4: vector.load {{.*}} vector<8xbf16>
// CHECK-NOT: vector.load
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-8: memref.store
// CHECK: gpu.return
