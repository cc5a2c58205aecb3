// The memory bound of buckets: a bucket is alive, in all its bytes, from its
// first gradient to the end of its collective.
//
// The cluster of Inputs/one-level.json: 1e9 flop/s, 10 us a message, 1e9 B/s. A
// gradient of 32 x 32 f32 has 4096 bytes, and one is ready every 65.5 us (32^3
// multiply-adds). n of them are reduced in 20 + 4.1 n us, so each could be
// through before the next is ready. The step ends soonest if the last travels
// alone; of the plans that do so, that with the fewest collectives is taken.

// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json" | FileCheck %s --check-prefix=FREE
// Two gradients a bucket.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json memory-bytes=8192" | FileCheck %s --check-prefix=TWO
// A byte less, and it is one.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json memory-bytes=8191" | FileCheck %s --check-prefix=ONE
// The function has six tensors at its end, 24576 bytes: what is left of the bound is for a bucket.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json peak-bytes=36864" | FileCheck %s --check-prefix=FREE
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json peak-bytes=32768" | FileCheck %s --check-prefix=TWO
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json peak-bytes=32767" | FileCheck %s --check-prefix=ONE
// Less than a gradient no plan keeps: nothing is merged, and it is told.
// RUN: mpcomm-opt %s --mpcomm-combine-collectives="cluster=%S/Inputs/one-level.json memory-bytes=4095" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark 2>%t | FileCheck %s --check-prefix=ONE
// RUN: FileCheck %s --check-prefix=NONE --input-file=%t
// NONE: BucketPlan | {{.*}}stream 0: no plan keeps to 4095 bytes alive; with every tensor alone there are 4096

mpcomm.mesh @mesh <["dp" = 2]>

// FREE-LABEL: func.func @gradients
// FREE: mpcomm.dot_general
// FREE-NEXT: mpcomm.dot_general
// FREE-NEXT: %[[G2:.*]] = mpcomm.dot_general
// FREE-NEXT: mpcomm.all_reduce({{%.*, %.*}}, %[[G2]])
// FREE-NEXT: %[[G3:.*]] = mpcomm.dot_general
// FREE-NEXT: mpcomm.all_reduce(%[[G3]])
// FREE-NEXT: return

// TWO-LABEL: func.func @gradients
// TWO: %[[G0:.*]] = mpcomm.dot_general
// TWO-NEXT: %[[G1:.*]] = mpcomm.dot_general
// TWO-NEXT: mpcomm.all_reduce(%[[G0]], %[[G1]])
// TWO-NEXT: %[[G2:.*]] = mpcomm.dot_general
// TWO-NEXT: mpcomm.all_reduce(%[[G2]])
// TWO-NEXT: %[[G3:.*]] = mpcomm.dot_general
// TWO-NEXT: mpcomm.all_reduce(%[[G3]])
// TWO-NEXT: return

// ONE-LABEL: func.func @gradients
// ONE-COUNT-4: mpcomm.all_reduce({{%[0-9]+}}) on
// ONE-NEXT: return
func.func @gradients(%x: tensor<32x32xf32>, %y: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>) {
  %g0 = mpcomm.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %r0 = mpcomm.all_reduce(%g0) on @mesh axes ["dp"] mean : tensor<32x32xf32>
  %g1 = mpcomm.dot_general %x, %y, contracting_dims = [0] x [1] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %r1 = mpcomm.all_reduce(%g1) on @mesh axes ["dp"] mean : tensor<32x32xf32>
  %g2 = mpcomm.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %r2 = mpcomm.all_reduce(%g2) on @mesh axes ["dp"] mean : tensor<32x32xf32>
  %g3 = mpcomm.dot_general %x, %y, contracting_dims = [1] x [1] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %r3 = mpcomm.all_reduce(%g3) on @mesh axes ["dp"] mean : tensor<32x32xf32>
  return %r0, %r1, %r2, %r3 : tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>, tensor<32x32xf32>
}
