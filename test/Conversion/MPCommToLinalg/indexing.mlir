// Order is elementwise generics and reductions of rows: nothing of the size of a row
// squared is a tensor. Running totals are log4(n) passes. Random words are computed where
// they are needed.

// RUN: mpcomm-opt %s --convert-mpcomm-to-linalg --split-input-file | FileCheck %s

// Keys, ranks, the places of the first ranks, and the elements there.
// CHECK-LABEL: func.func @count
// CHECK-SAME: %[[X:.*]]: tensor<8x40xf32>
// CHECK-NOT: tensor<8x40x40
// CHECK: %[[KEYS:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8x40xf32>)
// CHECK: arith.bitcast
// The largest first: keys are complemented.
// CHECK: arith.xori %{{.*}}, %c-1_i32
// CHECK: %[[RANKS:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[KEYS]], %[[KEYS]] : tensor<8x40xi32>, tensor<8x40xi32>)
// CHECK: arith.cmpi slt
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[RANKS]] : tensor<8x40xi32>) outs(%{{.*}} : tensor<8x2xi32>)
// CHECK: linalg.generic
// CHECK: tensor.extract %[[X]]
// CHECK: return %{{.*}}, %{{.*}} : tensor<8x2xf32>, tensor<8x2xi64>
func.func @count(%x: tensor<8x40xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>) {
  %v, %i = mpcomm.top_k %x, dim = 1, k = 2 largest : (tensor<8x40xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>)
  return %v, %i : tensor<8x2xf32>, tensor<8x2xi64>
}

// -----

// Blocks of 64, then runs of 64 and 128 are merged: the search takes steps of 64 to 1.
// CHECK-LABEL: func.func @merge
// CHECK: tensor<768x64xi32>
// CHECK: %[[MERGED:.*]]:2 = linalg.generic {indexing_maps = {{.*}} outs(%{{.*}}, %{{.*}} : tensor<256x192xi32>, tensor<256x192xi32>)
// CHECK-COUNT-16: tensor.extract
// CHECK: linalg.generic {indexing_maps = {{.*}} outs(%{{.*}}, %{{.*}} : tensor<256x192xi32>, tensor<256x192xi32>)
// CHECK-COUNT-18: tensor.extract %[[MERGED]]#0
func.func @merge(%x: tensor<256x192xi32>) -> tensor<256x192xi32> {
  %v, %i = mpcomm.top_k %x, dim = 1, k = 192 : (tensor<256x192xi32>) -> (tensor<256x192xi32>, tensor<256x192xi32>)
  return %i : tensor<256x192xi32>
}

// -----

// The first keys of 128 blocks of 32 choose 4 blocks, whose 128 keys are ordered likewise.
// CHECK-LABEL: func.func @choose
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<512x32xi32>) outs(%{{.*}} : tensor<512xi32>)
// CHECK: arith.minsi
// CHECK-NOT: tensor<4x4096x
// CHECK: return
func.func @choose(%x: tensor<4x4096xf32>) -> tensor<4x4xf32> {
  %v, %i = mpcomm.top_k %x, dim = 1, k = 4 : (tensor<4x4096xf32>) -> (tensor<4x4xf32>, tensor<4x4xi64>)
  return %v : tensor<4x4xf32>
}

// -----

// Strides 1, 4 and 16; bf16 is summed in f32 until the end.
// CHECK-LABEL: func.func @running
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8x40xbf16>) outs(%{{.*}} : tensor<8x40xf32>)
// CHECK: tensor.extract
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8x40xf32>) outs(%{{.*}} : tensor<8x40xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<8x40xf32>) outs(%{{.*}} : tensor<8x40xbf16>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @running(%x: tensor<8x40xbf16>) -> tensor<8x40xbf16> {
  %0 = mpcomm.cumulative sum %x, dim = 1 : (tensor<8x40xbf16>) -> tensor<8x40xbf16>
  return %0 : tensor<8x40xbf16>
}

// -----

// Words have 24 bits that a float holds.
// CHECK-LABEL: func.func @uniform
// CHECK: linalg.generic
// CHECK: arith.muli
// CHECK: %[[BITS:.*]] = arith.shrui %{{.*}}, %c8_i64
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK-NOT: linalg.generic
func.func @uniform(%s: tensor<2xi32>) -> tensor<3x5xf32> {
  %0 = mpcomm.rng uniform %s, id = 7 : (tensor<2xi32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
