// Which values RankVariance takes to differ between ranks along "dp": each op
// with such a result has a remark.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics \
// RUN:   -pass-pipeline="builtin.module(func.func(test-mpcomm-print-rank-variance))" -o /dev/null

mpcomm.mesh @mesh <["tp" = 2, "dp" = 2]>

func.func @roles(%p: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>},
                 %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
                 %s: tensor<4xf32> {mpcomm.role = #mpcomm.role<rng>}, %n: tensor<4xf32>) {
  %0 = arith.addf %p, %n : tensor<4xf32>
  %1 = arith.constant dense<1.0> : tensor<4xf32>
  // expected-remark@+1 {{varies, from argument #1 'x'}}
  %2 = arith.addf %1, %b : tensor<4xf32>
  // expected-remark@+1 {{varies, from argument #2}}
  %3 = arith.addf %0, %s : tensor<4xf32>
  // expected-remark@+1 {{varies, from argument #1 'x'}}
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
  // expected-remark@+1 {{varies, from 'mpcomm.reduce_scatter'}}
  %4 = mpcomm.reduce_scatter(%p) on @mesh axes ["dp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.all_to_all'}}
  %5 = mpcomm.all_to_all(%p) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{varies, from argument #1}}
  %6 = mpcomm.all_reduce(%b) on @mesh axes ["tp"] mean : tensor<4xf32>
  %7 = mpcomm.reduce_scatter(%p) on @mesh axes ["tp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.recv'}}
  %8 = mpcomm.recv on @mesh axes ["tp"] from = 0 : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  %9 = arith.addf %0, %p : tensor<4xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.collective_permute'}}
  %10 = mpcomm.collective_permute(%p) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.collective_reduce'}}
  %11 = mpcomm.collective_reduce(%p) on @mesh axes ["dp"] sum root = 0 : tensor<4xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.collective_gather'}}
  %12 = mpcomm.collective_gather(%p) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
  // expected-remark@+1 {{varies, from 'mpcomm.collective_scatter'}}
  %13 = mpcomm.collective_scatter(%p) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  %14 = mpcomm.collective_permute(%p) on @mesh axes ["tp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  return
}

func.func private @opaque() -> tensor<4xf32>

// An op whose effects are not known may give anything.
func.func @calls() {
  // expected-remark@+1 {{varies, from 'func.call'}}
  %0 = func.call @opaque() : () -> tensor<4xf32>
  return
}

// Loops are followed to a fixed point: %acc varies from the second trip on.
func.func @loop(%p: tensor<4xf32>, %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>}, %l: index) {
  // expected-remark@+1 {{varies}}
  %0 = scf.for %i = %l to %l step %l iter_args(%acc = %p) -> tensor<4xf32> {
    // expected-remark@+1 {{varies}}
    %1 = arith.addf %acc, %p : tensor<4xf32>
    // expected-remark@+1 {{varies}}
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
  // expected-remark@+1 {{varies}}
  %c = tensor.extract %b[] : tensor<i1>
  // expected-remark@+1 {{varies, from argument #1}}
  %0 = scf.if %c -> tensor<4xf32> {
    // expected-remark@+1 {{runs under control flow that varies}}
    %1 = mpcomm.all_reduce(%p) on @mesh axes ["dp"] mean : tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %p : tensor<4xf32>
  }
  // expected-remark@+1 {{varies, from argument #1}}
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
  // expected-remark@+1 {{varies}}
  %g = mpcomm.async {
    // expected-remark@+1 {{varies}}
    %r = mpcomm.all_reduce(%b) on @mesh axes ["tp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-remark@+1 {{varies, from argument #0}}
  %1 = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  return
}

// Arguments of blocks get what branches pass, and branches decide what runs.
func.func @blocks(%p: tensor<i1>, %b: tensor<i1> {mpcomm.role = #mpcomm.role<batch>}) {
  // expected-remark@+1 {{varies}}
  %c = tensor.extract %b[] : tensor<i1>
  cf.br ^loop(%p : tensor<i1>)
^loop(%x: tensor<i1>):
  // expected-remark@+1 {{varies}}
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
  // expected-remark@+1 {{varies, from argument #2}}
  %2:2 = call @part(%b, %0#0) : (tensor<4xf32>, tensor<i64>) -> (tensor<i64>, tensor<4xf32>)
  %3 = arith.addi %2#0, %2#0 : tensor<i64>
  // expected-remark@+1 {{varies, from argument #2}}
  %4 = arith.addf %2#1, %2#1 : tensor<4xf32>
  return
}
