// Programs that cannot hang are proved, in all forms, each with its counts.

// RUN: mpcomm-opt %s --mpcomm-verify-communication -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-verify-communication --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s
// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --mpcomm-verify-communication -o /dev/null
// RUN: mpcomm-opt --help=mpcomm-verify-communication | FileCheck %s --check-prefix=HELP

// HELP: --mpcomm-verify-communication{{[ -]*}} Proves that no rank can hang, and that communication matches
// HELP-NEXT: --buffered {{ *}}- Sends finish without their recv, as if each message fits a buffer

mpcomm.mesh @mesh <["pp" = 2, "dp" = 3]>

// A program for each stage, a channel for each direction. The calls of a part
// start its collectives, and its stage has replicas.
// CHECK: Proved{{.*}}Function=train_step | cells=2, collectives=10, instructions=20, ranks=6
mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.stage0, @train_step.stage1]

func.func private @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  return %y : tensor<4xf32>
}
// Nobody calls this one.
func.func private @odd(%x: tensor<4xf32>) {
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 : tensor<4xf32>
  return
}

func.func @train_step.stage0(%x: tensor<4xf32>) -> tensor<f32> {
  %g = mpcomm.async {
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 2 {mpcomm.tag = "B0"} : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %a = func.call @forward(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = mpcomm.async {
    mpcomm.send(%a) on @mesh axes ["pp"] to = 1 channel = 1 {mpcomm.tag = "F0"} : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %b = func.call @forward(%x) : (tensor<4xf32>) -> tensor<4xf32>
  mpcomm.await %s : !mpcomm.future<>
  %d = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %l = mpcomm.collective_broadcast(%zero) on @mesh axes ["pp"] root = 1 {mpcomm.tag = "loss"} : tensor<f32>
  return %l : tensor<f32>
}
func.func @train_step.stage1(%l: tensor<f32>) -> tensor<f32> {
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 {mpcomm.tag = "F0"} : tensor<4xf32>
  %a = func.call @forward(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @forward(%r) : (tensor<4xf32>) -> tensor<4xf32>
  mpcomm.send(%b) on @mesh axes ["pp"] to = 0 channel = 2 {mpcomm.tag = "B0"} : tensor<4xf32>
  %m = mpcomm.collective_broadcast(%l) on @mesh axes ["pp"] root = 1 {mpcomm.tag = "loss"} : tensor<f32>
  return %m : tensor<f32>
}

// All ranks run one function: a step of Form 3, and one of Form 4. Tensors of
// two types are two collectives.
// CHECK: Proved{{.*}}Function=synchronous | cells=1, collectives=10, instructions=20, ranks=6
func.func @synchronous(%x: tensor<6xf32>, %y: tensor<6xbf16>) {
  %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] mean : tensor<6xf32>, tensor<6xbf16>
  %s = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<6xf32>) -> tensor<2xf32>
  %g = mpcomm.all_gather(%s) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<6xf32>
  %t = mpcomm.all_to_all(%g) on @mesh axes ["pp", "dp"] split_dims = [0] concat_dims = [0] : (tensor<6xf32>) -> tensor<6xf32>
  %p = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 2]] : tensor<6xf32>
  %q = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 1 : tensor<6xf32>
  %u = mpcomm.collective_gather(%s) on @mesh axes ["dp"] root = 2 dim = 0 : (tensor<2xf32>) -> tensor<6xf32>
  %v = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<6xf32>) -> tensor<2xf32>
  mpcomm.barrier on @mesh axes ["pp"]
  return
}
// CHECK: Proved{{.*}}Function=asynchronous | cells=1, collectives=2, instructions=4, ranks=6
func.func @asynchronous(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<6xf32>
    mpcomm.yield %r : tensor<6xf32>
  } : !mpcomm.future<tensor<6xf32>>
  %g = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp", "pp"] mean : tensor<6xf32>
    mpcomm.yield %r : tensor<6xf32>
  } : !mpcomm.future<tensor<6xf32>>
  %b = mpcomm.await %g : !mpcomm.future<tensor<6xf32>>
  %a = mpcomm.await %f : !mpcomm.future<tensor<6xf32>>
  return %a, %b : tensor<6xf32>, tensor<6xf32>
}

// What says nothing needs no proof, whatever else it does.
// CHECK-NOT: Function=silent
func.func @silent(%c: i1, %x: tensor<6xf32>) -> tensor<6xf32> {
  %y = scf.if %c -> tensor<6xf32> {
    scf.yield %x : tensor<6xf32>
  } else {
    %z = arith.addf %x, %x : tensor<6xf32>
    scf.yield %z : tensor<6xf32>
  }
  return %y : tensor<6xf32>
}
