// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=bf16/i8 cluster=%S/Inputs/one-level.json" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-compress-collectives="type=i8/bf16 cluster=%S/Inputs/one-level.json min-bytes=0" --remarks-filter=mpcomm-compress-collectives --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=bf16/i3" 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not mpcomm-opt %s --mpcomm-compress-collectives="type=i8/i1 block=12" 2>&1 | FileCheck %s --check-prefix=BYTES
//
// Of several types each all_reduce has the one that is faster. The cluster of
// Inputs/one-level.json has 10 us a message, 1e9 B/s and memory that costs next
// to nothing. n bytes of f32 take 20 us + n / 2 ns as bf16, in 2 messages, and
// 40 us + n / 4 + n / 256 ns as i8, in 4: from 20 us / 0.24609375 ns = 81,270
// bytes on that is faster.
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// TYPE: error: cannot send as 'bf16/i3', expected
// BYTES: error: expected a block of whole bytes, got 12 elements of i1

// CHECK-LABEL: func.func @short
// CHECK: all_to_all({{.*}}xbf16>
// CHECK-NOT: xi8>
// CHECK-LABEL: func.func @long
// CHECK: all_to_all({{.*}}xi8>
// CHECK-NOT: xbf16>

// WHY: Compressed{{.*}}Function=short | bf16_us=60.6, bytes=81268, compressed=40960, i8_us=60.6, plain_us=101.3, type=bf16
// WHY: Compressed{{.*}}Function=long | bf16_us=60.6, bytes=81272, compressed=20800, i8_us=60.6, plain_us=101.3, type=i8
mpcomm.mesh @mesh <["dp" = 2]>
func.func @short(%a: tensor<20317xf32>) -> tensor<20317xf32> {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] sum accumulate f32 : tensor<20317xf32>
  return %r : tensor<20317xf32>
}
func.func @long(%a: tensor<20318xf32>) -> tensor<20318xf32> {
  %r = mpcomm.all_reduce(%a) on @mesh axes ["dp"] sum accumulate f32 : tensor<20318xf32>
  return %r : tensor<20318xf32>
}
