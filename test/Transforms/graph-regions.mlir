// Blocks without an order of ops, without a terminator, and without a
// definition before its use do not upset a pass; uses out of order are left
// where they are.

// RUN: mpcomm-opt %s -allow-unregistered-dialect --mpcomm-sink-updates \
// RUN:   --mpcomm-combine-collectives | FileCheck %s
// RUN: mpcomm-opt %s -allow-unregistered-dialect --mpcomm-make-async \
// RUN:   | FileCheck %s --check-prefix=ASYNC
// RUN: not mpcomm-opt %s -allow-unregistered-dialect --mpcomm-verify-training-graph 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORM1
// RUN: mpcomm-opt %s -allow-unregistered-dialect --mpcomm-verify-rank-programs -o /dev/null
// RUN: mpcomm-opt %s -allow-unregistered-dialect --mpcomm-verify-scheduled-programs -o /dev/null
// RUN: mpcomm-opt %s -allow-unregistered-dialect --mpcomm-verify-shardings -o /dev/null
// RUN: not mpcomm-opt %s -allow-unregistered-dialect --mpcomm-verify-communication -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PROOF
// RUN: mpcomm-opt %s --canonicalize -allow-unregistered-dialect | FileCheck %s --check-prefix=CANONICAL

// PROOF: error: 'mpcomm.all_reduce' communicates under 'builtin.module', expected it where it is known how often it runs
// FORM1: error: 'func.func' op is public, expected @train_step and @evaluate alone to be so
// CHECK-LABEL: func.func @graph
// ASYNC-LABEL: func.func @graph
func.func @graph(%x: tensor<4xf32>) {
  // CHECK: module {
  // CHECK: %[[U:.*]] = arith.addf %[[A:.*]], %[[B:.*]] : tensor<4xf32>
  // CHECK: %[[A]] = mpcomm.all_reduce(%[[U]])
  // CHECK: %[[B]] = mpcomm.all_reduce(%[[B]])
  // ASYNC: module {
  // ASYNC: mpcomm.async
  // ASYNC: mpcomm.async
  // ASYNC: mpcomm.await
  // ASYNC-NEXT: mpcomm.await
  builtin.module {
    mpcomm.mesh @mesh <["dp" = 2]>
    %u = arith.addf %a, %b : tensor<4xf32>
    %a = mpcomm.all_reduce(%u) on @mesh axes ["dp"] mean : tensor<4xf32>
    %b = mpcomm.all_reduce(%b) on @mesh axes ["dp"] mean : tensor<4xf32>
    %n = math.tanh %n : tensor<4xf32>
    %g = mpcomm.all_gather(%n) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
    "test.use"(%g) : (tensor<8xf32>) -> ()
  }
  "test.empty"() ({
  }) : () -> ()
  "test.block"() ({
  ^bb0(%y: tensor<4xf32>):
  }) : () -> ()
  return
}

module @inner {
  func.func private @declaration(tensor<4xf32>)
}

// Folding follows no value to what makes it from itself.
// CANONICAL-LABEL: module @cycle
module @cycle {
  mpcomm.mesh @mesh <["dp" = 2]>
  // CANONICAL: %[[T:.*]] = mpcomm.transpose %[[T]], dims = [1, 0]
  // CANONICAL: mpcomm.dot_general %[[T]], %[[T]], contracting_dims = [1] x [0]
  // CANONICAL: mpcomm.transpose %[[T]], dims = [1, 0]
  %t = mpcomm.transpose %t, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = mpcomm.dot_general %t, %t, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = mpcomm.transpose %t, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  mpcomm.send(%d) on @mesh axes ["dp"] to = 1 : tensor<4x4xf32>
  mpcomm.send(%u) on @mesh axes ["dp"] to = 1 : tensor<4x4xf32>
}
