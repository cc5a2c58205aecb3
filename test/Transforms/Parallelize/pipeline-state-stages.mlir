// State in a pipeline whose stages are chosen: what its next value is computed
// of is where that is.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-partition-pipeline="stages=2 micro-batches=2 boundaries=v=1" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" --mpcomm-verify-communication | FileCheck %s
// RUN: mpcomm-opt %s --split-input-file --mpcomm-partition-pipeline="stages=2 micro-batches=2 boundaries=v=1" \
// RUN:   --mpcomm-schedule-pipeline="ranks=2 micro-batches=2 schedule=zb-h1" --mpcomm-verify-communication -o /dev/null

// A mean of the gradients of stage 0: its old value is scaled there, too.

// CHECK-LABEL: func.func private @train_step.stage0.backward(
// CHECK: %[[G:.*]] = mpcomm.dot_general
// CHECK: %[[OLD:.*]] = arith.mulf
// CHECK: arith.addf %[[OLD]], %[[G]]
// CHECK: return %{{.*}}, %{{.*}}
// CHECK-LABEL: func.func @train_step.rank1(

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %v: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 3 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %tenth = arith.constant dense<0.1> : tensor<4x4xf32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = mpcomm.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = arith.mulf %k, %k : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %k, %k : tensor<4x4xf32>
  %gv = mpcomm.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %d, %v, contracting_dims = [1] x [1] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b0 = arith.mulf %b, %tenth : tensor<4x4xf32>
  %b1 = arith.addf %b0, %g : tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %v1 = mpcomm.sgd_update %v, %gv, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %b1, %v1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// Stage 1 reads the scale of w, so that rank 1 has w, too. It has no gradient
// of y, and leaves what is made of both to rank 0.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-SAME: mpcomm.name = "p"
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-NOT: mpcomm.name = "p"
// CHECK: return

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %y: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "y", mpcomm.donated = 2 : i64},
    %v: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 3 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s", mpcomm.donated = 4 : i64},
    %p: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "p", mpcomm.donated = 5 : i64},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "y"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "p"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %h0 = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %h = mpcomm.dot_general %h0, %y, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %k = mpcomm.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %r = mpcomm.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %z = arith.divf %k, %r : tensor<8x4xf32>
  %q = arith.mulf %z, %z : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %d = arith.addf %z, %r : tensor<8x4xf32>
  %gv = mpcomm.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh = mpcomm.dot_general %d, %v, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %gy = mpcomm.dot_general %h0, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dh0 = mpcomm.dot_general %dh, %y, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g = mpcomm.dot_general %x, %dh0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %y1 = mpcomm.sgd_update %y, %gy, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %v1 = mpcomm.sgd_update %v, %gv, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %ab = math.absf %w1 : tensor<4x4xf32>
  %s1 = mpcomm.reduce max %ab, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %p1 = arith.addf %w1, %y1 : tensor<4x4xf32>
  return %loss, %w1, %y1, %v1, %s1, %p1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<4x4xf32>
}
}

// -----

// A gradient of stage 1 reads a value of stage 0 narrowed: where it is read it
// is narrowed, and the gradient is stage 1's alone.

// CHECK-LABEL: func.func private @train_step.stage0.forward(
// CHECK-NOT: arith.truncf
// CHECK-LABEL: func.func private @train_step.stage1.backward(
// CHECK: arith.truncf
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-NOT: tied

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %v: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 2 : i64},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %k = mpcomm.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %q = arith.mulf %k, %k : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %d = arith.addf %k, %k : tensor<8x4xf32>
  %n = arith.truncf %h : tensor<8x4xf32> to tensor<8x4xbf16>
  %d16 = arith.truncf %d : tensor<8x4xf32> to tensor<8x4xbf16>
  %gv16 = mpcomm.dot_general %n, %d16, contracting_dims = [0] x [0] : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %gv = arith.extf %gv16 : tensor<4x4xbf16> to tensor<4x4xf32>
  %dh = mpcomm.dot_general %d, %v, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g = mpcomm.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %v1 = mpcomm.sgd_update %v, %gv, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}
