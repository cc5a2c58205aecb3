// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 block=4 min-bytes=0" --split-input-file | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="min-bytes=0 block=4" --split-input-file | FileCheck %s --check-prefix=SAME
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8" --split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 cluster=%S/Inputs/one-level.json" --split-input-file | FileCheck %s --check-prefix=PAYS
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 cluster=%S/Inputs/one-level.json" --split-input-file --remarks-filter=mpcomm-compress-collectives --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8 cluster=%S/Inputs/one-level.json min-bytes=26808" --split-input-file | FileCheck %s --check-prefix=PAYS
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=i3" --split-input-file 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=i8 block=0" --split-input-file 2>&1 | FileCheck %s --check-prefix=BLOCK

// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=i1 block=12" --split-input-file 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=top1of12" --split-input-file 2>&1 | FileCheck %s --check-prefix=TOP
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=top1of512" --split-input-file 2>&1 | FileCheck %s --check-prefix=TOP
// TOP: error: cannot send as 'top1of{{[0-9]+}}', expected f16
// BYTES: error: expected a block of whole bytes, got 12 elements of i1
// TYPE: error: cannot send as 'i3', expected f16, bf16, i8, f8E4M3FN, f8E5M2, i4, i1 or top1of8 to top1of256
// BLOCK: error: expected a block of 1 to 1048576 elements and at least 0 bytes (-1: what pays), got 0 and -1
// SMALL-NOT: all_to_all

// Two operands of 13 elements in all fill 2 ranks x 2 blocks x 4 elements. What
// is sent is summed in f32 by whose share it is, and encoded once more.

// CHECK-LABEL: func.func @bucket
// CHECK: %[[ROW:.*]] = mpcomm.concatenate %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 : (tensor<10xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<16xf32>
// CHECK: %[[X:.*]] = mpcomm.reshape %[[ROW]] : (tensor<16xf32>) -> tensor<2x2x4xf32>
// CHECK: %[[ABS:.*]] = math.absf %[[X]]
// CHECK: %[[MAX:.*]] = mpcomm.reduce max %[[ABS]], dims = [2] : (tensor<2x2x4xf32>) -> tensor<2x2xf32>
// CHECK: %[[SCALE:.*]] = arith.maximumf
// CHECK: %[[Q:.*]] = arith.fptosi %{{.*}} : tensor<2x2x4xf32> to tensor<2x2x4xi8>
// CHECK: %[[Q2:.*]] = mpcomm.all_to_all(%[[Q]]) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0]
// CHECK: %[[S2:.*]] = mpcomm.all_to_all(%[[SCALE]]) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0]
// CHECK: %[[TERMS:.*]] = arith.mulf
// CHECK: %[[SUM:.*]] = mpcomm.reduce sum %[[TERMS]], dims = [0] : (tensor<2x2x4xf32>) -> tensor<2x4xf32>
// CHECK: %[[MEAN:.*]] = arith.mulf %[[SUM]]
// CHECK: math.absf %[[MEAN]]
// CHECK: mpcomm.all_gather(%{{.*}}) on @mesh axes ["dp"] dims = [0] : (tensor<2x4xi8>) -> tensor<4x4xi8>
// CHECK: mpcomm.all_gather(%{{.*}}) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
// CHECK: mpcomm.slice %{{.*}}, starts = [0], limits = [10], strides = [1] : (tensor<16xf32>) -> tensor<10xf32>
// CHECK: mpcomm.slice %{{.*}}, starts = [10], limits = [13], strides = [1] : (tensor<16xf32>) -> tensor<3xf32>
// CHECK-NOT: mpcomm.all_reduce

// SAME-LABEL: func.func @bucket
// SAME: mpcomm.all_reduce
mpcomm.mesh @mesh <["dp" = 2]>
func.func @bucket(%a: tensor<5x2xf32>, %b: tensor<3xf32>) -> (tensor<5x2xf32>, tensor<3xf32>) {
  %r:2 = mpcomm.all_reduce(%a, %b) on @mesh axes ["dp"] mean accumulate f32 : tensor<5x2xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<5x2xf32>, tensor<3xf32>
}

// -----

// Without a type: what is sent in 16 bits and summed in f32 keeps its volume and
// is cast, with no scales.

// SAME-LABEL: func.func @narrow
// SAME: %[[SENT:.*]] = arith.truncf %{{.*}} : tensor<2x1x4xf32> to tensor<2x1x4xbf16>
// SAME: %[[GOT:.*]] = mpcomm.all_to_all(%[[SENT]])
// SAME: %[[WIDE:.*]] = arith.extf %[[GOT]] : tensor<2x1x4xbf16> to tensor<2x1x4xf32>
// SAME: %[[SUM:.*]] = mpcomm.reduce sum %[[WIDE]], dims = [0]
// SAME: %[[ONCE:.*]] = arith.truncf %[[SUM]] : tensor<1x4xf32> to tensor<1x4xbf16>
// SAME: mpcomm.all_gather(%[[ONCE]]) on @mesh axes ["dp"] dims = [0] : (tensor<1x4xbf16>) -> tensor<2x4xbf16>
// SAME-NOT: mpcomm.all_reduce

// A maximum, integers, and what does not say where it is summed (a loss) are left
// alone.
// SAME: func.func @others
// SAME-COUNT-3: mpcomm.all_reduce
// CHECK: func.func @others
// CHECK-COUNT-3: mpcomm.all_reduce
mpcomm.mesh @mesh <["dp" = 2]>
func.func @narrow(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] sum wire bf16 accumulate f32 : tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func @others(%a: tensor<8xf32>, %b: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xi32>, tensor<8xf32>) {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] max : tensor<8xf32>
  %s = mpcomm.all_reduce(%b) on @mesh axes ["dp"] sum : tensor<8xi32>
  %t = mpcomm.all_reduce(%a) on @mesh axes ["dp"] mean : tensor<8xf32>
  return %r, %s, %t : tensor<8xf32>, tensor<8xi32>, tensor<8xf32>
}

// -----

// Where it pays: the cluster of Inputs/one-level.json has 10 us a message, 1e9
// B/s and memory that costs next to nothing. n bytes of f32 take 20 us + n ns as
// they are. As i8, 4 messages are 40 us, and n / 4 bytes with n / 256 of scales
// 0.2539 n ns: from 20 us / 0.7461 ns = 26,806 bytes on that is faster.

// WHY: NotCompressed{{.*}}Function=just_too_small | Reason="it would take longer in the model", bytes=26804, i8_us=46.8, plain_us=46.8
// PAYS-LABEL: func.func @just_too_small
// PAYS-NOT: all_to_all
// PAYS-LABEL: func.func @just_large_enough
// PAYS: all_to_all
mpcomm.mesh @mesh <["dp" = 2]>
func.func @just_too_small(%a: tensor<6701xf32>) -> tensor<6701xf32> {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] sum accumulate f32 : tensor<6701xf32>
  return %r : tensor<6701xf32>
}
func.func @just_large_enough(%a: tensor<6702xf32>) -> tensor<6702xf32> {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] sum accumulate f32 : tensor<6702xf32>
  return %r : tensor<6702xf32>
}
