// A loop becomes a call of its body in each trip: carries are updated in place, and what
// is stacked is made in a new buffer.

// RUN: mpcomm-opt %s --convert-mpcomm-to-mprt | FileCheck %s

// CHECK: func.func private @cell(%{{.*}}: tensor<4xf32> {mpcomm.donated = 0 : i64}, %{{.*}}: tensor<i32> {mpcomm.donated = 1 : i64}, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
func.func private @cell(%sum: tensor<4xf32>, %n: tensor<i32>, %x: tensor<4xf32>, %w: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<i32>, tensor<4xf32>) {
  %0 = arith.mulf %x, %w : tensor<4xf32>
  %1 = arith.addf %sum, %0 : tensor<4xf32>
  return %1, %n, %0 : tensor<4xf32>, tensor<i32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @step
// CHECK-SAME: (%[[SUM:.*]]: tensor<4xf32>, %[[N:.*]]: tensor<i32>, %[[X:.*]]: tensor<8x4xf32>, %[[W:.*]]: tensor<4xf32>)
func.func @step(%sum: tensor<4xf32>, %n: tensor<i32>, %x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  // CHECK: %[[INIT:.*]] = tensor.empty() : tensor<8x4xf32>
  // CHECK: %[[R:.*]]:3 = mprt.call @cell trips = 8 reverse ins(%[[X]], %[[W]] : tensor<8x4xf32>, tensor<4xf32>) outs(%[[SUM]], %[[N]], %[[INIT]] : tensor<4xf32>, tensor<i32>, tensor<8x4xf32>)
  %r:3 = mpcomm.scan @cell trips = 8 reverse carries(%sum, %n : tensor<4xf32>, tensor<i32>)
      slices(%x : tensor<8x4xf32>) captured(%w : tensor<4xf32>) -> tensor<4xf32>, tensor<i32>, tensor<8x4xf32>
  // CHECK: return %[[R]]#0, %[[R]]#2
  return %r#0, %r#2 : tensor<4xf32>, tensor<8x4xf32>
}
