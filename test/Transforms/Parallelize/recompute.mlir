// The backward pass of a stage recomputes what it reads of the forward pass:
// all that the stage does not receive, or all but products.

// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" --mpcomm-recompute=policy=stage | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" --mpcomm-recompute=policy=selective | FileCheck %s --check-prefix=SOME
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" > %t.before
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" --mpcomm-recompute > %t.after
// RUN: diff %t.before %t.after
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=2" --mpcomm-recompute=policy=stage \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" --mpcomm-verify-communication | FileCheck %s --check-prefix=PARTS
// RUN: mpcomm-opt %s --mpcomm-partition-pipeline="stages=1" --mpcomm-recompute=policy=selective -o /dev/null \
// RUN:   --remarks-filter=mpcomm-recompute --remark-policy=all 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not mpcomm-opt %s --mpcomm-recompute=policy=stage 2>&1 | FileCheck %s --check-prefix=BEFORE

// BEFORE: 'mpcomm.dot_general' op has no 'mpcomm.stage', expected one of each op of the forward and backward pass: run mpcomm-partition-pipeline
// COUNT: bytes=128, ops=1, stage=0

// CHECK: %[[H:.*]] = mpcomm.dot_general %[[X:.*]], %[[W0:.*]], contracting_dims = [1] x [0]
// CHECK: %[[T:.*]] = math.tanh %[[H]]
// CHECK: %[[Y:.*]] = mpcomm.dot_general %[[T]], %[[W1:.*]], contracting_dims = [1] x [0]
// CHECK: mpcomm.reduce
// CHECK: %[[H2:.*]] = mpcomm.dot_general %[[X]], %[[W0]], contracting_dims = [1] x [0]
// CHECK: %[[T2:.*]] = math.tanh %[[H2]]
// CHECK: %[[Y2:.*]] = mpcomm.dot_general %[[T2]], %[[W1]], contracting_dims = [1] x [0]
// CHECK: %[[DY:.*]] = arith.addf %[[Y2]], %[[Y2]]
// CHECK: mpcomm.dot_general %[[T2]], %[[DY]]
// CHECK: arith.mulf %[[T2]], %[[T2]]

// SOME: %[[H:.*]] = mpcomm.dot_general
// SOME: math.tanh %[[H]]
// SOME: %[[Y:.*]] = mpcomm.dot_general
// SOME: arith.addf %[[Y]], %[[Y]]
// SOME: %[[T2:.*]] = math.tanh %[[H]]
// SOME-NOT: math.tanh
// SOME: mpcomm.dot_general %[[T2]]

// The first stage gives what it sends, and keeps nothing.
// PARTS: func.func private @train_step.stage0.forward({{.*}}) -> tensor<8x4xf32>
// PARTS: func.func private @train_step.stage1.forward({{.*}}) -> tensor<f32>
// PARTS: func.func private @train_step.stage1.backward
// PARTS: mpcomm.dot_general {{.*}} contracting_dims = [1] x [0]

func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight", mpcomm.donated = 2 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "a.weight"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b.weight"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %t = math.tanh %h : tensor<8x4xf32>
  %y = mpcomm.dot_general %t, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %q = arith.mulf %y, %y : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %dy = arith.addf %y, %y : tensor<8x4xf32>
  %dw1 = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dt = mpcomm.dot_general %dy, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %tt = arith.mulf %t, %t : tensor<8x4xf32>
  %ones = arith.constant dense<1.0> : tensor<8x4xf32>
  %s = arith.subf %ones, %tt : tensor<8x4xf32>
  %dh = arith.mulf %dt, %s : tensor<8x4xf32>
  %dw0 = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %dw0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %dw1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1, %k1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i64>
}
