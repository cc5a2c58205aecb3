// RUN: mpcomm-opt %s --mpcomm-bufferize-step --split-input-file | FileCheck %s

// Donated arguments are updated in place, other results get buffers of their
// own, and nothing is copied that need not be.

// CHECK-LABEL: func.func @in_place
// CHECK-SAME: (%[[W:.*]]: memref<8xf32> {mpcomm.name = "w", {{.*}}mprt.update}, %[[G:.*]]: memref<8xf32>)
// CHECK-SAME: mprt.results = [{argument = 0 : i64, {{.*}}type = tensor<8xf32>}]
// CHECK-NEXT: mprt.launch @update ins(%[[G]] : memref<8xf32>) outs(%[[W]] : memref<8xf32>)
// CHECK-NEXT: return
func.func @in_place(%w: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
                    %g: tensor<8xf32>) -> (tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %0 = mprt.launch @update ins(%g : tensor<8xf32>) outs(%w : tensor<8xf32>) -> (tensor<8xf32>)
  return %0 : tensor<8xf32>
}
func.func private @update(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}

// What is read after its new value has been computed keeps its old one until
// then: the new value waits in a buffer of its own.
// CHECK-LABEL: func.func @read_later
// CHECK-SAME: (%[[W:.*]]: memref<8xf32> {{{.*}}mprt.update}, %[[G:.*]]: memref<8xf32>, %[[R:.*]]: memref<8xf32>)
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: mprt.launch @make ins(%[[G]], %[[W]] : memref<8xf32>, memref<8xf32>) outs(%[[A]] : memref<8xf32>)
// CHECK: mprt.launch @make ins(%[[G]], %[[W]] : memref<8xf32>, memref<8xf32>) outs(%[[R]] : memref<8xf32>)
// CHECK: memref.copy %[[A]], %[[W]]
func.func @read_later(%w: tensor<8xf32> {mpcomm.donated = 0 : i64}, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %0 = mprt.launch @make ins(%g, %w : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> (tensor<8xf32>)
  %f = tensor.empty() : tensor<8xf32>
  %1 = mprt.launch @make ins(%g, %w : tensor<8xf32>, tensor<8xf32>) outs(%f : tensor<8xf32>) -> (tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
func.func private @make(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}

// An argument that donates nothing must not change: the update goes to a copy,
// here the result's own buffer.
// CHECK-LABEL: func.func @not_donated
// CHECK-SAME: (%[[W:.*]]: memref<8xf32>, %[[G:.*]]: memref<8xf32>, %[[R:.*]]: memref<8xf32>)
// CHECK-SAME: argument = -1 : i64
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: memref.copy %[[W]], %[[A]]
// CHECK: mprt.launch @update ins(%[[G]] : memref<8xf32>) outs(%[[A]] : memref<8xf32>)
// CHECK: memref.copy %[[A]], %[[R]]
func.func @not_donated(%w: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mprt.launch @update ins(%g : tensor<8xf32>) outs(%w : tensor<8xf32>) -> (tensor<8xf32>)
  return %0 : tensor<8xf32>
}

// A result computed into a fresh tensor is computed into its buffer.
// CHECK-LABEL: func.func @fresh
// CHECK-SAME: (%[[G:.*]]: memref<8xf32>, %[[R:.*]]: memref<8xf32>)
// CHECK-NEXT: mprt.launch @update ins(%[[G]] : memref<8xf32>) outs(%[[R]] : memref<8xf32>)
// CHECK-NEXT: return
func.func @fresh(%g: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = mprt.launch @update ins(%g : tensor<8xf32>) outs(%e : tensor<8xf32>) -> (tensor<8xf32>)
  return %0 : tensor<8xf32>
}

// -----

// Buffers that are donated to each other's results are swapped by way of one
// more.
// CHECK-LABEL: func.func @swap
// CHECK-SAME: (%[[A:[^:]*]]: memref<8xf32> {{{.*}}}, %[[B:[^:]*]]: memref<8xf32>
// CHECK: %[[T:.*]] = memref.alloc
// CHECK: memref.copy %[[B]], %[[T]] :
// CHECK: memref.copy %[[A]], %[[B]] :
// CHECK: memref.copy %[[T]], %[[A]] :
// CHECK-NOT: memref.copy
func.func @swap(%a: tensor<8xf32> {mpcomm.donated = 0 : i64}, %b: tensor<8xf32> {mpcomm.donated = 1 : i64}) -> (tensor<8xf32>, tensor<8xf32>) {
  return %b, %a : tensor<8xf32>, tensor<8xf32>
}

// -----

// A bucket stays where it is from its gradients to its users.
// CHECK-LABEL: func.func @collective
// CHECK: %[[B:.*]] = memref.alloc
// CHECK: mprt.launch @grad ins(%{{.*}}) outs(%[[B]] :
// CHECK: mprt.start {{.*}} ins() outs(%[[B]] : memref<8xf32>)
// CHECK: mprt.await event = 0 ins() outs(%[[B]] : memref<8xf32>)
// CHECK: mprt.launch @update ins(%[[B]] : memref<8xf32>)
// CHECK-NOT: memref.copy
func.func @collective(%w: tensor<8xf32> {mpcomm.donated = 0 : i64}, %x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %g = mprt.launch @grad ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> (tensor<8xf32>)
  %s = mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%g : tensor<8xf32>) -> (tensor<8xf32>)
  %r = mprt.await event = 0 ins() outs(%s : tensor<8xf32>) -> (tensor<8xf32>)
  %0 = mprt.launch @update ins(%r : tensor<8xf32>) outs(%w : tensor<8xf32>) -> (tensor<8xf32>)
  return %0 : tensor<8xf32>
}
func.func private @grad(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}
func.func private @update(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {mpcomm.kernel}

// -----

// A contraction onto zeros overwrites: no fill is left.
// CHECK-LABEL: func.func @overwrite
// CHECK-NOT: linalg.fill
// CHECK: linalg.contract
// CHECK-SAME: mprt.overwrite
func.func @overwrite(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x2xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<8x2xf32>) -> tensor<8x2xf32>
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<8x4xf32>, tensor<4x2xf32>) outs(%i : tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// -----

// Onto anything else it adds.
// CHECK-LABEL: func.func @onto_ones
// CHECK: linalg.fill
// CHECK-NOT: mprt.overwrite
// CHECK: linalg.contract
// CHECK-NOT: mprt.overwrite
// CHECK: return
func.func @onto_ones(%a: tensor<8x4xf32>, %b: tensor<4x2xf32>) -> tensor<8x2xf32> {
  %z = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<8x2xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<8x2xf32>) -> tensor<8x2xf32>
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<8x4xf32>, tensor<4x2xf32>) outs(%i : tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// -----

// What is read is read before it is written: no buffer is needed.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[OLD:[^:]*]]: memref<8xf32> {{{.*}}}, %[[NEW:[^:]*]]: memref<8xf32> {{{.*}}}, %[[X:[^:]*]]: memref<8xf32>)
// CHECK-NOT: memref.alloc
// CHECK: memref.copy %[[NEW]], %[[OLD]] :
// CHECK: memref.copy %[[X]], %[[NEW]] :
func.func @chain(%old: tensor<8xf32> {mpcomm.donated = 1 : i64}, %new: tensor<8xf32> {mpcomm.donated = 0 : i64}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  return %x, %new : tensor<8xf32>, tensor<8xf32>
}

// -----

// The pieces of a concatenation are no final copies: they are put together
// before the whole is copied.
// CHECK-LABEL: func.func @pieces
// CHECK-SAME: (%[[H:[^:]*]]: memref<2xf32> {{{.*}}}, %[[X:[^:]*]]: memref<1xf32>)
// CHECK-DAG: %[[T:.*]] = memref.alloc
// CHECK-DAG: %[[FROM:.*]] = memref.subview %[[H]][1]
// CHECK: memref.copy %[[FROM]], %[[LOW:.*]] :
// CHECK: memref.copy %[[X]], %[[HIGH:.*]] :
// CHECK: memref.copy %[[T]], %[[H]] :
func.func @pieces(%h: tensor<2xf32> {mpcomm.donated = 0 : i64}, %x: tensor<1xf32>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2xf32>
  %a = tensor.extract_slice %h[1] [1] [1] : tensor<2xf32> to tensor<1xf32>
  %i = tensor.insert_slice %a into %e[0] [1] [1] : tensor<1xf32> into tensor<2xf32>
  %r = tensor.insert_slice %x into %i[1] [1] [1] : tensor<1xf32> into tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// Of what a loop returns it is not known which buffer it is a view of: both wait
// in buffers of their own.
// CHECK-LABEL: func.func @loop
// CHECK-SAME: (%[[X:[^:]*]]: memref<4xf32> {{{.*}}}, %[[Y:[^:]*]]: memref<4xf32> {{{.*}}})
// CHECK: scf.for
// CHECK: memref.copy %{{.*}}, %[[A:.*]] :
// CHECK: memref.copy
// CHECK: memref.copy
// CHECK: memref.copy
// CHECK-NOT: memref.copy
// CHECK: return
func.func @loop(%x: tensor<4xf32> {mpcomm.donated = 0 : i64}, %y: tensor<4xf32> {mpcomm.donated = 1 : i64}) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %f = arith.constant 1.0 : f32
  %r:2 = scf.for %i = %zero to %four step %one iter_args(%a = %x, %b = %y) -> (tensor<4xf32>, tensor<4xf32>) {
    %c = tensor.insert %f into %a[%i] : tensor<4xf32>
    %d = tensor.insert %f into %b[%i] : tensor<4xf32>
    scf.yield %c, %d : tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The second result is computed in the buffer of the first, and leaves it before
// the first is copied there.
// CHECK-LABEL: func.func @shared_piece
// CHECK-SAME: memref<2xf32>, %[[A:[^:]*]]: memref<4xf32>, %[[B:[^:]*]]: memref<4xf32>)
// CHECK: memref.copy %[[A]], %[[B]] :
// CHECK: memref.copy %{{.*}}, %[[A]] :
// CHECK-NEXT: return
func.func @shared_piece(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %i = tensor.insert_slice %x into %e[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %a = tensor.insert_slice %y into %i[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  %b = tensor.insert_slice %z into %i[2] [2] [1] : tensor<2xf32> into tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// The launch writes the first place of what is put in twice, but that is read
// after: it gets a buffer of its own, to which what is in the place is not
// copied before, since nothing is there yet.
// CHECK-LABEL: func.func @undefined_piece
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<2x3xf32>
// CHECK-NOT: memref.copy
// CHECK: mprt.launch @k ins(%{{.*}}) outs(%[[B:[^ ]*]] : memref<1x3xf32>)
// CHECK: memref.copy %[[B]],
// CHECK: memref.copy %[[B]],
// CHECK: return
func.func @undefined_piece(%x: tensor<2x3xf32>, %p: tensor<3xf32>, %d: tensor<4x5xf32> {mpcomm.donated = 0 : i64}) -> tensor<4x5xf32> {
  %e = tensor.empty() : tensor<1x3xf32>
  %b = mprt.launch @k ins(%p : tensor<3xf32>) outs(%e : tensor<1x3xf32>) -> (tensor<1x3xf32>)
  %half = tensor.empty() : tensor<4x3xf32>
  %i0 = tensor.insert_slice %x into %half[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x3xf32>
  %i1 = tensor.insert_slice %b into %i0[2, 0] [1, 3] [1, 1] : tensor<1x3xf32> into tensor<4x3xf32>
  %i2 = tensor.insert_slice %b into %i1[3, 0] [1, 3] [1, 1] : tensor<1x3xf32> into tensor<4x3xf32>
  %whole = tensor.empty() : tensor<4x5xf32>
  %i3 = tensor.insert_slice %i2 into %whole[0, 0] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x5xf32>
  return %i3 : tensor<4x5xf32>
}
func.func private @k(%p: tensor<3xf32>, %o: tensor<1x3xf32>) -> tensor<1x3xf32> attributes {mpcomm.kernel} {
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<3xf32>) outs(%o : tensor<1x3xf32>) {
  ^bb0(%a: f32, %c: f32):
    linalg.yield %a : f32
  } -> tensor<1x3xf32>
  return %b : tensor<1x3xf32>
}

// -----

// Nothing writes memory of no elements: no copy to a donated buffer is left.
// CHECK-LABEL: func.func @no_elements
// CHECK-NOT: memref.copy
// CHECK: return
func.func @no_elements(%g: tensor<2x0xf32> {mpcomm.donated = 1 : i64}, %h: tensor<4x0xf32> {mpcomm.donated = 0 : i64})
    -> (tensor<4x0xf32>, tensor<2x0xf32>) {
  %g1 = tensor.empty() : tensor<2x0xf32>
  %h1 = tensor.empty() : tensor<4x0xf32>
  return %h1, %g1 : tensor<4x0xf32>, tensor<2x0xf32>
}
