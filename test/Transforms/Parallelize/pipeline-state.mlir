// In which pass, and on which ranks, the next value of state is computed.

// RUN: mpcomm-opt %s --split-input-file --mpcomm-schedule-pipeline="ranks=2 micro-batches=2" \
// RUN:   --mpcomm-verify-communication | FileCheck %s

// A value that gradients read in 16 bits is kept in 16 bits, and the state that
// is made of it goes on in the forward pass.

// CHECK-LABEL: func.func private @train_step.stage0.forward(
// CHECK: %[[H:.*]] = mpcomm.dot_general
// CHECK: %[[NARROW:.*]] = arith.truncf %[[H]]
// CHECK: %[[B:.*]] = arith.addf
// CHECK: return %[[B]], %[[H]], %[[NARROW]] : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xbf16>
// CHECK-LABEL: func.func private @train_step.stage0.backward(
// CHECK-SAME: tensor<4x4xbf16>
// CHECK-NOT: arith.truncf
// CHECK: return
// CHECK-LABEL: func.func @train_step.rank1(

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = arith.truncf %h {mpcomm.stage = 0 : i64} : tensor<4x4xf32> to tensor<4x4xbf16>
  %n1 = arith.extf %n {mpcomm.stage = 0 : i64} : tensor<4x4xbf16> to tensor<4x4xf32>
  %b0 = arith.mulf %b, %b {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %b1 = arith.addf %b0, %n1 {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %q = arith.mulf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %n1, %n1 {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %b1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// A mean of gradients goes on in the backward pass, with all that it is made of.

// CHECK-LABEL: func.func private @train_step.stage0.forward(
// CHECK-NOT: arith.mulf
// CHECK: return
// CHECK-LABEL: func.func private @train_step.stage0.backward(
// CHECK: %[[G:.*]] = mpcomm.dot_general
// CHECK: %[[OLD:.*]] = arith.mulf
// CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[G]]
// CHECK: return %{{.*}}, %[[NEW]]
// CHECK-LABEL: func.func @train_step.rank1(

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %tenth = arith.constant dense<0.1> : tensor<4x4xf32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = arith.mulf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b0 = arith.mulf %b, %tenth {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %b1 = arith.addf %b0, %g {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %b1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// Stage 1 reads the scale of a parameter that stage 0 alone reads. Its next
// value is made of the parameter: both ranks have that, and its gradient.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK: sgd_update
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK-SAME: mpcomm.name = "w"
// CHECK-SAME: mpcomm.name = "s"
// CHECK: sgd_update
// CHECK: math.absf

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s", mpcomm.donated = 2 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "s"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %m = math.absf %w : tensor<4x4xf32>
  %s1 = mpcomm.reduce max %m, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = mpcomm.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %y = arith.divf %h, %r {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %h, %y {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %s1 : tensor<f32>, tensor<4x4xf32>, tensor<f32>
}
}

// -----

// A gradient that does not depend on the batch is computed, and reduced with
// others, where its parameter is.

// CHECK-LABEL: func.func @train_step.rank0(
// CHECK-NOT: "w1"
// CHECK: mpcomm.all_reduce(%{{[^,]*}}) on @mesh axes ["dp"]
// CHECK: sgd_update
// CHECK-NOT: sgd_update
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK: %[[G:.*]] = arith.mulf %[[W:.*]], %[[W]]
// CHECK: %[[R:.*]] = mpcomm.all_reduce(%[[G]]) on @mesh axes ["dp"]
// CHECK: sgd_update %[[W]], %[[R]]
// CHECK-NOT: sgd_update

module {
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = arith.addf %h, %w1 {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %y, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %g0 = mpcomm.dot_general %x, %h, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = arith.mulf %w1, %w1 : tensor<4x4xf32>
  %r0, %r1 = mpcomm.all_reduce(%g0, %g1) on @mesh axes ["dp"] mean : tensor<4x4xf32>, tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %r0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %r1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// The old value of a state of the forward pass, read for one of gradients, is
// kept for it.

// CHECK-LABEL: func.func private @train_step.stage0.forward(
// CHECK: %[[H:.*]] = mpcomm.dot_general
// CHECK: %[[NEW:.*]] = arith.addf %{{.*}}, %[[H]]
// CHECK: %[[T:.*]] = arith.mulf
// CHECK: return %[[NEW]], %[[H]], %[[T]]
// CHECK-LABEL: func.func private @train_step.stage0.backward(
// CHECK: arith.addf
// CHECK-LABEL: func.func @train_step.rank1(

module {
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %c: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "c", mpcomm.donated = 3 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "c"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %tenth = arith.constant dense<0.1> : tensor<4x4xf32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b1 = arith.addf %b, %h {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %t = arith.mulf %b, %tenth {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %q = arith.mulf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c1 = arith.addf %t, %g {mpcomm.stage = 0 : i64} : tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1, %b1, %c1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// An op without results stays in its stage.

// CHECK-LABEL: func.func private @train_step.stage0.forward(
// CHECK: call @log(
// CHECK-LABEL: func.func @train_step.rank1(

module {
func.func private @log(%a: tensor<4x4xf32>) {
  return
}
func.func @train_step(
    %w: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %x: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.call @log(%h) {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>) -> ()
  %q = arith.mulf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] {mpcomm.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
  %d = arith.addf %h, %h {mpcomm.stage = 1 : i64} : tensor<4x4xf32>
  %g = mpcomm.dot_general %x, %d, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %w1 : tensor<f32>, tensor<4x4xf32>
}
}
