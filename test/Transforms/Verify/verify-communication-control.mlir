// Communication under control flow is proved where it is known how often it
// runs, and refused elsewhere.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-communication
// RUN: not mpcomm-opt %s -split-input-file --mpcomm-verify-communication --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s

mpcomm.mesh @mesh <["dp" = 2]>

// CHECK: Proved{{.*}}Function=turns | cells=1, collectives=8, instructions=16, ranks=2
func.func @turns(%x: tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    func.call @part(%r) : (tensor<4xf32>) -> ()
  }
  return
}
func.func private @part(%x: tensor<4xf32>) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %r = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return
}

// CHECK: Proved{{.*}}Function=branches | cells=1, collectives=1, instructions=2, ranks=2
func.func @branches(%x: tensor<4xf32>) {
  %true = arith.constant true
  scf.if %true {
    mpcomm.barrier on @mesh axes ["dp"]
  } else {
    mpcomm.send(%x) on @mesh axes ["dp"] to = 0 : tensor<4xf32>
  }
  return
}

// CHECK-NOT: Function=never
func.func @never(%x: tensor<4xf32>) {
  %false = arith.constant false
  scf.if %false {
    mpcomm.send(%x) on @mesh axes ["dp"] to = 0 : tensor<4xf32>
  }
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @condition(%c: i1) {
  // expected-note@+1 {{a condition or a number of turns that is no constant}}
  scf.if %c {
    // expected-error@+1 {{'mpcomm.barrier' communicates under 'scf.if', expected it where it is known how often it runs}}
    mpcomm.barrier on @mesh axes ["dp"]
  }
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @loop(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note@+1 {{a condition or a number of turns that is no constant}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-error@+1 {{'func.call' communicates under 'scf.for', expected it where it is known how often it runs}}
    func.call @part() : () -> ()
  }
  return
}
func.func private @part() {
  mpcomm.barrier on @mesh axes ["dp"]
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func @long() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 4000000000 : index
  scf.for %i = %c0 to %n step %c1 {
    // expected-error@+1 {{'mpcomm.barrier' starts a collective too many: the program of a rank has more than 4194304 starts and awaits}}
    mpcomm.barrier on @mesh axes ["dp"]
  }
  return
}

// -----

// Turns of a parallel loop have no order.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @parallel() {
  // expected-note@+1 {{a condition or a number of turns that is no constant}}
  scf.forall (%i) in (2) {
    // expected-error@+1 {{'mpcomm.barrier' communicates under 'scf.forall'}}
    mpcomm.barrier on @mesh axes ["dp"]
  }
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
// expected-error@+1 {{@blocks communicates and has several blocks, expected one}}
func.func @blocks(%c: i1) {
  cf.cond_br %c, ^then, ^end
^then:
  mpcomm.barrier on @mesh axes ["dp"]
  cf.br ^end
^end:
  return
}

// -----

func.func private @elsewhere()
func.func @calls() {
  // expected-error@+1 {{'func.call' calls what has no body here, expected a function of the module: what it communicates is not known}}
  func.call @elsewhere() : () -> ()
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
func.func private @recursive() {
  mpcomm.barrier on @mesh axes ["dp"]
  // expected-error@+1 {{'func.call' calls a function that runs already, and communicates: how often is not known}}
  func.call @recursive() : () -> ()
  return
}
func.func @calls() {
  func.call @recursive() : () -> ()
  return
}

// -----

func.func @awaits(%f: !mpcomm.future<tensor<4xf32>>) -> tensor<4xf32> {
  // expected-error@+1 {{'mpcomm.await' awaits a future that no mpcomm.async gives, expected an mpcomm.async before it}}
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  return %a : tensor<4xf32>
}

// -----

// A module within has its own programs.
module @inner {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @condition(%c: i1) {
    // expected-note@+1 {{a condition or a number of turns that is no constant}}
    scf.if %c {
      // expected-error@+1 {{'mpcomm.barrier' communicates under 'scf.if'}}
      mpcomm.barrier on @mesh axes ["dp"]
    }
    return
  }
}

// -----

mpcomm.mesh @one <["dp" = 2]>
// expected-note@+1 {{which is this one}}
mpcomm.mesh @other <["dp" = 2]>
func.func @meshes() {
  mpcomm.barrier on @other axes ["dp"]
  // expected-error@+1 {{'mpcomm.barrier' runs on mesh @one, expected @other, that of the program's others}}
  mpcomm.barrier on @one axes ["dp"]
  return
}

// -----

// Turns that only find out that there is nothing to do are too many, too.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @idle(%x: tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 4000000000 : index
  %never = arith.constant false
  // expected-error@+1 {{is under loops and calls that run too often, expected a program of at most 16777216 ops, each time that they run}}
  scf.for %i = %c0 to %n step %c1 {
    scf.if %never {
      mpcomm.barrier on @mesh axes ["dp"]
    }
  }
  return
}
