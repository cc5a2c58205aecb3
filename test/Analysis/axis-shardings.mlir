// What ranks along "dp" hold of results: each op of which they may not hold the
// same has a remark.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-shardings))" -o /dev/null

mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>

func.func @roles(%p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>},
                 %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
                 %s: tensor<4xf32> {mpcomm.role = #mpcomm.role<rng>}, %n: tensor<4xf32>) {
  %0 = arith.addf %p, %n : tensor<4xf32>
  %1 = arith.constant dense<1.0> : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #1 'x'}}
  %2 = arith.addf %1, %b : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #2}}
  %3 = arith.addf %0, %s : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #1 'x'}}
  %4 = arith.addf %0, %2 : tensor<4xf32>
  return
}

// One value for all: all_reduce, all_gather and broadcast over the axis. Each
// its own: reduce_scatter, all_to_all, collective_permute, and those with a root
// that gets more than the others or gives to them. Over another axis things stay as they
// are; what is received is not known.
func.func @collectives(%p: tensor<4xf32>, %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  %0 = mpcomm.all_reduce(%b) on @mesh axes ["dp"] mean : tensor<4xf32>
  %1 = mpcomm.all_reduce(%b) on @mesh axes ["tp", "dp"] mean : tensor<4xf32>
  %2 = mpcomm.all_gather(%b) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  %3 = mpcomm.collective_broadcast(%b) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  // expected-remark@+1 {{is split along dimension 0, from 'mpcomm.reduce_scatter'}}
  %4 = mpcomm.reduce_scatter(%p) on @mesh axes ["dp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{is exchanged along dimension 0, from 'mpcomm.all_to_all'}}
  %5 = mpcomm.all_to_all(%p) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #1}}
  %6 = mpcomm.all_reduce(%b) on @mesh axes ["tp"] mean : tensor<4xf32>
  %7 = mpcomm.reduce_scatter(%p) on @mesh axes ["tp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %8 = mpcomm.recv on @mesh axes ["tp"] from = 0 : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  %9 = arith.addf %0, %p : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.collective_permute'}}
  %10 = mpcomm.collective_permute(%p) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.collective_reduce'}}
  %11 = mpcomm.collective_reduce(%p) on @mesh axes ["dp"] sum root = 0 : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.collective_gather'}}
  %12 = mpcomm.collective_gather(%p) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.collective_scatter'}}
  %13 = mpcomm.collective_scatter(%p) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  %14 = mpcomm.collective_permute(%p) on @mesh axes ["tp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  return
}

func.func private @opaque() -> tensor<4xf32>

// An op whose effects are not known may give anything.
func.func @calls() {
  // expected-remark@+1 {{is local, from 'func.call'}}
  %0 = func.call @opaque() : () -> tensor<4xf32>
  return
}

// Loops are followed to a fixed point: %acc varies from the second trip on.
func.func @loop(%p: tensor<4xf32>, %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}, %l: index) {
  // expected-remark@+1 {{is local}}
  %0 = scf.for %i = %l to %l step %l iter_args(%acc = %p) -> tensor<4xf32> {
    // expected-remark@+1 {{is local}}
    %1 = arith.addf %acc, %p : tensor<4xf32>
    // expected-remark@+1 {{is local}}
    %2 = arith.addf %p, %b : tensor<4xf32>
    scf.yield %2 : tensor<4xf32>
  }
  // A loop that reduces what it uses gives one value.
  %3 = scf.for %i = %l to %l step %l iter_args(%acc = %p) -> tensor<4xf32> {
    %4 = mpcomm.all_reduce(%b) on @mesh axes ["dp"] mean : tensor<4xf32>
    %5 = arith.addf %acc, %4 : tensor<4xf32>
    scf.yield %5 : tensor<4xf32>
  }
  return
}

// A value that a region captures, and a condition that varies.
func.func @regions(%p: tensor<4xf32>, %b: tensor<i1> {mpcomm.role = #mpcomm.role<batch>}, %same: i1) {
  // expected-remark@+1 {{is local}}
  %c = tensor.extract %b[] : tensor<i1>
  // expected-remark@+1 {{is local, from argument #1}}
  %0 = scf.if %c -> tensor<4xf32> {
    // expected-remark@+1 {{runs under control flow that varies}}
    %1 = mpcomm.all_reduce(%p) on @mesh axes ["dp"] mean : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %p : tensor<4xf32>
  }
  // expected-remark@+1 {{is local, from argument #1}}
  %2 = scf.if %same -> i1 {
    scf.yield %c : i1
  } else {
    scf.yield %same : i1
  }
  return
}

// Futures carry the variance of what they will give.
func.func @futures(%b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%b) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %0 = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  // expected-remark@+1 {{is local}}
  %g = mpcomm.async {
    // expected-remark@+1 {{is local}}
    %r = mpcomm.all_reduce(%b) on @mesh axes ["tp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-remark@+1 {{is local, from argument #0}}
  %1 = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  return
}

// Arguments of blocks get what branches pass, and branches decide what runs.
func.func @blocks(%p: tensor<i1>, %b: tensor<i1> {mpcomm.role = #mpcomm.role<batch>}) {
  // expected-remark@+1 {{is local}}
  %c = tensor.extract %b[] : tensor<i1>
  cf.br ^loop(%p : tensor<i1>)
^loop(%x: tensor<i1>):
  // expected-remark@+1 {{is local}}
  %0 = arith.xori %x, %p : tensor<i1>
  // expected-remark@+1 {{runs under control flow that varies}}
  mpcomm.barrier on @mesh axes ["dp"]
  cf.cond_br %c, ^loop(%b : tensor<i1>), ^exit
^exit:
  return
}

// A function that is called is followed: a result varies if what it comes from
// does, in this call or another.
func.func private @part(%b: tensor<4xf32>, %n: tensor<i64>) -> (tensor<i64>, tensor<4xf32>) {
  %0 = arith.addi %n, %n : tensor<i64>
  %1 = arith.addf %b, %b : tensor<4xf32>
  return %0, %1 : tensor<i64>, tensor<4xf32>
}
func.func @follows(%n: tensor<i64>, %p: tensor<4xf32>, %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  %0:2 = call @part(%p, %n) : (tensor<4xf32>, tensor<i64>) -> (tensor<i64>, tensor<4xf32>)
  %1 = arith.addf %0#1, %0#1 : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #2}}
  %2:2 = call @part(%b, %0#0) : (tensor<4xf32>, tensor<i64>) -> (tensor<i64>, tensor<4xf32>)
  %3 = arith.addi %2#0, %2#0 : tensor<i64>
  // expected-remark@+1 {{is local, from argument #2}}
  %4 = arith.addf %2#1, %2#1 : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>

// What works element by element on parts makes parts. A value that is not the same everywhere does not fit them.
func.func @parts(%m: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], flat = ["dp"]>,
                                    mpcomm.global_type = tensor<2x4xf32>},
                 %p: tensor<8xf32>, %q: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-remark@+1 {{is split along dimension 0, from 'mpcomm.all_slice'}}
  %0 = mpcomm.all_slice %p on @mesh axes ["dp"] dim = 0 : (tensor<8xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %1 = arith.addf %m, %0 : tensor<4xf32>
  %c = arith.constant dense<2.0> : tensor<4xf32>
  %w = mpcomm.broadcast_in_dim %lr, dims = [] : (tensor<f32>) -> tensor<4xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %2 = arith.mulf %1, %c : tensor<4xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %3 = arith.mulf %2, %w : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #0}}
  %4 = arith.mulf %3, %q : tensor<4xf32>
  %d = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  // expected-remark@+1 {{is local, from argument #0}}
  %5 = arith.mulf %3, %d : tensor<4xf32>
  // expected-remark@+1 {{is split along dimension 0, from 'mpcomm.all_slice'}}
  %p1, %m1 = mpcomm.sgd_update %0, %3, %lr, %m, momentum = 0.9, weight_decay = 0.0
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // expected-remark@+1 {{is local, from argument #0}}
  %p2, %m2 = mpcomm.sgd_update %q, %3, %lr, %m, momentum = 0.9, weight_decay = 0.0
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %6 = mpcomm.all_gather(%p1) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %7 = mpcomm.reshape %3 : (tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// By the factors of ops: dimensions that are split together, and those that are summed over.
func.func @factors(%x: tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>,
                                        mpcomm.global_type = tensor<4x12xf32>},
                   %w: tensor<6x5xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>,
                                        mpcomm.global_type = tensor<12x5xf32>},
                   %v: tensor<6x5xf32>, %b: tensor<6xf32>, %z: tensor<4x5xf32>) {
  // expected-remark@+1 {{is partial sum, from argument}}
  %0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %1 = mpcomm.all_reduce(%0) on @mesh axes ["dp"] sum : tensor<4x5xf32>
  // Of a replicated operand each rank would need another block.
  // expected-remark@+1 {{is local, from argument #0}}
  %2 = mpcomm.dot_general %x, %v, contracting_dims = [1] x [0]
      : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #1}}
  %3 = mpcomm.dot_general %w, %z, contracting_dims = [1] x [1]
      : (tensor<6x5xf32>, tensor<4x5xf32>) -> tensor<6x4xf32>
  // What is repeated along a dimension is the same in each block.
  %4 = mpcomm.broadcast_in_dim %b, dims = [0] : (tensor<6xf32>) -> tensor<6x5xf32>
  // expected-remark@+1 {{is local, from argument #1}}
  %5 = arith.addf %w, %4 : tensor<6x5xf32>
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %6 = mpcomm.broadcast_in_dim %c, dims = [1] : (tensor<5xf32>) -> tensor<6x5xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #1}}
  %7 = arith.addf %w, %6 : tensor<6x5xf32>
  // expected-remark@+1 {{is split along dimension 1, from argument #1}}
  %8 = mpcomm.transpose %w, dims = [1, 0] : (tensor<6x5xf32>) -> tensor<5x6xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #1}}
  %9 = mpcomm.softmax %w, dim = 1 : tensor<6x5xf32>
  // expected-remark@+1 {{is local, from argument #1}}
  %10 = mpcomm.softmax %w, dim = 0 : tensor<6x5xf32>
  // expected-remark@+1 {{is partial max, from argument #1}}
  %11 = mpcomm.reduce max %w, dims = [0, 1] : (tensor<6x5xf32>) -> tensor<f32>
  // expected-remark@+1 {{is split along dimension 2, from argument #0}}
  %12 = mpcomm.reshape %x : (tensor<4x6xf32>) -> tensor<2x2x3x2xf32>
  // Sums pass through what is linear, and only there.
  // expected-remark@+1 {{is partial sum, from argument}}
  %13 = mpcomm.reshape %0 : (tensor<4x5xf32>) -> tensor<20xf32>
  // expected-remark@+1 {{is partial sum, from argument}}
  %14 = mpcomm.dot_general %0, %v, contracting_dims = [1] x [1]
      : (tensor<4x5xf32>, tensor<6x5xf32>) -> tensor<4x6xf32>
  // expected-remark@+1 {{is local, from argument}}
  %15 = mpcomm.gelu %0 : tensor<4x5xf32>
  // expected-remark@+1 {{is local, from argument}}
  %16 = arith.mulf %0, %0 : tensor<4x5xf32>
  %zero = arith.constant dense<0.0> : tensor<4x5xf32>
  // expected-remark@+1 {{is partial sum, from argument}}
  %17 = arith.addf %0, %zero : tensor<4x5xf32>
  // expected-remark@+1 {{is local, from argument}}
  %18 = arith.addf %0, %z : tensor<4x5xf32>
  return
}

// An op with a body splits what all ops in it do. Here that are the rows: the
// mean over a row needs nothing of others, that over a column does.
func.func @bodies(%p: tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>,
                                       mpcomm.global_type = tensor<8x6xf32>},
                  %s: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}]>,
                                     mpcomm.global_type = tensor<8xf32>},
                  %q: tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>,
                                       mpcomm.global_type = tensor<4x12xf32>}, %t: tensor<4xf32>) {
  // expected-remark@+1 {{is split along dimension 0, from argument}}
  %p1, %s1 = mpcomm.update %p, %p, %s : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4x6xf32>, %g: tensor<4x6xf32>, %v: tensor<4xf32>):
    %0 = mpcomm.reduce sum %g, dims = [1] : (tensor<4x6xf32>) -> tensor<4xf32>
    %1 = arith.addf %0, %v : tensor<4xf32>
    %2 = mpcomm.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %3 = arith.divf %g, %2 : tensor<4x6xf32>
    %4 = arith.subf %a, %3 : tensor<4x6xf32>
    mpcomm.yield %4, %1 : tensor<4x6xf32>, tensor<4xf32>
  }
  // expected-remark@+1 {{is local, from argument}}
  %q1, %t1 = mpcomm.update %q, %q, %t : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4x6xf32>, %g: tensor<4x6xf32>, %v: tensor<4xf32>):
    %0 = mpcomm.reduce sum %g, dims = [1] : (tensor<4x6xf32>) -> tensor<4xf32>
    %1 = arith.addf %0, %v : tensor<4xf32>
    %2 = mpcomm.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %3 = arith.divf %g, %2 : tensor<4x6xf32>
    %4 = arith.subf %a, %3 : tensor<4x6xf32>
    mpcomm.yield %4, %1 : tensor<4x6xf32>, tensor<4xf32>
  }
  return
}

// Ops of linalg: a loop that indexes dimensions alone is a factor.
func.func @structured(%x: tensor<4x6xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"dp"}]>,
                                           mpcomm.global_type = tensor<4x12xf32>},
                      %w: tensor<6x5xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"dp"}, {}]>,
                                           mpcomm.global_type = tensor<12x5xf32>}, %init: tensor<4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x5xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x5xf32>) -> tensor<4x5xf32>
  // expected-remark@+1 {{is partial sum, from argument}}
  %0 = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%fill : tensor<4x5xf32>) -> tensor<4x5xf32>
  // Each rank would add the init.
  // expected-remark@+1 {{is local, from argument}}
  %1 = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  // A running sum starts again on each rank.
  %one = arith.constant dense<0.0> : tensor<f32>
  %row = tensor.empty() : tensor<30xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #1}}
  %flat = tensor.collapse_shape %w [[0, 1]] : tensor<6x5xf32> into tensor<30xf32>
  // expected-remark@+1 {{is local, from argument}}
  %run:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                           iterator_types = ["reduction"]}
      ins(%flat : tensor<30xf32>) outs(%one, %row : tensor<f32>, tensor<30xf32>) {
  ^bb0(%in: f32, %sum: f32, %old: f32):
    %s = arith.addf %sum, %in : f32
    linalg.yield %s, %s : f32, f32
  } -> (tensor<f32>, tensor<30xf32>)
  // expected-remark@+1 {{is split along dimension 0, from argument #1}}
  %2 = tensor.collapse_shape %w [[0, 1]] : tensor<6x5xf32> into tensor<30xf32>
  %e = tensor.empty() : tensor<6x4xf32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %3 = linalg.transpose ins(%x : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
  return
}

// Numbers of all elements are partial; a root of such a one is not of use.
func.func @numbers(%g: tensor<4xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}], flat = ["dp"]>,
                                      mpcomm.global_type = tensor<8xf32>},
                   %h: tensor<4xf32>, %s: tensor<f32>) {
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %u:2, %found = mpcomm.unscale(%g, %h) by %s
      : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>)
  // expected-remark@+1 {{is partial max, from argument #0}}
  %0 = arith.extf %found : tensor<f32> to tensor<f64>
  // expected-remark@+1 {{is local, from argument #0}}
  %1 = arith.mulf %found, %s : tensor<f32>
  %2 = mpcomm.all_reduce(%found) on @mesh axes ["dp"] max : tensor<f32>
  // expected-remark@+1 {{is local, from argument #0}}
  %3 = mpcomm.all_reduce(%found) on @mesh axes ["dp"] sum : tensor<f32>
  // expected-remark@+1 {{is partial sum, from argument #0}}
  %4 = mpcomm.squared_norm(%g) : (tensor<4xf32>) -> tensor<f32>
  // expected-remark@+1 {{is local, from argument #0}}
  %5 = mpcomm.squared_norm(%g, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  // expected-remark@+1 {{is partial sum, from argument #0}}
  %6 = arith.addf %4, %4 : tensor<f32>
  // expected-remark@+1 {{is partial sum, from argument #0}}
  %7 = arith.mulf %4, %s : tensor<f32>
  // expected-remark@+1 {{is local, from argument #0}}
  %8 = arith.addf %4, %s : tensor<f32>
  // expected-remark@+1 {{is local, from argument #0}}
  %9 = math.sqrt %4 : tensor<f32>
  %10 = mpcomm.all_reduce(%4) on @mesh axes ["dp"] sum : tensor<f32>
  // expected-remark@+1 {{is split along dimension 0, from argument #0}}
  %c0, %n0 = mpcomm.clip_by_global_norm(%g) norm = %10, max_norm = 1.0
      : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  // expected-remark@+1 {{is local, from argument #0}}
  %c1, %n1 = mpcomm.clip_by_global_norm(%g) max_norm = 1.0 : (tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  // A reduction of parts is of elements of different places.
  // expected-remark@+1 {{is local, from argument #0}}
  %11 = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum : tensor<4xf32>
  return
}

// -----

// What several stages hold is received as it is sent: the same where all
// senders have the same, by the tag. What a sender has received itself, what
// one sends whose arguments do not say what they are, what the receiver sends,
// and other messages, are not known. A private function sends what any of its
// callers pass.
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>

func.func private @hand_on(%x: tensor<4xf32>) {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied6.0"} : tensor<4xf32>
  return
}

func.func private @hand_on_reduced(%x: tensor<4xf32>) {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied7.0"} : tensor<4xf32>
  return
}

func.func private @hand_on_to_all(%x: tensor<4xf32>) {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied10.0"} : tensor<4xf32>
  return
}

func.func @stranger(%p: tensor<4xf32>) {
  mpcomm.send(%p) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied8.0"} : tensor<4xf32>
  call @hand_on_to_all(%p) : (tensor<4xf32>) -> ()
  return
}

func.func @maker(%p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>},
                 %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  %0 = mpcomm.all_reduce(%b) on @mesh axes ["dp"] mean : tensor<4xf32>
  mpcomm.send(%0) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied0.0"} : tensor<4xf32>
  mpcomm.send(%b) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied1.0"} : tensor<4xf32>
  mpcomm.send(%0) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "B0.e0.v0"} : tensor<4xf32>
  mpcomm.send(%0) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied2.0"} : tensor<4xf32>
  %1 = mpcomm.recv on @mesh axes ["pp"] from = 1 {mpcomm.tag = "tied3.1"} : tensor<4xf32>
  mpcomm.send(%1) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied4.0"} : tensor<4xf32>
  call @hand_on(%b) : (tensor<4xf32>) -> ()
  call @hand_on_reduced(%0) : (tensor<4xf32>) -> ()
  call @hand_on_to_all(%0) : (tensor<4xf32>) -> ()
  mpcomm.send(%0) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied9.0"} : tensor<4xf32>
  return
}

func.func @another(%b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}) {
  mpcomm.send(%b) on @mesh axes ["pp"] to = 1 {mpcomm.tag = "tied2.0"} : tensor<4xf32>
  return
}

func.func @holder(%p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>}) {
  %0 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied0.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %1 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied1.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %2 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "B0.e0.v0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %3 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied2.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %4 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied4.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %5 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied5.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %6 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied6.0"} : tensor<4xf32>
  %7 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied7.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %8 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied8.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %9 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied9.0"} : tensor<4xf32>
  // expected-remark@+1 {{is local, from 'mpcomm.recv'}}
  %10 = mpcomm.recv on @mesh axes ["pp"] from = 0 {mpcomm.tag = "tied10.0"} : tensor<4xf32>
  mpcomm.send(%p) on @mesh axes ["pp"] to = 0 {mpcomm.tag = "tied9.0"} : tensor<4xf32>
  mpcomm.send(%p) on @mesh axes ["pp"] to = 0 {mpcomm.tag = "tied3.1"} : tensor<4xf32>
  return
}
