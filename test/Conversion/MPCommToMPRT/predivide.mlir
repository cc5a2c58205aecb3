// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt --split-input-file | FileCheck %s

mpcomm.mesh @mesh <["pp" = 3, "dp" = 4, "tp" = 1]>

// A quarter is a product.
// CHECK-LABEL: func.func @quarter
// CHECK-SAME: (%[[X:.*]]: tensor<4xf16>)
func.func @quarter(%x: tensor<4xf16>) -> tensor<4xf16> {
  // CHECK: %[[QUARTER:.*]] = arith.constant dense<2.500000e-01> : tensor<4xf16>
  // CHECK-NEXT: %[[R:.*]] = arith.mulf %[[X]], %[[QUARTER]] : tensor<4xf16>
  // CHECK-NEXT: return %[[R]]
  %r = mpcomm.predivide %x on @mesh axes ["dp"] : tensor<4xf16>
  return %r : tensor<4xf16>
}

// A third is a division, and of 16 bits one in f32: bf16 has no 1/3, and no 1,000.
// CHECK-LABEL: func.func @third
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xbf16>)
func.func @third(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>) {
  // CHECK: %[[THREE:.*]] = arith.constant dense<3.000000e+00> : tensor<4xf32>
  // CHECK-NEXT: %[[R:.*]] = arith.divf %[[X]], %[[THREE]] : tensor<4xf32>
  %r = mpcomm.predivide %x on @mesh axes ["pp"] : tensor<4xf32>
  // CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[Y]] : tensor<4xbf16> to tensor<4xf32>
  // CHECK-NEXT: %[[TWELVE:.*]] = arith.constant dense<1.200000e+01> : tensor<4xf32>
  // CHECK-NEXT: %[[Q:.*]] = arith.divf %[[WIDE]], %[[TWELVE]] : tensor<4xf32>
  // CHECK-NEXT: %[[S:.*]] = arith.truncf %[[Q]] : tensor<4xf32> to tensor<4xbf16>
  // CHECK-NEXT: return %[[R]], %[[S]]
  %s = mpcomm.predivide %y on @mesh axes ["pp", "dp"] : tensor<4xbf16>
  return %r, %s : tensor<4xf32>, tensor<4xbf16>
}

// One rank.
// CHECK-LABEL: func.func @one
// CHECK-NEXT: return %arg0
func.func @one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = mpcomm.predivide %x on @mesh axes ["tp"] : tensor<4xf32>
  return %r : tensor<4xf32>
}
