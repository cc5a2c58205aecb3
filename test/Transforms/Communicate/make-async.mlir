// Collectives start where they stood and are awaited before the first use, the
// end of the block, or a barrier of their communicator.

// RUN: mpcomm-opt %s --mpcomm-make-async --mpcomm-verify-scheduled-programs --mpcomm-verify-shardings | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-make-async --mpcomm-make-async | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-make-async --remarks-filter="mpcomm.*" \
// RUN:   --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>

// REMARK: MadeAsync{{.*}}Function=first_use | between=1
// REMARK: MakeAsync{{.*}}Function=first_use | wrapped=1

// CHECK-LABEL: func.func @first_use
func.func @first_use(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async {
  // CHECK-NEXT:   %[[R:.*]] = mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean : tensor<4xf32>
  // CHECK-NEXT:   mpcomm.yield %[[R]] : tensor<4xf32>
  // CHECK-NEXT: } : !mpcomm.future<tensor<4xf32>>
  // CHECK-NEXT: %[[H:.*]] = arith.mulf
  // CHECK-NEXT: %[[V:.*]] = mpcomm.await %[[F]] : !mpcomm.future<tensor<4xf32>>
  // CHECK-NEXT: arith.addf %[[H]], %[[V]]
  %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %h = arith.mulf %x, %x : tensor<4xf32>
  %y = arith.addf %h, %r : tensor<4xf32>
  %z = arith.addf %y, %r : tensor<4xf32>
  return %z : tensor<4xf32>
}

// Several results, one await; the operand of one is the result of another.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK:      } : !mpcomm.future<tensor<4xf32>, tensor<f32>>
  // CHECK-NEXT: %[[V:.*]]:2 = mpcomm.await %[[F]]
  // CHECK-NEXT: %[[G:.*]] = mpcomm.async
  // CHECK-NEXT:   mpcomm.all_reduce(%[[V]]#1)
  // CHECK:      %[[W:.*]] = mpcomm.await %[[G]]
  // CHECK-NEXT: return %[[V]]#0, %[[W]]
  %r:2 = mpcomm.all_reduce(%x, %s) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<f32>
  %t = mpcomm.all_reduce(%r#1) on @mesh axes ["dp"] mean : tensor<f32>
  return %r#0, %t : tensor<4xf32>, tensor<f32>
}

// Awaits that meet at one use keep the order of the starts.
// CHECK-LABEL: func.func @order
func.func @order(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK:      %[[G:.*]] = mpcomm.async
  // CHECK:      mpcomm.await %[[F]]
  // CHECK-NEXT: mpcomm.await %[[G]]
  // CHECK-NEXT: return
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %b = mpcomm.all_reduce(%x) on @mesh axes ["dp"] max : tensor<4xf32>
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// Results that nobody uses are awaited at the end; so is a send.
// CHECK-LABEL: func.func @unused
func.func @unused(%x: tensor<4xf32>) {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK-NEXT:   mpcomm.all_reduce
  // CHECK:      %[[G:.*]] = mpcomm.async
  // CHECK-NEXT:   mpcomm.send
  // CHECK-NEXT:   mpcomm.yield
  // CHECK-NEXT: } : !mpcomm.future<>
  // CHECK:      mpcomm.await %[[F]]
  // CHECK-NEXT: mpcomm.await %[[G]]
  // CHECK-NEXT: return
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
  return
}

// A barrier of the communicator waits for what is in flight on it, wherever it
// stands; one of another communicator does not.
// REMARK: StaysSynchronous{{.*}}Function=barriers
// CHECK-LABEL: func.func @barriers
func.func @barriers(%x: tensor<4xf32>, %c: i1) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK:      %[[G:.*]] = mpcomm.async
  // CHECK:      mpcomm.barrier on @mesh axes ["pp"]
  // CHECK-NEXT: %[[V:.*]] = mpcomm.await %[[F]]
  // CHECK-NEXT: scf.if
  // CHECK-NEXT:   mpcomm.barrier on @mesh axes ["dp"]
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[W:.*]] = mpcomm.await %[[G]]
  // CHECK-NEXT: return %[[V]], %[[W]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %b = mpcomm.all_reduce(%x) on @mesh axes ["dp", "pp"] mean : tensor<4xf32>
  mpcomm.barrier on @mesh axes ["pp"]
  scf.if %c {
    mpcomm.barrier on @mesh axes ["dp"]
  }
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// A use in a region: the await is before the op around it. Collectives in
// a region are awaited there.
// CHECK-LABEL: func.func @regions
func.func @regions(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK:      %[[V:.*]] = mpcomm.await %[[F]]
  // CHECK-NEXT: scf.if
  // CHECK-NEXT:   %[[G:.*]] = mpcomm.async
  // CHECK-NEXT:     mpcomm.all_reduce(%[[V]])
  // CHECK:        %[[W:.*]] = mpcomm.await %[[G]]
  // CHECK-NEXT:   scf.yield %[[W]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %i = scf.if %c -> tensor<4xf32> {
    %b = mpcomm.all_reduce(%a) on @mesh axes ["dp"] mean : tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %i : tensor<4xf32>
}

// A use in a later block: awaited at the end of this one.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[F:.*]] = mpcomm.async
  // CHECK:      %[[V:.*]] = mpcomm.await %[[F]]
  // CHECK-NEXT: cf.br
  // CHECK:      return %[[V]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  cf.br ^next
^next:
  return %a : tensor<4xf32>
}

// Every other collective with results is wrapped too.
// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.reduce_scatter
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.all_gather
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.all_to_all
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.collective_broadcast
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.recv
  // CHECK-COUNT-5: mpcomm.await
  %0 = mpcomm.reduce_scatter(%x) on @mesh axes ["dp"] sum dims = [0] : (tensor<4xf32>) -> tensor<2xf32>
  %1 = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
  %2 = mpcomm.all_to_all(%x) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<4xf32>) -> tensor<4xf32>
  %3 = mpcomm.collective_broadcast(%x) on @mesh axes ["dp"] root = 0 : tensor<4xf32>
  %4 = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
  return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @rooted_kinds
func.func @rooted_kinds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<2xf32>) {
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.collective_permute
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.collective_reduce
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.collective_gather
  // CHECK: mpcomm.async {
  // CHECK-NEXT: mpcomm.collective_scatter
  // CHECK-COUNT-4: mpcomm.await
  %0 = mpcomm.collective_permute(%x) on @mesh axes ["dp"] source_target_pairs = [[0, 1]] : tensor<4xf32>
  %1 = mpcomm.collective_reduce(%x) on @mesh axes ["dp"] sum root = 1 : tensor<4xf32>
  %2 = mpcomm.collective_gather(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
  %3 = mpcomm.collective_scatter(%x) on @mesh axes ["dp"] root = 0 dim = 0 : (tensor<4xf32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<2xf32>
}

func.func private @declaration(tensor<4xf32>)
