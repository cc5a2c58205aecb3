// Elementwise kernels become loops over chunks of vectors; dimensions that lie
// together in every operand are one loop.
//
// RUN: %mpcomm-opt %s --mpcomm-generate-kernels --canonicalize --cse | FileCheck %s

// Three dimensions, contiguous everywhere, are one loop over 64 lanes and a
// tail of 32, 16 and (7 of 16).
// CHECK-LABEL: func.func private @collapse(
// CHECK-SAME: %[[X:.*]]: memref<3x7x25xf32>, %[[Y:.*]]: memref<3x7x25xf32>) attributes {mpcomm.kernel, mprt.moved_bytes = 4200 : i64, passthrough = ["noinline", ["prefer-vector-width", "512"]]}
// CHECK-DAG: %[[MASK:.*]] = arith.constant dense<[true, true, true, true, true, true, true, true, true, true, true, true, true, false, false, false]>
// CHECK-DAG: %[[FROM:.*]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [525], strides: [1]
// CHECK-DAG: %[[TO:.*]] = memref.reinterpret_cast %[[Y]] to offset: [0], sizes: [525], strides: [1]
// CHECK: scf.for %[[I:.*]] = %c0 to %c512 step %c64
// CHECK-NEXT: %[[V:.*]] = vector.load %[[FROM]][%[[I]]] : memref<525xf32>, vector<64xf32>
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[V]], %[[V]] fastmath<contract> : vector<64xf32>
// CHECK-NEXT: vector.store %[[S]], %[[TO]][%[[I]]] : memref<525xf32>, vector<64xf32>
// CHECK: vector.maskedload %[[FROM]][%c512], %[[MASK]], {{.*}} vector<16xf32>
// CHECK: vector.maskedstore %[[TO]][%c512], %[[MASK]], {{.*}} vector<16xf32>
// CHECK-NOT: scf.for
// CHECK: return
func.func private @collapse(%x: tensor<3x7x25xf32>, %d: tensor<3x7x25xf32>) -> tensor<3x7x25xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<3x7x25xf32>) outs(%d : tensor<3x7x25xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<3x7x25xf32>
  return %r : tensor<3x7x25xf32>
}

// Of a tail of one column one element is stored, with no mask: LLVM 22 stores all
// bits that the lane was truncated from.
// CHECK-LABEL: func.func private @tail_of_one(
// CHECK: vector.store
// CHECK-NOT: vector.maskedstore
// CHECK: memref.store %{{.*}} : memref<{{.*}}xf8E4M3FN>
// CHECK-NOT: vector.maskedstore
// CHECK: return
func.func private @tail_of_one(%x: tensor<7x33xf32>, %d: tensor<7x33xf8E4M3FN>) -> tensor<7x33xf8E4M3FN> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<7x33xf32>) outs(%d : tensor<7x33xf8E4M3FN>) {
  ^bb0(%a: f32, %b: f8E4M3FN):
    %t = arith.truncf %a : f32 to f8E4M3FN
    linalg.yield %t : f8E4M3FN
  } -> tensor<7x33xf8E4M3FN>
  return %r : tensor<7x33xf8E4M3FN>
}

// A bias is read along the column, and a scalar of each row before the column
// loop. The two leading dimensions are one loop.
// CHECK-LABEL: func.func private @broadcast(
// CHECK-SAME: %[[X:.*]]: memref<2x5x32xf32>, %[[B:.*]]: memref<32xf32>, %[[R:.*]]: memref<2x5xf32>, %[[U:.*]]: memref<f32>, %[[Y:.*]]: memref<2x5x32xf32>
// CHECK-DAG: %[[ROWS:.*]] = memref.reinterpret_cast %[[R]] to offset: [0], sizes: [10]
// CHECK-DAG: %[[UNIFORM:.*]] = memref.load %{{.*}}[%c0] : memref<1xf32>
// CHECK: scf.for %[[I:.*]] = %c0 to %c10 step %c1
// CHECK-NEXT: arith.muli %[[I]], %c32
// CHECK-NEXT: vector.load %{{.*}} : memref<320xf32>, vector<32xf32>
// CHECK-NEXT: vector.load %[[B]][%c0] : memref<32xf32>, vector<32xf32>
// CHECK: memref.load %[[ROWS]][%[[I]]] : memref<10xf32>
// CHECK: vector.store
// CHECK-NOT: scf.for
// CHECK: return
func.func private @broadcast(%x: tensor<2x5x32xf32>, %b: tensor<32xf32>, %r: tensor<2x5xf32>, %u: tensor<f32>, %d: tensor<2x5x32xf32>) -> tensor<2x5x32xf32> attributes {mpcomm.kernel} {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k)>,
                                        affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> ()>,
                                        affine_map<(i, j, k) -> (i, j, k)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %b, %r, %u : tensor<2x5x32xf32>, tensor<32xf32>, tensor<2x5xf32>, tensor<f32>) outs(%d : tensor<2x5x32xf32>) {
  ^bb0(%a: f32, %c: f32, %e: f32, %f: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %t = arith.mulf %s, %e : f32
    %v = arith.mulf %t, %f : f32
    linalg.yield %v : f32
  } -> tensor<2x5x32xf32>
  return %0 : tensor<2x5x32xf32>
}

// Bools are bytes. The coordinate of a row is a scalar; the column is compared
// with it in 32 bits.
// CHECK-LABEL: func.func private @bools(
// CHECK-SAME: %[[M:.*]]: memref<4x16xi8>, %[[Y:.*]]: memref<4x16xi8>
// CHECK-DAG: %[[LANES:.*]] = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
// CHECK: scf.for %[[I:.*]] = %c0 to %c4 step %c1
// CHECK: %[[BYTES:.*]] = vector.load %{{.*}} : memref<64xi8>, vector<16xi8>
// CHECK: %[[BITS:.*]] = arith.cmpi ne, %[[BYTES]], %{{.*}} : vector<16xi8>
// CHECK: %[[LOW:.*]] = arith.maxsi %[[I]], %c-1
// CHECK: %[[CLAMPED:.*]] = arith.minsi %[[LOW]], %c16
// CHECK: %[[ROW:.*]] = arith.index_cast %[[CLAMPED]] : index to i32
// CHECK: %[[ROWS:.*]] = vector.broadcast %[[ROW]] : i32 to vector<16xi32>
// CHECK: arith.cmpi sge, %[[ROWS]], %[[LANES]] : vector<16xi32>
// CHECK: %[[OUT:.*]] = arith.extui %{{.*}} : vector<16xi1> to vector<16xi8>
// CHECK: vector.store %[[OUT]], %{{.*}} : memref<64xi8>, vector<16xi8>
func.func private @bools(%m: tensor<4x16xi1>, %d: tensor<4x16xi1>) -> tensor<4x16xi1> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%m : tensor<4x16xi1>) outs(%d : tensor<4x16xi1>) {
  ^bb0(%a: i1, %b: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %ge = arith.cmpi sge, %i, %j : index
    %s = arith.andi %a, %ge : i1
    linalg.yield %s : i1
  } -> tensor<4x16xi1>
  return %r : tensor<4x16xi1>
}

// Half precision is computed in f32 and rounded once, where it is stored.
// CHECK-LABEL: func.func private @half(
// CHECK: %[[RAW:.*]] = vector.load %{{.*}} : memref<32xbf16>, vector<32xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[RAW]] : vector<32xbf16> to vector<32xf32>
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[WIDE]], %[[WIDE]] fastmath<contract> : vector<32xf32>
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[S]], %[[WIDE]] fastmath<contract> : vector<32xf32>
// CHECK-NEXT: %[[N:.*]] = arith.truncf %[[P]] : vector<32xf32> to vector<32xbf16>
// CHECK-NEXT: vector.store %[[N]]
func.func private @half(%x: tensor<32xbf16>, %d: tensor<32xbf16>) -> tensor<32xbf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<32xbf16>) outs(%d : tensor<32xbf16>) {
  ^bb0(%a: bf16, %b: bf16):
    %s = arith.addf %a, %a : bf16
    %w = arith.extf %s : bf16 to f32
    %x1 = arith.extf %a : bf16 to f32
    %p = arith.mulf %w, %x1 : f32
    %t = arith.truncf %p : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<32xbf16>
  return %r : tensor<32xbf16>
}

// A destination that is read is updated in place: all loads come before the
// first store.
// CHECK-LABEL: func.func private @in_place(
// CHECK-SAME: %[[G:.*]]: memref<16xf32>, %[[P:.*]]: memref<16xf32>, %[[M:.*]]: memref<16xf32>
// CHECK-DAG: vector.load %[[G]]
// CHECK-DAG: vector.load %[[P]]
// CHECK-DAG: vector.load %[[M]]
// CHECK-NOT: vector.load
// CHECK: vector.store %{{.*}}, %[[P]]
// CHECK-NEXT: vector.store %{{.*}}, %[[M]]
func.func private @in_place(%g: tensor<16xf32>, %p: tensor<16xf32>, %m: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {mpcomm.kernel} {
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
                                          affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%g, %p, %m : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) outs(%p, %m : tensor<16xf32>, tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o0: f32, %o1: f32):
    %s = arith.addf %c, %a : f32
    %t = arith.subf %b, %s : f32
    linalg.yield %t, %s : f32, f32
  } -> (tensor<16xf32>, tensor<16xf32>)
  return %r#0, %r#1 : tensor<16xf32>, tensor<16xf32>
}

// One function per layout of the operands: the second launch reads rows 40
// apart. A kernel without a launch is gone.
// CHECK-LABEL: func.func private @twice(
// CHECK-SAME: memref<8x16xf32>, %{{.*}}: memref<8x16xf32>)
// CHECK: scf.for {{.*}} to %c128 step %c64
// CHECK-LABEL: func.func private @twice_0(
// CHECK-SAME: memref<8x16xf32, strided<[40, 1]>>, %{{.*}}: memref<8x16xf32>)
// CHECK: scf.for {{.*}} to %c8 step %c1
// CHECK: arith.muli %{{.*}}, %c40
func.func private @twice(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mpcomm.kernel} {
  %r = linalg.copy ins(%x : tensor<8x16xf32>) outs(%d : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
// CHECK-NOT: @unused
func.func private @unused(%x: tensor<8x16xf32>, %d: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {mpcomm.kernel} {
  %r = linalg.copy ins(%x : tensor<8x16xf32>) outs(%d : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

// No loops at all.
// CHECK-LABEL: func.func private @scalar(
// CHECK: memref.load
// CHECK-NEXT: math.exp %{{.*}} : f32
// CHECK-NEXT: memref.store
func.func private @scalar(%x: tensor<f32>, %d: tensor<f32>) -> tensor<f32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}
      ins(%x : tensor<f32>) outs(%d : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %r : tensor<f32>
}

// A transposed operand is read in tiles of 16 by 16, each shuffled in 4 stages
// of 16; rows that fill no tile are gathered.
// CHECK-LABEL: func.func private @transpose(
// CHECK: scf.for %{{.*}} = %c0 to %c32 step %c16
// CHECK-COUNT-16: vector.load {{.*}} vector<16xf32>
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store {{.*}} vector<16xf32>
// CHECK: scf.for %{{.*}} = %c32 to %c34 step %c1
// CHECK: vector.gather
func.func private @transpose(%x: tensor<32x34xf32>, %d: tensor<34x32xf32>) -> tensor<34x32xf32> attributes {mpcomm.kernel} {
  %r = linalg.transpose ins(%x : tensor<32x34xf32>) outs(%d : tensor<34x32xf32>) permutation = [1, 0]
  return %r : tensor<34x32xf32>
}

// A row's value that replaces what it was computed from, though several rows
// have it in common, is stored by the first of them.
// CHECK-LABEL: func.func private @once(
// CHECK-SAME: %{{.*}}: memref<8x4x16xf32>, %[[P:.*]]: memref<4xf32>, %{{.*}}: memref<4x8x16xf32>
// CHECK: scf.for %{{.*}} = %c0 to %c4
// CHECK: scf.for %[[J:.*]] = %c0 to %c8
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[J]], %c0
// CHECK: scf.if %[[FIRST]]
// CHECK-NEXT: memref.store %{{.*}}, %[[P]]
func.func private @once(%x: tensor<8x4x16xf32>, %p: tensor<4xf32>, %d: tensor<4x8x16xf32>) -> (tensor<4xf32>, tensor<4x8x16xf32>) attributes {mpcomm.kernel} {
  %e = tensor.empty() : tensor<4x8x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%p : tensor<4xf32>) outs(%p : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, i, k)>, affine_map<(i, j, k) -> (i, j, k)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<8x4x16xf32>) outs(%d : tensor<4x8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8x16xf32>
  return %0, %1 : tensor<4xf32>, tensor<4x8x16xf32>
}

// So are the other results of the op: later rows read what replaced its operand.
// CHECK-LABEL: func.func private @once_all(
// CHECK-SAME: %{{.*}}: memref<8x4x16xf32>, %[[P:.*]]: memref<4xf32>, %[[Q:.*]]: memref<4xf32>, %{{.*}}: memref<4x8x16xf32>
// CHECK: scf.if
// CHECK-NEXT: memref.store %{{.*}}, %[[P]]
// CHECK: scf.if
// CHECK-NEXT: memref.store %{{.*}}, %[[Q]]
func.func private @once_all(%x: tensor<8x4x16xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>, %d: tensor<4x8x16xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>) attributes {mpcomm.kernel} {
  %0:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%p : tensor<4xf32>) outs(%p, %q : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32, %r: f32):
    %s = arith.addf %a, %a : f32
    %t = arith.mulf %s, %a : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, i, k)>, affine_map<(i, j, k) -> (i, j, k)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<8x4x16xf32>) outs(%d : tensor<4x8x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8x16xf32>
  return %0#0, %0#1, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4x8x16xf32>
}
func.func @step_once(%q: memref<8x4x16xf32>, %o: memref<4xf32>, %p: memref<4xf32>, %n: memref<4x8x16xf32>) {
  mprt.launch @once_all ins(%q : memref<8x4x16xf32>) outs(%o, %p, %n : memref<4xf32>, memref<4xf32>, memref<4x8x16xf32>)
  return
}

// CHECK-LABEL: func.func @step
func.func @step(%a: memref<3x7x25xf32>, %b: memref<2x5x32xf32>, %c: memref<32xf32>, %d: memref<2x5xf32>, %e: memref<f32>,
                %f: memref<4x16xi1>, %g: memref<32xbf16>, %h: memref<16xf32>, %i: memref<16xf32, strided<[1], offset: ?>>,
                %n: memref<4x8x16xf32>, %q: memref<8x4x16xf32>, %o: memref<4xf32>, %j: memref<8x16xf32>, %k: memref<8x16xf32, strided<[40, 1], offset: 7>>, %l: memref<32x34xf32>, %m: memref<34x32xf32>,
                %p: memref<7x33xf32, strided<[34, 1]>>, %r: memref<7x33xf8E4M3FN>) {
  mprt.launch @tail_of_one ins(%p : memref<7x33xf32, strided<[34, 1]>>) outs(%r : memref<7x33xf8E4M3FN>)
  mprt.launch @collapse ins(%a : memref<3x7x25xf32>) outs(%a : memref<3x7x25xf32>)
  mprt.launch @broadcast ins(%b, %c, %d, %e : memref<2x5x32xf32>, memref<32xf32>, memref<2x5xf32>, memref<f32>) outs(%b : memref<2x5x32xf32>)
  mprt.launch @bools ins(%f : memref<4x16xi1>) outs(%f : memref<4x16xi1>)
  mprt.launch @half ins(%g : memref<32xbf16>) outs(%g : memref<32xbf16>)
  mprt.launch @in_place ins(%h : memref<16xf32>) outs(%h, %i : memref<16xf32>, memref<16xf32, strided<[1], offset: ?>>)
  // CHECK: mprt.launch @twice ins(%{{.*}} : memref<8x16xf32>)
  mprt.launch @twice ins(%j : memref<8x16xf32>) outs(%j : memref<8x16xf32>)
  // CHECK: mprt.launch @twice_0 ins(%{{.*}} : memref<8x16xf32, strided<[40, 1], offset: 7>>)
  mprt.launch @twice ins(%k : memref<8x16xf32, strided<[40, 1], offset: 7>>) outs(%j : memref<8x16xf32>)
  mprt.launch @scalar ins(%e : memref<f32>) outs(%e : memref<f32>)
  mprt.launch @once ins(%q : memref<8x4x16xf32>) outs(%o, %n : memref<4xf32>, memref<4x8x16xf32>)
  mprt.launch @transpose ins(%l : memref<32x34xf32>) outs(%m : memref<34x32xf32>)
  return
}

// The bits of a half-precision element are those of its own type.
// CHECK-LABEL: func.func private @bits(
// CHECK: %[[B:.*]] = arith.bitcast %{{.*}} : vector<16xbf16> to vector<16xi16>
// CHECK: vector.store %[[B]]
func.func private @bits(%x: tensor<16xbf16>, %d: tensor<16xi16>) -> tensor<16xi16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<16xbf16>) outs(%d : tensor<16xi16>) {
  ^bb0(%a: bf16, %o: i16):
    %s = arith.bitcast %a : bf16 to i16
    linalg.yield %s : i16
  } -> tensor<16xi16>
  return %r : tensor<16xi16>
}
// CHECK-LABEL: func.func private @from_bits(
// CHECK: %[[H:.*]] = arith.bitcast %{{.*}} : vector<16xi16> to vector<16xf16>
// CHECK: %[[W:.*]] = arith.extf %[[H]] : vector<16xf16> to vector<16xf32>
// CHECK: arith.addf %[[W]], %[[W]]
func.func private @from_bits(%x: tensor<16xi16>, %d: tensor<16xf16>) -> tensor<16xf16> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<16xi16>) outs(%d : tensor<16xf16>) {
  ^bb0(%a: i16, %o: f16):
    %h = arith.bitcast %a : i16 to f16
    %s = arith.addf %h, %h : f16
    linalg.yield %s : f16
  } -> tensor<16xf16>
  return %r : tensor<16xf16>
}
func.func @step_bits(%x: memref<16xbf16>, %y: memref<16xi16>, %z: memref<16xf16>) {
  mprt.launch @bits ins(%x : memref<16xbf16>) outs(%y : memref<16xi16>)
  mprt.launch @from_bits ins(%y : memref<16xi16>) outs(%z : memref<16xf16>)
  return
}

// A column's number is compared as it is, in 32 bits, only if the cast keeps
// it: 8 bits do not hold 300.
// CHECK-LABEL: func.func private @narrow_column(
// CHECK: arith.index_cast %{{.*}} : vector<{{[0-9]+}}xindex> to vector<{{[0-9]+}}xi8>
// CHECK: arith.cmpi slt, %{{.*}} : vector<{{[0-9]+}}xi8>
func.func private @narrow_column(%x: tensor<4xi8>, %d: tensor<4x300xi1>) -> tensor<4x300xi1> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4xi8>) outs(%d : tensor<4x300xi1>) {
  ^bb0(%a: i8, %o: i1):
    %j = linalg.index 1 : index
    %n = arith.index_cast %j : index to i8
    %c = arith.cmpi slt, %n, %a : i8
    linalg.yield %c : i1
  } -> tensor<4x300xi1>
  return %r : tensor<4x300xi1>
}
func.func @step_narrow(%x: memref<4xi8>, %y: memref<4x300xi1>) {
  mprt.launch @narrow_column ins(%x : memref<4xi8>) outs(%y : memref<4x300xi1>)
  return
}

// A shifted column that a bound holds within the dimension reads the element of the
// bound for the lanes beyond it. Of a bound that no column reaches there is no element.
// CHECK-LABEL: func.func private @shifted(
// CHECK-NOT: memref.load %{{.*}}[%c{{-?}}1000]
// CHECK: %[[EDGE:.*]] = memref.load %{{.*}}[%c119]
// CHECK: vector.broadcast %[[EDGE]]
// CHECK-NOT: memref.load %{{.*}}[%c{{-?}}1000]
// CHECK: return
func.func private @shifted(%x: tensor<120xf32>, %d: tensor<100xf32>) -> tensor<100xf32> attributes {mpcomm.kernel} {
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%d : tensor<100xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %c1 = arith.constant 1 : index
    %c99 = arith.constant 99 : index
    %last = arith.constant 119 : index
    %before = arith.constant -1000 : index
    %after = arith.constant 1000 : index
    %i1 = arith.addi %i, %c1 : index
    %i9 = arith.addi %i, %c99 : index
    %clamped = arith.minsi %i9, %last : index
    %low = arith.maxsi %i1, %before : index
    %high = arith.minsi %i1, %after : index
    %e0 = tensor.extract %x[%clamped] : tensor<120xf32>
    %e1 = tensor.extract %x[%low] : tensor<120xf32>
    %e2 = tensor.extract %x[%high] : tensor<120xf32>
    %s = arith.addf %e0, %e1 : f32
    %t = arith.addf %s, %e2 : f32
    linalg.yield %t : f32
  } -> tensor<100xf32>
  return %r : tensor<100xf32>
}
func.func @step_shifted(%x: memref<120xf32>, %d: memref<100xf32>) {
  mprt.launch @shifted ins(%x : memref<120xf32>) outs(%d : memref<100xf32>)
  return
}
