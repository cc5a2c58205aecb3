// What the ranks that meet do not agree on is an error at the op of one of them,
// with the op of the other.

// RUN: mpcomm-opt %s -split-input-file -verify-diagnostics --mpcomm-verify-communication

// After what they do in common.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  mpcomm.barrier on @mesh axes ["dp"]
  // expected-error@+1 {{mismatched reduction: collective 2 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls all_reduce(sum, 4 x f32, accumulate f32)}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  mpcomm.barrier on @mesh axes ["dp"]
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched kind: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls barrier}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  mpcomm.barrier on @mesh axes ["dp"]
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched count: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls all_reduce(mean, 5 x f32, accumulate f32)}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<5xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<5xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched type: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls all_reduce(mean, 4 x bf16, accumulate f32)}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xbf16>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f32 : tensor<4xbf16>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched wire: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, wire bf16, accumulate f32), rank 1 (dp 1) calls all_reduce(mean, 4 x f32, accumulate f32)}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean wire bf16 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched accumulate: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls all_reduce(mean, 4 x f32, accumulate f64)}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f64 : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched root: collective 1 on communicator dp: rank 0 (dp 0) calls broadcast(4 x f32, root 0), rank 1 (dp 1) calls broadcast(4 x f32, root 1)}}
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 1 : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched tag: collective 1 on communicator dp: rank 0 (dp 0) calls broadcast(4 x f32, root 0, loss), rank 1 (dp 1) calls broadcast(4 x f32, root 0, norm)}}
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 {mpcomm.tag = "loss"} : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 {mpcomm.tag = "norm"} : tensor<4xf32>
  return
}

// -----

// A bucket of the same tensors in another order.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-error@+1 {{mismatched tag: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(sum, 10 x f32, accumulate f32, 4 + 6 elements), rank 1 (dp 1) calls all_reduce(sum, 10 x f32, accumulate f32, 6 + 4 elements)}}
  %r:2 = mpcomm.all_reduce(%x, %y) on @mesh axes ["dp"] sum : tensor<4xf32>, tensor<6xf32>
  return
}
func.func @second(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r:2 = mpcomm.all_reduce(%y, %x) on @mesh axes ["dp"] sum : tensor<6xf32>, tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched order: collective 1 on communicator dp: rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32), rank 1 (dp 1) calls barrier}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  mpcomm.barrier on @mesh axes ["dp"]
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}

// -----

// Two ranks of three take part; the note is at the end of the one that does not.
mpcomm.mesh @mesh <["dp" = 3]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second, @first]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 0 (dp 0) calls all_reduce(mean, 4 x f32, accumulate f32) on communicator dp, rank 1 (dp 1) does not take part and has no more after it}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) is at its end here}}
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 0 (dp 0) calls barrier on communicator dp, rank 1 (dp 1) does not take part, its next is all_reduce(mean, 4 x f32, accumulate f32)}}
  mpcomm.barrier on @mesh axes ["dp"]
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 0 (dp 0) calls send(4 x f32, to 1) on communicator dp, rank 1 (dp 1) has no recv for it and has no more after it}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) is at its end here}}
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 0 (dp 0) is at its end here}}
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 1 (dp 1) calls recv(4 x f32, from 0) on communicator dp, rank 0 (dp 0) has no send for it and has no more after it}}
  %r = mpcomm.recv on @mesh axes ["dp"] from = 0 : tensor<4xf32>
  return
}

// -----

// Another channel is another communicator.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 0 (dp 0) calls send(4 x f32, to 1) on communicator dp channel 1, rank 1 (dp 1) has no recv for it and has no more after it}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 channel = 1 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  %r = mpcomm.recv on @mesh axes ["dp"] from = 0 channel = 2 : tensor<4xf32>
  // expected-note@+1 {{rank 1 (dp 1) is at its end here}}
  return
}

// -----

// What is sent is not what is received.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched count: message 1 between two ranks on communicator dp: rank 0 (dp 0) calls send(4 x f32, to 1), rank 1 (dp 1) calls recv(5 x f32, from 0)}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.recv on @mesh axes ["dp"] from = 0 : tensor<5xf32>
  return
}

// -----

// Messages change places on one side.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched order: message 1 between two ranks on communicator dp: rank 0 (dp 0) calls send(4 x f32, to 1, F0), rank 1 (dp 1) calls recv(4 x f32, from 0, F1)}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 {mpcomm.tag = "F0"} : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["dp"] to = 1 {mpcomm.tag = "F1"} : tensor<4xf32>
  return
}
func.func @second() {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %b = mpcomm.recv on @mesh axes ["dp"] from = 0 {mpcomm.tag = "F1"} : tensor<4xf32>
  %a = mpcomm.recv on @mesh axes ["dp"] from = 0 {mpcomm.tag = "F0"} : tensor<4xf32>
  return
}

// -----

// All ranks send to rank 0, which is not another one for itself.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @step(%x: tensor<4xf32>) {
  // expected-error@+1 {{rank 0 (dp 0) calls send(4 x f32, to 0) on communicator dp, expected another rank of its group as peer}}
  mpcomm.send(%x) on @mesh axes ["dp"] to = 0 : tensor<4xf32>
  return
}

// -----

// A future that a loop awaits in each turn.
mpcomm.mesh @mesh <["dp" = 2]>
func.func @step(%x: tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %f = mpcomm.async {
    // expected-note@+1 {{it starts here}}
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
    mpcomm.yield %r : tensor<4xf32>
  } : !mpcomm.future<tensor<4xf32>>
  scf.for %i = %c0 to %c2 step %c1 {
    // expected-error@+1 {{rank 0 (dp 0) awaits all_reduce(mean, 4 x f32, accumulate f32) a second time}}
    %r = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
  }
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched tag: collective 1 on communicator dp: rank 0 (dp 0) calls permute(4 x f32, 0 to 1, 1 to 0), rank 1 (dp 1) calls permute(4 x f32, 0 to 1)}}
  %r = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1], [1, 0]] : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched root: collective 1 on communicator dp: rank 0 (dp 0) calls reduce(sum, 4 x f32, accumulate f32, root 0), rank 1 (dp 1) calls reduce(sum, 4 x f32, accumulate f32, root 1)}}
  %r = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 0 : tensor<4xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 1 : tensor<4xf32>
  return
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  // expected-error@+1 {{mismatched kind: collective 1 on communicator dp: rank 0 (dp 0) calls scatter(2 x f32, root 1), rank 1 (dp 1) calls gather(4 x f32, root 1)}}
  %r = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 1 dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

// Buckets of as many elements whose tensors are in another order.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-error@+1 {{mismatched tag: collective 1 on communicator dp: rank 0 (dp 0) calls reduce_scatter(mean, 5 x f32, accumulate f32, 2 + 3 elements), rank 1 (dp 1) calls reduce_scatter(mean, 5 x f32, accumulate f32, 3 + 2 elements)}}
  %r:2 = mpcomm.reduce_scatter(%x, %y) on @mesh axes ["dp"] mean dims = [0, 0] : (tensor<4xf32>, tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  return
}
func.func @second(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %r:2 = mpcomm.reduce_scatter(%y, %x) on @mesh axes ["dp"] mean dims = [0, 0] : (tensor<6xf32>, tensor<4xf32>) -> (tensor<3xf32>, tensor<2xf32>)
  return
}

// -----

// Channels are communicators of their own.
mpcomm.mesh @mesh <["dp" = 2]>
mpcomm.program @step on @mesh axes ["dp"] runs [@first, @second]
func.func @first(%x: tensor<4xf32>) {
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean channel = 1 : tensor<4xf32>
  // expected-error@+1 {{mismatched kind: collective 1 on communicator dp: rank 0 (dp 0) calls all_gather(4 x f32), rank 1 (dp 1) calls all_to_all(2 x f32)}}
  %s = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  return
}
func.func @second(%x: tensor<4xf32>) {
  // expected-note@+1 {{rank 1 (dp 1) calls this}}
  %s = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<4xf32>) -> tensor<4xf32>
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean channel = 1 : tensor<4xf32>
  return
}
