// With a policy of caps, buckets are filled in ready order, are after their last
// operand, and never after a use of what they give.

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="policy=ddp max-bucket-bytes=32 first-bucket-bytes=16" \
// RUN:   | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="policy=ddp max-bucket-bytes=32 first-bucket-bytes=16" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// What memory leaves raises no other cap.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="policy=ddp max-bucket-bytes=32 first-bucket-bytes=16 peak-bytes=1000000000000" \
// RUN:   | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="policy=none" \
// RUN:   | FileCheck %s --check-prefix=EACH

mpcomm.mesh @mesh <["pp" = 2, "dp" = 2]>

// 4 x f32 are 16 bytes, 2 x f32 are 8: the first bucket takes %x alone (the
// next one would make it 32 > 16), the second %y and %z (16 + 16 = 32), the
// third %u and %v (8 + 8).
// REMARK: Bucket | {{.*}}Function=caps | bytes=16, of=10, position=0, tensors=1
// REMARK: Bucket | {{.*}}Function=caps | bytes=32, of=10, position=4, tensors=2
// REMARK: Bucket | {{.*}}Function=caps | bytes=16, of=10, position=8, tensors=2
// REMARK: CombineCollectives{{.*}}Function=caps | after=3, before=5

// CHECK-LABEL: func.func @caps
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[U0:.*]]: tensor<2xf32>
func.func @caps(%x: tensor<4xf32>, %u0: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%[[X]]) on @mesh axes ["dp"] mean : tensor<4xf32>
  // CHECK-NEXT: %[[Y:.*]] = arith.addf
  // CHECK-NEXT: %[[Z:.*]] = arith.mulf
  // CHECK-NEXT: %[[B:.*]]:2 = mpcomm.all_reduce(%[[Y]], %[[Z]]) on @mesh axes ["dp"] mean {mpcomm.user_cap} : tensor<4xf32>, tensor<4xf32>
  // CHECK-NEXT: %[[U:.*]] = arith.addf
  // CHECK-NEXT: %[[V:.*]] = arith.mulf
  // CHECK-NEXT: %[[C:.*]]:2 = mpcomm.all_reduce(%[[U]], %[[V]]) on @mesh axes ["dp"] mean : tensor<2xf32>, tensor<2xf32>
  // CHECK-NEXT: return %[[A]], %[[B]]#0, %[[B]]#1, %[[C]]#0, %[[C]]#1
  // EACH-LABEL: func.func @caps
  // EACH-COUNT-5: mpcomm.all_reduce
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4xf32>
  %y = arith.addf %x, %x : tensor<4xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  %z = arith.mulf %y, %y : tensor<4xf32>
  %c = mpcomm.all_reduce(%z) on @mesh axes ["dp"] mean : tensor<4xf32>
  %u = arith.addf %u0, %u0 : tensor<2xf32>
  %d = mpcomm.all_reduce(%u) on @mesh axes ["dp"] mean : tensor<2xf32>
  %v = arith.mulf %u, %u : tensor<2xf32>
  %e = mpcomm.all_reduce(%v) on @mesh axes ["dp"] mean : tensor<2xf32>
  return %a, %b, %c, %d, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>
}

// An op larger than the cap has a bucket of its own.
// CHECK-LABEL: func.func @larger_than_cap
func.func @larger_than_cap(%x: tensor<16xf32>, %s: tensor<2xf32>) -> (tensor<16xf32>, tensor<2xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) {{.*}} : tensor<16xf32>
  // CHECK-NEXT: mpcomm.all_reduce(%arg1) {{.*}} : tensor<2xf32>
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<16xf32>
  %b = mpcomm.all_reduce(%s) on @mesh axes ["dp"] mean : tensor<2xf32>
  return %a, %b : tensor<16xf32>, tensor<2xf32>
}

// What is at the end is started when its operand is ready.
// CHECK-LABEL: func.func @hoisted
func.func @hoisted(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: arith.addf
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: arith.mulf
  // CHECK-NEXT: return
  %y = arith.addf %x, %x : tensor<4xf32>
  %z = arith.mulf %y, %y : tensor<4xf32>
  %r = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<4xf32>
  return %r, %z : tensor<4xf32>, tensor<4xf32>
}

// Ops that differ in anything but their tensors are apart.
// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<1xf32>, %h: tensor<1xf16>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf16>, tensor<1xf32>, tensor<1xf32>) {
  // CHECK-DAG: mpcomm.all_reduce(%arg0, %arg0) on @mesh axes ["dp"] mean : tensor<1xf32>, tensor<1xf32>
  // CHECK-DAG: mpcomm.all_reduce(%arg0) on @mesh axes ["pp"] mean : tensor<1xf32>
  // CHECK-DAG: mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] sum : tensor<1xf32>
  // CHECK-DAG: mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean wire bf16 : tensor<1xf32>
  // CHECK-DAG: mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean accumulate f64 : tensor<1xf32>
  // CHECK-DAG: mpcomm.all_reduce(%arg1) on @mesh axes ["dp"] mean : tensor<1xf16>
  // CHECK-DAG: mpcomm.all_reduce(%arg0) on @mesh axes ["dp"] mean {tag} : tensor<1xf32>
  %0 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  %1 = mpcomm.all_reduce(%x) on @mesh axes ["pp"] mean : tensor<1xf32>
  %2 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] sum : tensor<1xf32>
  %3 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean wire bf16 : tensor<1xf32>
  %4 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean accumulate f64 : tensor<1xf32>
  %5 = mpcomm.all_reduce(%h) on @mesh axes ["dp"] mean : tensor<1xf16>
  %6 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean {tag} : tensor<1xf32>
  %7 = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf16>, tensor<1xf32>, tensor<1xf32>
}

// A use between two operands keeps the ops apart, and a remark says so.
// REMARK: BucketClosed{{.*}}Function=use_between | Reason="a result is used before the next operand is ready"
// CHECK-LABEL: func.func @use_between
func.func @use_between(%x: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK-NEXT: %[[A:.*]] = mpcomm.all_reduce(%arg0)
  // CHECK-NEXT: %[[Y:.*]] = arith.addf %[[A]], %[[A]]
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[Y]])
  // CHECK-NEXT: return %[[B]]
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  %y = arith.addf %a, %a : tensor<1xf32>
  %b = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %b : tensor<1xf32>
}

// %b needs %a directly: it stays after it, wherever %a's bucket ends up.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  // CHECK-NEXT: %[[Y:.*]] = arith.addf
  // CHECK-NEXT: %[[A:.*]]:2 = mpcomm.all_reduce(%arg0, %[[Y]]) on @mesh axes ["dp"] mean
  // CHECK-NEXT: %[[B:.*]] = mpcomm.all_reduce(%[[A]]#0) on @mesh axes ["dp"] mean
  // CHECK-NEXT: return %[[B]], %[[A]]#1
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  %y = arith.addf %x, %x : tensor<1xf32>
  %c = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<1xf32>
  %b = mpcomm.all_reduce(%a) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %b, %c : tensor<1xf32>, tensor<1xf32>
}

// A use in a region counts as one of the op around it.
// CHECK-LABEL: func.func @use_in_region
func.func @use_in_region(%x: tensor<1xf32>, %p: i1) -> (tensor<1xf32>, tensor<1xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0)
  // CHECK-NEXT: scf.if
  // CHECK: mpcomm.all_reduce
  // CHECK-NEXT: return
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  %i = scf.if %p -> tensor<1xf32> {
    scf.yield %a : tensor<1xf32>
  } else {
    scf.yield %x : tensor<1xf32>
  }
  %y = arith.addf %x, %i : tensor<1xf32>
  %c = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %i, %c : tensor<1xf32>, tensor<1xf32>
}

// Nothing crosses an op that fixes an order, nor does an op start before it.
// CHECK-LABEL: func.func @barrier
func.func @barrier(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) {{.*}} : tensor<1xf32>
  // CHECK-NEXT: mpcomm.barrier
  // CHECK-NEXT: mpcomm.all_reduce(%arg0) {{.*}} : tensor<1xf32>
  %a = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  mpcomm.barrier on @mesh axes ["dp"]
  %b = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %a, %b : tensor<1xf32>, tensor<1xf32>
}

// Operands of several types in one op: left alone.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<1xf32>, %h: tensor<1xf16>) -> (tensor<1xf32>, tensor<1xf32>) {
  // CHECK-NEXT: mpcomm.all_reduce(%arg0, %arg1)
  // CHECK-NEXT: mpcomm.all_reduce(%arg0)
  %a:2 = mpcomm.all_reduce(%x, %h) on @mesh axes ["dp"] mean : tensor<1xf32>, tensor<1xf16>
  %b = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
  return %a#0, %b : tensor<1xf32>, tensor<1xf32>
}

// What runs asynchronously is not touched.
// CHECK-LABEL: func.func @async
func.func @async(%x: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK-NEXT: mpcomm.async
  // CHECK-NEXT: mpcomm.all_reduce
  // CHECK-NEXT: mpcomm.yield
  %f = mpcomm.async {
    %r = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<1xf32>
    mpcomm.yield %r : tensor<1xf32>
  } : !mpcomm.future<tensor<1xf32>>
  %v = mpcomm.await %f : !mpcomm.future<tensor<1xf32>>
  return %v : tensor<1xf32>
}

func.func private @declaration(tensor<4xf32>)
