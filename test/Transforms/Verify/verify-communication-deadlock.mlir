// A deadlock is shown as its cycle: who waits where, and for whom to come to
// what.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-communication
// Where messages are buffered, only the last one hangs.
// RUN: not mpcomm-opt %s -split-input-file --mpcomm-verify-communication=buffered=true 2>&1 \
// RUN:   | FileCheck %s

// CHECK-COUNT-1: error: deadlock
// CHECK-NOT: error: deadlock

// Both send before they receive: no message is believed to be buffered.
mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>
mpcomm.program @swap on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+2 {{deadlock: each of these waits for the next, and the last for the first}}
  // expected-note@+1 {{rank 0 (pp 0, dp 0) waits for send(4 x f32, to 1) on communicator pp, which needs rank 2 (pp 1, dp 0) to come to recv(4 x f32, from 0)}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
  // expected-note@+1 {{what is needed of rank 0 (pp 0, dp 0)}}
  %r = mpcomm.recv on @mesh axes ["pp"] from = 1 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 2 (pp 1, dp 0) waits for send(4 x f32, to 0) on communicator pp, which needs rank 0 (pp 0, dp 0) to come to recv(4 x f32, from 1)}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 0 : tensor<4xf32>
  // expected-note@+1 {{what is needed of rank 2 (pp 1, dp 0)}}
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
  return
}

// -----

// Two communicators in the two orders, each awaited at once, in a part.
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @step on @mesh axes ["pp"] runs [@first, @second]
func.func private @part(%x: tensor<4xf32>) {
  // expected-error@+2 {{deadlock: each of these waits for the next, and the last for the first}}
  // expected-note@+1 {{rank 0 (pp 0) waits for send(4 x f32, to 1) on communicator pp channel 1, which needs rank 1 (pp 1) to come to recv(4 x f32, from 0)}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 1 : tensor<4xf32>
  return
}
func.func @first(%x: tensor<4xf32>) {
  // expected-note@+1 {{called here}}
  func.call @part(%x) : (tensor<4xf32>) -> ()
  // expected-note@+1 {{what is needed of rank 0 (pp 0)}}
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 2 : tensor<4xf32>
  return
}
func.func @second() {
  // expected-note@+1 {{rank 1 (pp 1) waits for recv(4 x f32, from 0) on communicator pp channel 2, which needs rank 0 (pp 0) to come to send(4 x f32, to 1)}}
  %a = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 2 : tensor<4xf32>
  // expected-note@+1 {{what is needed of rank 1 (pp 1)}}
  %b = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 1 : tensor<4xf32>
  return
}

// -----

// Both start their send, and await the recv first: it is queued after the send
// on the one stream. On another channel it is not.
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @step on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  %s = mpcomm.async {
    // expected-note@+2 {{another channel resolves this: move to channel 4 send(4 x f32, to 1) of rank 0 (pp 0) and recv(4 x f32, from 0) of rank 1 (pp 1)}}
    // expected-note@+1 {{what it waits for}}
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 3 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  // expected-error@+3 {{deadlock: each of these waits for the next, and the last for the first}}
  // expected-note@+2 {{rank 0 (pp 0) waits for recv(4 x f32, from 1), which is queued behind send(4 x f32, to 1) on communicator pp channel 3, which needs rank 1 (pp 1) to come to recv(4 x f32, from 0)}}
  // expected-note@+1 {{what is needed of rank 0 (pp 0)}}
  %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 3 : tensor<4xf32>
  mpcomm.await %s : !mpcomm.future<>
  return
}
func.func @second(%x: tensor<4xf32>) {
  %s = mpcomm.async {
    // expected-note@+1 {{what it waits for}}
    mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 3 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  // expected-note@+2 {{rank 1 (pp 1) waits for recv(4 x f32, from 0), which is queued behind send(4 x f32, to 0) on communicator pp channel 3, which needs rank 0 (pp 0) to come to recv(4 x f32, from 1)}}
  // expected-note@+1 {{what is needed of rank 1 (pp 1)}}
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 3 : tensor<4xf32>
  mpcomm.await %s : !mpcomm.future<>
  return
}

// -----

// The same with what was moved.
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @step on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  %s = mpcomm.async {
    mpcomm.send(%x) on @mesh axes ["pp"] to = 1 channel = 4 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %r = mpcomm.recv on @mesh axes ["pp"] from = 1 channel = 3 : tensor<4xf32>
  mpcomm.await %s : !mpcomm.future<>
  return
}
func.func @second(%x: tensor<4xf32>) {
  %s = mpcomm.async {
    mpcomm.send(%x) on @mesh axes ["pp"] to = 0 channel = 3 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  %r = mpcomm.recv on @mesh axes ["pp"] from = 0 channel = 4 : tensor<4xf32>
  mpcomm.await %s : !mpcomm.future<>
  return
}

// -----

// Rank 0 awaits what is queued behind a recv; rank 1 would send that, but waits
// at its end for the same collective.
mpcomm.mesh @mesh <["pp" = 2]>
mpcomm.program @step on @mesh axes ["pp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  %g = mpcomm.async {
    // expected-note@+1 {{what it waits for}}
    %r = mpcomm.recv on @mesh axes ["pp"] from = 1 : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %f = mpcomm.async {
    // expected-note@+1 {{what is needed of rank 0 (pp 0)}}
    %r = mpcomm.all_reduce(%x) on @mesh axes ["pp"] sum : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  // expected-error@+2 {{deadlock: each of these waits for the next, and the last for the first}}
  // expected-note@+1 {{rank 0 (pp 0) waits for all_reduce(sum, 4 x f32, accumulate f32), which is queued behind recv(4 x f32, from 1) on communicator pp, which needs rank 1 (pp 1) to come to send(4 x f32, to 0)}}
  %a = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  %b = mpcomm.await %g : !mpcomm.future<tensor<4xf32>>
  return
}
func.func @second(%x: tensor<4xf32>) {
  %f = mpcomm.async {
    // expected-note@+1 {{what it waits for}}
    %r = mpcomm.all_reduce(%x) on @mesh axes ["pp"] sum : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  %g = mpcomm.async {
    // expected-note@+2 {{another channel resolves this: move to channel 1 send(4 x f32, to 0) of rank 1 (pp 1) and recv(4 x f32, from 1) of rank 0 (pp 0)}}
    // expected-note@+1 {{what is needed of rank 1 (pp 1)}}
    mpcomm.send(%x) on @mesh axes ["pp"] to = 0 : tensor<4xf32>
    mpcomm.yield
  } : !mpcomm.future<>
  // expected-note@+1 {{rank 1 (pp 1) waits at its end for all_reduce(sum, 4 x f32, accumulate f32) on communicator pp, which needs rank 0 (pp 0) to come to all_reduce(sum, 4 x f32, accumulate f32)}}
  return
}
