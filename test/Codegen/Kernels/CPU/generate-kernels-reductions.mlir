// Kernels with reductions: passes over a row, sums over rows.
//
// RUN: %mpcomm-opt %s --mpcomm-generate-kernels --canonicalize --cse | FileCheck %s

#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#one = affine_map<(i) -> (i)>

// A short row stays in registers: it is loaded once, and exp is computed once,
// over three passes. Two reductions fold 64 lanes to one.
// CHECK-LABEL: func.func private @softmax(
// CHECK: scf.for
// CHECK: %[[X:.*]] = vector.load {{.*}} vector<64xf32>
// CHECK-NOT: vector.load
// CHECK: arith.maxnumf {{.*}} : vector<32xf32>
// CHECK: arith.maxnumf {{.*}} : vector<2xf32>
// CHECK: %[[MAX:.*]] = arith.maxnumf {{.*}} : f32
// A NaN that maxnumf finds in all of a row is none beside the start.
// CHECK: %[[MORE:.*]] = arith.maxnumf %[[MAX]], %{{.*}} : f32
// CHECK: %[[M:.*]] = vector.broadcast %[[MORE]]
// CHECK: %[[D:.*]] = arith.subf %[[X]], %[[M]]
// CHECK: %[[E:.*]] = math.exp %[[D]] : vector<64xf32>
// CHECK: %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK: %[[ALL:.*]] = arith.addf %[[SUM]], %{{.*}} : f32
// CHECK: %[[S:.*]] = vector.broadcast %[[ALL]]
// CHECK: arith.divf %[[E]], %[[S]] : vector<64xf32>
// CHECK: vector.store
// CHECK-NOT: math.exp
// CHECK: return
func.func private @softmax(%x: tensor<6x64xf32>, %d: tensor<6x64xf32>) -> tensor<6x64xf32> attributes {mpcomm.kernel} {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<6xf32>
  %e1 = tensor.empty() : tensor<6x64xf32>
  %f0 = linalg.fill ins(%lowest : f32) outs(%e0 : tensor<6xf32>) -> tensor<6xf32>
  %max = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x64xf32>) outs(%f0 : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.maxnumf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %e = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<6x64xf32>, tensor<6xf32>) outs(%e1 : tensor<6x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<6x64xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<6xf32>) -> tensor<6xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%e : tensor<6x64xf32>) outs(%f1 : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%e, %sum : tensor<6x64xf32>, tensor<6xf32>) outs(%d : tensor<6x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<6x64xf32>
  return %y : tensor<6x64xf32>
}

// A long row: its exponentials, needed in two passes and dear, go to a buffer on
// the stack; the difference, which is cheap, is computed again.
// CHECK-LABEL: func.func private @long_rows(
// CHECK: %[[BUFFER:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1024xf32>
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<64xf32>)
// CHECK: math.exp
// CHECK: vector.store %{{.*}}, %[[BUFFER]]
// CHECK: scf.for
// CHECK-NOT: math.exp
// CHECK: vector.load %[[BUFFER]]
// CHECK: vector.store
func.func private @long_rows(%x: tensor<6x1024xf32>, %d: tensor<6x1024xf32>) -> tensor<6x1024xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<6xf32>
  %e1 = tensor.empty() : tensor<6x1024xf32>
  %e = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x1024xf32>) outs(%e1 : tensor<6x1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<6x1024xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<6xf32>) -> tensor<6xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%e : tensor<6x1024xf32>) outs(%f1 : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%e, %sum : tensor<6x1024xf32>, tensor<6xf32>) outs(%d : tensor<6x1024xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.divf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<6x1024xf32>
  return %y : tensor<6x1024xf32>
}

// Row scalars between reduction and use are scalar code; the tail of the row
// adds -0.0, which changes no sum.
// CHECK-LABEL: func.func private @center(
// CHECK-DAG: %[[NEUTRAL:.*]] = arith.constant dense<-0.000000e+00> : vector<16xf32>
// CHECK-DAG: %[[MASK:.*]] = arith.constant dense<[true, true, true, true, false, {{.*}} vector<16xi1>
// CHECK: %[[V:.*]] = vector.maskedload {{.*}}, %[[MASK]]
// CHECK: arith.select %[[MASK]], %[[V]], %[[NEUTRAL]] : vector<16xi1>, vector<16xf32>
// CHECK: %[[SUM:.*]] = arith.addf {{.*}} : f32
// CHECK: %[[ALL:.*]] = arith.addf %[[SUM]], %{{.*}} : f32
// CHECK: %[[MEAN:.*]] = arith.divf %[[ALL]], %{{.*}} : f32
// CHECK: vector.broadcast %[[MEAN]] : f32 to vector<16xf32>
// CHECK: arith.subf %[[V]]
// CHECK: vector.maskedstore
// CHECK: memref.store %[[MEAN]]
func.func private @center(%x: tensor<5x20xf32>, %d: tensor<5x20xf32>, %m: tensor<5xf32>) -> (tensor<5x20xf32>, tensor<5xf32>) attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<5xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<5xf32>) -> tensor<5xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<5x20xf32>) outs(%f0 : tensor<5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<5xf32>
  %mean = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%sum : tensor<5xf32>) outs(%m : tensor<5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.constant 20.0 : f32
    %s = arith.divf %a, %n : f32
    linalg.yield %s : f32
  } -> tensor<5xf32>
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean : tensor<5x20xf32>, tensor<5xf32>) outs(%d : tensor<5x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<5x20xf32>
  return %y, %mean : tensor<5x20xf32>, tensor<5xf32>
}

// A sum over rows starts from zeros in the destination and takes four rows at a
// time, then the rest.
// CHECK-LABEL: func.func private @column_sum(
// CHECK-SAME: %[[X:.*]]: memref<10x32xf32>, %[[D:.*]]: memref<32xf32>
// CHECK: vector.store %{{.*}}, %[[D]][%c0]
// CHECK: scf.for %{{.*}} = %c0 to %c8 step %c4
// CHECK-COUNT-4: vector.load %{{.*}} : memref<320xf32>
// CHECK: %[[OLD:.*]] = vector.load %[[D]][%c0]
// CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %{{.*}}
// CHECK: vector.store %[[NEW]], %[[D]][%c0]
// CHECK: scf.for %{{.*}} = %c8 to %c10 step %c1
// CHECK: vector.load %[[D]][%c0]
// CHECK: vector.store %{{.*}}, %[[D]][%c0]
func.func private @column_sum(%x: tensor<10x32xf32>, %d: tensor<32xf32>) -> tensor<32xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<32xf32>) -> tensor<32xf32>
  %r = linalg.generic {indexing_maps = [#full, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<10x32xf32>) outs(%f : tensor<32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<32xf32>
  return %r : tensor<32xf32>
}

// Sums that fit into no cache are not gone through once for each of few terms:
// the terms come innermost, and what one block of rows has all terms of is
// stored without a start.
// CHECK-LABEL: func.func private @large_sums(
// CHECK-SAME: %{{.*}}: memref<3x512x256xf32>, %[[D:.*]]: memref<512x256xf32>
// CHECK-NOT: vector.store
// CHECK: scf.for %{{.*}} = %c0 to %c131072 step %c32
// CHECK-COUNT-3: vector.load %{{.*}} : memref<393216xf32>
// CHECK-NOT: vector.load
// CHECK: vector.store
// CHECK-NOT: vector.store
// CHECK: return
func.func private @large_sums(%x: tensor<3x512x256xf32>, %d: tensor<512x256xf32>) -> tensor<512x256xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j) -> (n, i, j)>, affine_map<(n, i, j) -> (i, j)>], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%x : tensor<3x512x256xf32>) outs(%f : tensor<512x256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<512x256xf32>
  return %r : tensor<512x256xf32>
}

// More terms are added to what is there, a row of sums after the other.
// CHECK-LABEL: func.func private @more_large_sums(
// CHECK: vector.store
// CHECK: scf.for %{{.*}} = %c0 to %c512 step %c1
// CHECK: scf.for %{{.*}} = %c0 to %c10 step %c1
// CHECK: scf.for %{{.*}} = %c0 to %c256
// CHECK: return
func.func private @more_large_sums(%x: tensor<10x512x256xf32>, %y: tensor<10x512xf32>, %d: tensor<512x256xf32>) -> tensor<512x256xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j) -> (n, i, j)>, affine_map<(n, i, j) -> (n, i)>, affine_map<(n, i, j) -> (i, j)>], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%x, %y : tensor<10x512x256xf32>, tensor<10x512xf32>) outs(%f : tensor<512x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<512x256xf32>
  return %r : tensor<512x256xf32>
}

// The largest of magnitudes, and NaN, by the order of integers.
// CHECK-LABEL: func.func private @largest_magnitude(
// CHECK: math.absf
// CHECK: arith.maxsi {{.*}} : vector<64xi32>
// CHECK-NOT: arith.maximumf
// CHECK: arith.maxsi {{.*}} : i32
// CHECK-NOT: arith.maximumf
// CHECK: return
func.func private @largest_magnitude(%x: tensor<6x128xf32>, %d: tensor<6xf32>) -> tensor<6xf32> attributes {mpcomm.kernel} {
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<6x128xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%d : tensor<6xf32>) -> tensor<6xf32>
  %a = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<6x128xf32>) outs(%e : tensor<6x128xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = math.absf %v : f32
    linalg.yield %s : f32
  } -> tensor<6x128xf32>
  %r = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%a : tensor<6x128xf32>) outs(%f : tensor<6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.maximumf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %r : tensor<6xf32>
}

func.func @step_large(%x: memref<3x512x256xf32>, %y: memref<10x512x256xf32>, %s: memref<10x512xf32>, %z: memref<6x128xf32>, %d: memref<512x256xf32>, %e: memref<6xf32>) {
  mprt.launch @large_sums ins(%x : memref<3x512x256xf32>) outs(%d : memref<512x256xf32>)
  mprt.launch @more_large_sums ins(%y, %s : memref<10x512x256xf32>, memref<10x512xf32>) outs(%d : memref<512x256xf32>)
  mprt.launch @largest_magnitude ins(%z : memref<6x128xf32>) outs(%e : memref<6xf32>)
  return
}

// Rows and columns: one contiguous run, folded to one number at the end.
// CHECK-LABEL: func.func private @total(
// CHECK: scf.for {{.*}} = %c0 to %c320 step %c64 iter_args
// CHECK: memref.store %{{.*}}, %{{.*}}[%c0] : memref<1xf32>
// CHECK-NOT: scf.for
// CHECK: return
func.func private @total(%x: tensor<10x32xf32>, %d: tensor<f32>) -> tensor<f32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<f32>) -> tensor<f32>
  %r = linalg.generic {indexing_maps = [#full, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<10x32xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// A lookup of rows: the id is a scalar of the row, its row is loaded in vectors.
// CHECK-LABEL: func.func private @embedding(
// CHECK-SAME: %[[T:.*]]: memref<11x16xf32>, %[[IDS:.*]]: memref<5xi64>
// CHECK: scf.for %[[I:.*]] = %c0 to %c5 step %c1
// CHECK: %[[ID:.*]] = memref.load %[[IDS]][%[[I]]]
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[ID]]
// CHECK: %[[AT:.*]] = arith.muli %[[INDEX]], %c16
// CHECK: %[[V:.*]] = vector.load %{{.*}}[%[[AT]]] : memref<176xf32>, vector<16xf32>
// CHECK: vector.store %[[V]]
func.func private @embedding(%t: tensor<11x16xf32>, %ids: tensor<5xi64>, %d: tensor<5x16xf32>) -> tensor<5x16xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [#row, #full], iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<5xi64>) outs(%d : tensor<5x16xf32>) {
  ^bb0(%a: i64, %o: f32):
    %i = arith.index_cast %a : i64 to index
    %j = linalg.index 1 : index
    %v = tensor.extract %t[%i, %j] : tensor<11x16xf32>
    linalg.yield %v : f32
  } -> tensor<5x16xf32>
  return %r : tensor<5x16xf32>
}

// Its gradient: zeros, then one row after the other; rows of id 3 are left out.
// CHECK-LABEL: func.func private @embedding_grad(
// CHECK-SAME: %[[DY:.*]]: memref<5x16xf32>, %[[IDS:.*]]: memref<5xi64>, %[[D:.*]]: memref<11x16xf32>
// CHECK: scf.for {{.*}} = %c0 to %c128 step %c64
// CHECK: vector.store
// CHECK: scf.for %[[I:.*]] = %c0{{.*}} to %c5{{.*}} step %c1
// CHECK: %[[ID:.*]] = memref.load
// CHECK: %[[INDEX:.*]] = arith.index_cast %[[ID]]
// CHECK: %[[LOW:.*]] = arith.maxsi %[[INDEX]], %c0
// CHECK: %[[ROW:.*]] = arith.minsi %[[LOW]], %c10
// CHECK: %[[TAKEN:.*]] = arith.cmpi ne, %[[ROW]], %c3
// CHECK: scf.if %[[TAKEN]]
// CHECK: vector.load
// CHECK: vector.load
// CHECK: arith.addf
// CHECK: vector.store
func.func private @embedding_grad(%dy: tensor<5x16xf32>, %ids: tensor<5xi64>, %d: tensor<11x16xf32>) -> tensor<11x16xf32> attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%d : tensor<11x16xf32>) -> tensor<11x16xf32>
  %r = mprt.scatter "sum" dim = 0 batch_dims = 0 clamp skipped = 3 ins(%dy, %ids : tensor<5x16xf32>, tensor<5xi64>) outs(%f : tensor<11x16xf32>)
  return %r : tensor<11x16xf32>
}

// A scatter of single elements in each of several rows, onto what is there: an index out
// of range is not less than the size as an unsigned number.
// CHECK-LABEL: func.func private @scatter(
// CHECK-NOT: scf.for {{.*}} = %c0 to %c128
// CHECK: scf.for {{.*}} to %c8
// CHECK: scf.for {{.*}} to %c2
// CHECK: %[[INDEX:.*]] = arith.index_cast
// CHECK: %[[VALID:.*]] = arith.cmpi ult, %[[INDEX]], %c10
// CHECK: scf.if %[[VALID]]
// CHECK-NOT: vector
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i8
// CHECK: memref.store
func.func private @scatter(%u: tensor<8x2xi8>, %i: tensor<8x2xi32>, %d: tensor<8x10xi8>) -> tensor<8x10xi8> attributes {mpcomm.kernel} {
  %r = mprt.scatter "max" dim = 1 batch_dims = 1 ins(%u, %i : tensor<8x2xi8>, tensor<8x2xi32>) outs(%d : tensor<8x10xi8>)
  return %r : tensor<8x10xi8>
}
func.func @step_scatter(%u: memref<8x2xi8>, %i: memref<8x2xi32>, %d: memref<8x10xi8>) {
  mprt.launch @scatter ins(%u, %i : memref<8x2xi8>, memref<8x2xi32>) outs(%d : memref<8x10xi8>)
  return
}

// A row's result that replaces what a sum over rows reads: it is stored after
// the sum's term was read.
// CHECK-LABEL: func.func private @replaced_and_summed(
// CHECK-SAME: %{{.*}}: memref<8x16xf32>, %{{.*}}: memref<8x16xf32>, %[[R:.*]]: memref<8xf32>, %[[T:.*]]: memref<f32>
// CHECK: scf.for
// CHECK: %[[OLD:.*]] = memref.load %[[R]]
// CHECK-NOT: memref.store
// CHECK: %[[NEG:.*]] = arith.negf %[[OLD]]
// CHECK-NOT: memref.store
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[OLD]], %[[OLD]]
// CHECK: memref.store %[[NEG]], %[[R]]
// CHECK-NOT: memref.load %[[R]]
// CHECK: arith.addf %{{.*}}, %[[SQUARE]]
// CHECK: return
func.func private @replaced_and_summed(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>, %r: tensor<8xf32>, %t: tensor<f32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<f32>) attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %y = linalg.generic {indexing_maps = [#full, #full], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xf32>) outs(%d : tensor<8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<8x16xf32>
  %n = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%r : tensor<8xf32>) outs(%r : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%t : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [#one, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%r : tensor<8xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %a : f32
    %s = arith.addf %m, %o : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %y, %n, %sum : tensor<8x16xf32>, tensor<8xf32>, tensor<f32>
}
func.func @step_replaced(%x: memref<8x16xf32>, %y: memref<8x16xf32>, %r: memref<8xf32>, %t: memref<f32>) {
  mprt.launch @replaced_and_summed ins(%x : memref<8x16xf32>) outs(%y, %r, %t : memref<8x16xf32>, memref<8xf32>, memref<f32>)
  return
}

func.func @step(%a: memref<6x64xf32>, %b: memref<6x1024xf32>, %c: memref<5x20xf32>, %d: memref<5xf32>, %e: memref<10x32xf32>,
                %f: memref<32xf32>, %g: memref<f32>, %h: memref<11x16xf32>, %i: memref<5xi64>, %j: memref<5x16xf32>) {
  mprt.launch @softmax ins(%a : memref<6x64xf32>) outs(%a : memref<6x64xf32>)
  mprt.launch @long_rows ins(%b : memref<6x1024xf32>) outs(%b : memref<6x1024xf32>)
  mprt.launch @center ins(%c : memref<5x20xf32>) outs(%c, %d : memref<5x20xf32>, memref<5xf32>)
  mprt.launch @column_sum ins(%e : memref<10x32xf32>) outs(%f : memref<32xf32>)
  mprt.launch @total ins(%e : memref<10x32xf32>) outs(%g : memref<f32>)
  mprt.launch @embedding ins(%h, %i : memref<11x16xf32>, memref<5xi64>) outs(%j : memref<5x16xf32>)
  mprt.launch @embedding_grad ins(%j, %i : memref<5x16xf32>, memref<5xi64>) outs(%h : memref<11x16xf32>)
  return
}

// %p is replaced by a value of the one row, and read by one that depends on no
// row: it is loaded before the row stores.
// CHECK-LABEL: func.func private @replaced_by_row(
// CHECK-SAME: %[[X:[^:]*]]: memref<1x4xf32>, %[[P:[^:]*]]: memref<1xf32>, %[[Q:[^:]*]]: memref<1xf32>)
// CHECK-DAG: %[[OLD:.*]] = memref.load %[[P]]
// CHECK-DAG: %[[HALF:.*]] = arith.mulf %[[OLD]],
// CHECK: memref.store %{{.*}}, %[[P]]
// CHECK-NOT: memref.load %[[P]]
// CHECK: memref.store %[[HALF]], %[[Q]]
func.func private @replaced_by_row(%x: tensor<1x4xf32>, %p: tensor<1xf32>, %q: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) attributes {mpcomm.kernel} {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<1x4xf32>) outs(%f : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %new = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%sum : tensor<1xf32>) outs(%p : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %half : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %of_old = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]}
      ins(%p : tensor<1xf32>) outs(%q : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %half : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  return %new, %of_old : tensor<1xf32>, tensor<1xf32>
}

func.func @step_by_row(%x: memref<1x4xf32>, %p: memref<1xf32>, %q: memref<1xf32>) {
  mprt.launch @replaced_by_row ins(%x : memref<1x4xf32>) outs(%p, %q : memref<1xf32>, memref<1xf32>)
  return
}
