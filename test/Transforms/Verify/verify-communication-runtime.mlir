// Form 5 is read too: streams by the module's communicators and channels, ends
// by events, and the numbers that the runtime compares.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-communication
// RUN: not mpcomm-opt %s -split-input-file --mpcomm-verify-communication --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark 2>&1 | FileCheck %s

// An event is used again once awaited; awaiting it twice does no harm; gaps
// between the tensors of a bucket travel.
// CHECK: Proved{{.*}}Function=step | cells=1, collectives=3, instructions=6, ranks=4
module attributes {mprt.communicators = [["dp"], ["pp"], ["pp"]], mprt.channels = array<i64: 0, 0, 7>, mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
  func.func @step(%arena: memref<1024xi8>, %x: tensor<4xf32>) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %a = memref.view %arena[%c0][] : memref<1024xi8> to memref<4xf32>
    %b = memref.view %arena[%c64][] : memref<1024xi8> to memref<4xf32>
    mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.await event = 0 ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.await event = 0 ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    %r = mprt.start "broadcast" "" id = 1 communicator = 1 event = 0 peer = 1 accumulate f32
        ins() outs(%x : tensor<4xf32>) -> (tensor<4xf32>)
    mprt.start "barrier" "" id = 2 communicator = 2 event = 1 peer = -1 accumulate f32 ins() outs()
    %s = mprt.await event = 0 ins() outs(%r : tensor<4xf32>) -> (tensor<4xf32>)
    mprt.await event = 1 ins() outs()
    return
  }
}

// -----

// The parts of a step mark events of their caller; kernels only compute, wherever
// they are.
// CHECK: Proved{{.*}}Function=step | cells=1, collectives=2, instructions=4, ranks=2
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func private @part(%x: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32> {
    %r = mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%x : tensor<4xf32>) -> (tensor<4xf32>)
    %s = mprt.await event = 0 ins() outs(%r : tensor<4xf32>) -> (tensor<4xf32>)
    return %s : tensor<4xf32>
  }
  func.func private @kernel(tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}
  func.func @step(%y: tensor<4xf32>) -> tensor<4xf32> {
    %x = mprt.launch @kernel outs(%y : tensor<4xf32>) -> (tensor<4xf32>)
    %a = mprt.call @part outs(%x : tensor<4xf32>) -> (tensor<4xf32>)
    %b = mprt.call @part outs(%a : tensor<4xf32>) -> (tensor<4xf32>)
    return %b : tensor<4xf32>
  }
}

// -----

// Gaps that differ are other counts; a note says where a part is called.
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
  func.func @first(%arena: memref<1024xi8>) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %a = memref.view %arena[%c0][] : memref<1024xi8> to memref<4xf32>
    %b = memref.view %arena[%c64][] : memref<1024xi8> to memref<4xf32>
    // expected-error@+1 {{mismatched count: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 20 x f32, accumulate f32, id 0, 4 at 0 + 4 at 16 elements), rank 1 (dp 1) calls all_reduce(mean, 8 x f32, accumulate f32, id 0, 4 at 0 + 4 at 4 elements)}}
    mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.await event = 0 ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    return
  }
  func.func private @part(%arena: memref<1024xi8> {mprt.update}) attributes {mprt.results = []} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %a = memref.view %arena[%c0][] : memref<1024xi8> to memref<4xf32>
    %b = memref.view %arena[%c16][] : memref<1024xi8> to memref<4xf32>
    // expected-note@+1 {{rank 1 (dp 1) calls this}}
    mprt.start "all_reduce" "mean" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32
        ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    mprt.await event = 0 ins() outs(%a, %b : memref<4xf32>, memref<4xf32>)
    return
  }
  func.func @second(%arena: memref<1024xi8>) {
    // expected-note@+1 {{called here}}
    mprt.call @part ins(%arena : memref<1024xi8>)
    return
  }
}

// -----

// The runtime would refuse these two.
module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
  func.func @first() {
    // expected-error@+1 {{mismatched tag: collective 1 on communicator dp: rank 0 (dp 0) calls barrier(id 0), rank 1 (dp 1) calls barrier(step, id 1)}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
  func.func @second() {
    // expected-note@+1 {{rank 1 (dp 1) calls this}}
    mprt.start "barrier" "" id = 1 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs() {mpcomm.tag = "step"}
    return
  }
}

// -----

module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step() {
    // expected-note@+1 {{it marks the end of this one, which was not awaited since}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 3 peer = -1 accumulate f32 ins() outs()
    // expected-error@+1 {{'mprt.start' marks its end by event 3, expected one that is not in use}}
    mprt.start "barrier" "" id = 1 communicator = 0 event = 3 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step() {
    // expected-error@+1 {{'mprt.await' awaits event 0, expected one that a collective before it marks}}
    mprt.await event = 0 ins() outs()
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step() {
    // expected-error@+1 {{'mprt.start' names communicator 1 of 1}}
    mprt.start "barrier" "" id = 0 communicator = 1 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [["tp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step() {
    // expected-error@+1 {{'mprt.start' names axis "tp", which mesh @mesh does not have}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [[]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step() {
    // expected-error@+1 {{'mprt.start' runs along no axis, expected one}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [["dp"]], mprt.mesh = @none} {
  func.func @step() {
    // expected-error@+1 {{'mprt.start' names @none, which is not an mpcomm.mesh}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module {
  func.func @step() {
    // expected-error@+1 {{'mprt.start' is in a module without 'mprt.communicators'}}
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}

// -----

module attributes {mprt.communicators = [["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  func.func @step(%x: tensor<4xf32>) {
    // expected-error@+1 {{'mprt.start' has root 2, expected a rank of its group of 2}}
    %r = mprt.start "broadcast" "" id = 1 communicator = 0 event = 0 peer = 2 accumulate f32
        ins() outs(%x : tensor<4xf32>) -> (tensor<4xf32>)
    return
  }
}

// -----

// Streams of their own, that the model takes for one.
module attributes {mprt.communicators = [["dp"], ["dp"]], mprt.mesh = @mesh} {
  mpcomm.mesh @mesh <["dp" = 2]>
  mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
  func.func @first() {
    mprt.start "barrier" "" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
  func.func @second() {
    // expected-error@+1 {{'mprt.start' names communicator 1, which has the axes and the channel of communicator 0}}
    mprt.start "barrier" "" id = 0 communicator = 1 event = 0 peer = -1 accumulate f32 ins() outs()
    return
  }
}
