// RUN: mpcomm-opt %s --mpcomm-plan-memory --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-plan-memory --split-input-file --remarks-filter=mpcomm-plan-memory --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Buffers whose lives do not overlap share memory.

// REMARK: BucketBytes=0, Buffers=3, Bytes=128, LowerBound=128

// CHECK-LABEL: func.func @reuse
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<128xi8>) attributes {mprt.arena_bytes = 128 : i64, mprt.arena_bytes_by_kind = {activations = 0 : i64, communication = 0 : i64, gradients = 0 : i64, temporaries = 128 : i64}, mprt.bucket_bytes = 0 : i64}
func.func @reuse(%x: memref<16xf32>, %y: memref<16xf32>) {
  // Three buffers of 64 bytes, never more than two at a time: 128 bytes.
  // CHECK-NOT: memref.alloc
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  mprt.copy %x, %a : memref<16xf32>, memref<16xf32>
  mprt.copy %a, %b : memref<16xf32>, memref<16xf32>
  mprt.copy %b, %c : memref<16xf32>, memref<16xf32>
  mprt.copy %c, %y : memref<16xf32>, memref<16xf32>
  return
}

// -----

// The members of a bucket are next to each other, at multiples of 64 bytes, and
// what computes them writes them there.
// CHECK-LABEL: func.func @bucket
// CHECK-SAME: mprt.arena_bytes = 128 : i64, mprt.arena_bytes_by_kind = {activations = 0 : i64, communication = 128 : i64, gradients = 0 : i64, temporaries = 0 : i64}, mprt.bucket_bytes = 128 : i64
// CHECK: %[[B:.*]] = memref.view %{{.*}}[%{{.*}}][] : memref<128xi8> to memref<128xi8>
// CHECK: %[[C0:.*]] = arith.constant 0 : index
// CHECK: %[[G0:.*]] = memref.view %[[B]][%[[C0]]][] : memref<128xi8> to memref<10xf32>
// CHECK: %[[C64:.*]] = arith.constant 64 : index
// CHECK: %[[G1:.*]] = memref.view %[[B]][%[[C64]]][] : memref<128xi8> to memref<4xf32>
// CHECK: mprt.launch @k0 ins(%{{.*}}) outs(%[[G0]] :
// CHECK: mprt.launch @k1 ins(%{{.*}}) outs(%[[G1]] :
// CHECK: mprt.start {{.*}} outs(%[[G0]], %[[G1]] :
// CHECK-NOT: memref.copy
func.func @bucket(%x: memref<10xf32>, %y: memref<4xf32>) {
  %g0 = memref.alloc() : memref<10xf32>
  %g1 = memref.alloc() : memref<4xf32>
  mprt.launch @k0 ins(%x : memref<10xf32>) outs(%g0 : memref<10xf32>)
  mprt.launch @k1 ins(%y : memref<4xf32>) outs(%g1 : memref<4xf32>)
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%g0, %g1 : memref<10xf32>, memref<4xf32>)
  mprt.await event = 0 ins() outs(%g0, %g1 : memref<10xf32>, memref<4xf32>)
  mprt.copy %g0, %x : memref<10xf32>, memref<10xf32>
  mprt.copy %g1, %y : memref<4xf32>, memref<4xf32>
  return
}
func.func private @k0(tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32> attributes {mpcomm.kernel}
func.func private @k1(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {mpcomm.kernel}

// -----

// A buffer that is not the step's own is copied into the bucket and back.
// CHECK-LABEL: func.func @foreign
// CHECK-SAME: (%[[X:.*]]: memref<16xf32>,
// CHECK: memref.copy %[[X]], %[[OWN:.*]] :
// CHECK: mprt.start {{.*}} outs(%[[OWN]], %[[G:.*]] :
// CHECK: mprt.await {{.*}} outs(%[[OWN]], %[[G]] :
// CHECK: memref.copy %[[OWN]], %[[X]] :
func.func @foreign(%x: memref<16xf32>) {
  %g = memref.alloc() : memref<16xf32>
  mprt.zero %g : memref<16xf32>
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%x, %g : memref<16xf32>, memref<16xf32>)
  mprt.await event = 0 ins() outs(%x, %g : memref<16xf32>, memref<16xf32>)
  return
}

// -----

// A buffer in flight is not given to others before its await.
// CHECK-LABEL: func.func @in_flight
// CHECK-SAME: mprt.arena_bytes = 128 : i64
func.func @in_flight(%x: memref<16xf32>) {
  %g = memref.alloc() : memref<16xf32>
  %t = memref.alloc() : memref<16xf32>
  mprt.zero %g : memref<16xf32>
  mprt.start "all_reduce" "sum" id = 0 communicator = 0 event = 0 peer = -1 accumulate f32 ins() outs(%g : memref<16xf32>)
  mprt.zero %t : memref<16xf32>
  mprt.copy %t, %x : memref<16xf32>, memref<16xf32>
  mprt.await event = 0 ins() outs(%g : memref<16xf32>)
  return
}
