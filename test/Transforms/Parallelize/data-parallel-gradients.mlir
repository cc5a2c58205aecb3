// An optimizer that is written out: marked gradients are averaged, and what is computed
// of them, a norm over all or a new parameter, is the same on all ranks. An update and a
// mark of one gradient share its all_reduce.

// RUN: mpcomm-opt %s --mpcomm-verify-training-graph --mpcomm-data-parallel="size=2" \
// RUN:   --mpcomm-verify-shardings | FileCheck %s

// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %y: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "y"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"}) {
  %loss = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  // CHECK: %[[GW:.*]] = mpcomm.reduce sum %{{.*}}, dims = [0] :
  // CHECK-NEXT: %[[MW:.*]] = mpcomm.all_reduce(%[[GW]]) on @mesh axes ["dp"] mean : tensor<4xf32>
  %gw = mpcomm.reduce sum %x, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[GB:.*]] = mpcomm.reduce sum
  // CHECK-NEXT: %[[MB:.*]] = mpcomm.all_reduce(%[[GB]]) on @mesh axes ["dp"] mean : tensor<2xf32>
  // CHECK-NOT: all_reduce
  %gb = mpcomm.reduce sum %y, dims = [0] : (tensor<8x2xf32>) -> tensor<2xf32>
  // CHECK: %[[HW:.*]] = mpcomm.gradient %[[MW]]
  // CHECK: %[[HB:.*]] = mpcomm.gradient %[[MB]]
  %hw = mpcomm.gradient %gw : tensor<4xf32>
  %hb = mpcomm.gradient %gb : tensor<2xf32>
  %qw = arith.mulf %hw, %hw : tensor<4xf32>
  %qb = arith.mulf %hb, %hb : tensor<2xf32>
  %sw = mpcomm.reduce sum %qw, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %sb = mpcomm.reduce sum %qb, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  %norm = arith.addf %sw, %sb : tensor<f32>
  // CHECK: mpcomm.sgd_update %{{.*}}, %[[MW]], %
  %w1 = mpcomm.sgd_update %w, %gw, %norm, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: arith.subf %{{.*}}, %[[HB]]
  %b1 = arith.subf %b, %hb : tensor<2xf32>
  return %loss, %w1, %b1 : tensor<f32>, tensor<4xf32>, tensor<2xf32>
}
