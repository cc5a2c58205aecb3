// RUN: mpcomm-opt %s --mpcomm-generate-gpu-kernels | FileCheck %s

// A loss compares each column with the row's target: once a row and once a
// chunk, not for each element. The greatest of bf16 is found in bf16, and whole
// turns of the columns are not asked where a row ends.

#full = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @loss(%x: tensor<600x40000xbf16>, %ids: tensor<600xi64>, %m: tensor<600xf32>, %p: tensor<600xf32>, %d: tensor<600x40000xbf16>) -> (tensor<600xf32>, tensor<600xf32>, tensor<600x40000xbf16>) attributes {mpcomm.kernel} {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %m0 = linalg.fill ins(%low : f32) outs(%m : tensor<600xf32>) -> tensor<600xf32>
  %max = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<600x40000xbf16>) outs(%m0 : tensor<600xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %e = arith.extf %in : bf16 to f32
    %r = arith.maxnumf %out, %e : f32
    linalg.yield %r : f32
  } -> tensor<600xf32>
  %p0 = linalg.fill ins(%zero : f32) outs(%p : tensor<600xf32>) -> tensor<600xf32>
  %picked = linalg.generic {indexing_maps = [#full, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x, %ids : tensor<600x40000xbf16>, tensor<600xi64>) outs(%p0 : tensor<600xf32>) {
  ^bb0(%in: bf16, %id: i64, %out: f32):
    %e = arith.extf %in : bf16 to f32
    %i = linalg.index 1 : index
    %c = arith.index_cast %i : index to i64
    %hit = arith.cmpi eq, %c, %id : i64
    %s = arith.select %hit, %e, %zero : f32
    %r = arith.addf %out, %s : f32
    linalg.yield %r : f32
  } -> tensor<600xf32>
  %all = linalg.generic {indexing_maps = [#full, #row, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x, %ids, %max : tensor<600x40000xbf16>, tensor<600xi64>, tensor<600xf32>) outs(%d : tensor<600x40000xbf16>) {
  ^bb0(%in: bf16, %id: i64, %top: f32, %out: bf16):
    %e = arith.extf %in : bf16 to f32
    %y = arith.subf %e, %top : f32
    %z = math.exp %y : f32
    %i = linalg.index 1 : index
    %c = arith.index_cast %i : index to i64
    %hit = arith.cmpi eq, %c, %id : i64
    %s = arith.select %hit, %one, %zero : f32
    %w = arith.subf %z, %s : f32
    %t = arith.truncf %w : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<600x40000xbf16>
  return %max, %picked, %all : tensor<600xf32>, tensor<600xf32>, tensor<600x40000xbf16>
}

func.func @calls(%x: memref<600x40000xbf16>, %ids: memref<600xi64>, %m: memref<600xf32>, %p: memref<600xf32>, %d: memref<600x40000xbf16>) {
  mprt.launch @loss ins(%x, %ids : memref<600x40000xbf16>, memref<600xi64>) outs(%m, %p, %d : memref<600xf32>, memref<600xf32>, memref<600x40000xbf16>)
  return
}

// CHECK-LABEL: gpu.func @loss(
// CHECK: vector.load {{.*}} vector<1xbf16>
// CHECK: scf.for {{.*}} -> (vector<8xbf16>)
// CHECK-NOT: arith.cmpi
// CHECK-COUNT-4: arith.maxnumf {{.*}} : vector<8xbf16>
// CHECK-NOT: arith.cmpi
// CHECK: scf.yield
// CHECK: scf.for {{.*}} -> (vector<8xbf16>)
// CHECK-NOT: arith.cmpi
// CHECK: arith.maxnumf {{.*}} : vector<8xbf16>
// CHECK: scf.yield
// CHECK: gpu.barrier
// CHECK: scf.for
// CHECK: arith.cmpi ult
// CHECK: scf.if {{.*}} -> (vector<8xbf16>)
// CHECK: arith.cmpi eq, {{.*}} : vector<8xi32>
// CHECK: } else {
