// A step of four micro-batches: three calls of the forward and backward pass,
// the last one in place; sums, one division after the reduction.

// RUN: mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=4 -split-input-file | FileCheck %s
// What is replicated stays so, through the calls.
// RUN: mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=4 -split-input-file \
// RUN:   --mpcomm-verify-shardings -o /dev/null
// RUN: mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=1 -split-input-file \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %s --mpcomm-accumulate-gradients=micro-batches=4 -split-input-file \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// ONE-NOT: func.func private
// ONE-NOT: call

// Two sums: 4 * 2 * 4 + 4 bytes.
// REMARK: Accumulated{{.*}} | bytes=36, microBatches=4, sums=2

// CHECK-LABEL: mpcomm.mesh
mpcomm.mesh @mesh <["dp" = 2]>

// CHECK: func.func private @train_step.micro_batch(
// CHECK-SAME:   %[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[DY:[a-z0-9]+]]: tensor<8x2xf32>,
// CHECK-SAME:   %[[SL:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 0 : i64},
// CHECK-SAME:   %[[SG:[a-z0-9]+]]: tensor<4x2xf32> {mpcomm.donated = 1 : i64})
// CHECK-SAME:   -> (tensor<f32>, tensor<4x2xf32>)
// CHECK-NEXT: %[[PL:.*]] = mpcomm.reduce sum %[[DY]]
// CHECK-NEXT: %[[PG:.*]] = mpcomm.dot_general %[[X]], %[[DY]]
// CHECK-NEXT: %[[L1:.*]] = arith.addf %[[SL]], %[[PL]] : tensor<f32>
// CHECK-NEXT: %[[G1:.*]] = arith.addf %[[SG]], %[[PG]] : tensor<4x2xf32>
// CHECK-NEXT: return %[[L1]], %[[G1]]

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<32x4xf32> {{{[^}]*}}role<batch>}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<32x2xf32>
// CHECK: mpcomm.slice %{{.*}}, starts = [0, 0], limits = [8, 4]
// CHECK: %[[C0:.*]]:2 = call @train_step.micro_batch(
// CHECK: mpcomm.slice %{{.*}}, starts = [8, 0], limits = [16, 4]
// CHECK: %[[C1:.*]]:2 = call @train_step.micro_batch(%{{.*}}, %{{.*}}, %[[C0]]#0, %[[C0]]#1)
// CHECK: %[[C2:.*]]:2 = call @train_step.micro_batch(%{{.*}}, %{{.*}}, %[[C1]]#0, %[[C1]]#1)
// CHECK: %[[XL:.*]] = mpcomm.slice %{{.*}}, starts = [24, 0], limits = [32, 4]
// CHECK: %[[DYL:.*]] = mpcomm.slice %{{.*}}, starts = [24, 0], limits = [32, 2]
// CHECK: %[[L:.*]] = mpcomm.reduce sum %[[DYL]]
// CHECK: %[[LS:.*]] = arith.addf %[[C2]]#0, %[[L]]
// CHECK: %[[LR:.*]] = mpcomm.all_reduce(%[[LS]])
// CHECK: %[[LM:.*]] = arith.mulf %[[LR]], %{{.*}} : tensor<f32>
// CHECK: %[[G:.*]] = mpcomm.dot_general %[[XL]], %[[DYL]]
// CHECK: %[[GS:.*]] = arith.addf %[[C2]]#1, %[[G]]
// CHECK: %[[GR:.*]] = mpcomm.all_reduce(%[[GS]])
// CHECK: %[[SHARE:.*]] = arith.constant dense<2.500000e-01> : tensor<4x2xf32>
// CHECK: %[[GM:.*]] = arith.mulf %[[GR]], %[[SHARE]]
// CHECK: %[[W:.*]] = mpcomm.sgd_update %{{.*}}, %[[GM]],
// CHECK: return %[[LM]], %[[W]]
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %dy: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %loss = mpcomm.reduce sum %dy, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  %l = mpcomm.all_reduce(%loss) on @mesh axes ["dp"] mean : tensor<f32>
  %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %l, %w1 : tensor<f32>, tensor<4x2xf32>
}

// -----

// A gradient that is narrowed is summed as it was before; what it travels in
// gets the mean, which a format of 16 bits can hold.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK: %[[G:.*]] = mpcomm.dot_general
// CHECK: arith.addf %{{.*}}, %[[G]] : tensor<4x2xf32>
// CHECK-LABEL: func.func @train_step(
// CHECK: %[[S:.*]] = arith.addf %{{.*}} : tensor<4x2xf32>
// CHECK: %[[M:.*]] = arith.mulf %[[S]], %{{.*}} : tensor<4x2xf32>
// CHECK: %[[N:.*]] = arith.truncf %[[M]] : tensor<4x2xf32> to tensor<4x2xbf16>
// CHECK: mpcomm.all_reduce(%[[N]])
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %dy: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %n = arith.truncf %g : tensor<4x2xf32> to tensor<4x2xbf16>
  %r = mpcomm.all_reduce(%n) on @mesh axes ["dp"] mean accumulate f32 : tensor<4x2xbf16>
  %e = arith.extf %r : tensor<4x2xbf16> to tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %e, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %loss = mpcomm.reduce sum %dy, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  %l = mpcomm.all_reduce(%loss) on @mesh axes ["dp"] mean : tensor<f32>
  return %w1, %l : tensor<4x2xf32>, tensor<f32>
}

// -----

// Running statistics go from one to the next, the seed is another each time, and
// of a maximum there is the maximum.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<2xi32>
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 0 : i64}
// CHECK-SAME: %[[TOP:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 1 : i64}
// CHECK-SAME: %[[MEAN:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 2 : i64}
// CHECK: mpcomm.dropout %{{.*}}, %[[SEED]]
// CHECK: %[[NEW:.*]] = arith.addf %[[MEAN]],
// CHECK: arith.maximumf %[[TOP]],
// CHECK: return %{{.*}}, %{{.*}}, %[[NEW]], %{{.*}}
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<2xi32>
// CHECK-SAME: %[[MEAN:[a-z0-9]+]]: tensor<f32>
// CHECK: dense<0xFF800000>
// CHECK: call @train_step.micro_batch(%{{.*}}, %[[SEED]], %{{.*}}, %{{.*}}, %[[MEAN]], %{{.*}})
// CHECK: %[[STEP:.*]] = arith.constant dense<[0, 1]> : tensor<2xi32>
// CHECK: %[[SEED1:.*]] = arith.addi %[[SEED]], %[[STEP]]
// CHECK: call @train_step.micro_batch(%{{.*}}, %[[SEED1]],
// CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] max : tensor<f32>
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %seed: tensor<2xi32> {mpcomm.role = #mpcomm.role<rng>, mpcomm.name = "seed"},
    %m: tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "mean", mpcomm.donated = 1 : i64},
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "count", mpcomm.donated = 3 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "mean"},
        tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "top"},
        tensor<i64> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "count"}) {
  %d = mpcomm.dropout %x, %seed, p = 0.5, id = 0 : (tensor<8xf32>, tensor<2xi32>) -> tensor<8xf32>
  %own = mpcomm.reduce sum %d, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  %loss = mpcomm.all_reduce(%own) on @mesh axes ["dp"] mean : tensor<f32>
  %m1 = arith.addf %m, %own : tensor<f32>
  %a = mpcomm.all_reduce(%m1) on @mesh axes ["dp"] mean : tensor<f32>
  %top = mpcomm.reduce max %d, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  %t = mpcomm.all_reduce(%top) on @mesh axes ["dp"] max : tensor<f32>
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  return %loss, %a, %t, %k1 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<i64>
}

// -----

// The scale of an 8-bit operand is updated once, from the greatest magnitude in
// any micro-batch, whether ranks then meet over it or not.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-NOT: mpcomm.update_fp8_scale
// CHECK: arith.maximumf
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<4xf32>
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32>
// CHECK: %[[A:.*]] = arith.maximumf
// CHECK: %[[H1:.*]], %[[S1:.*]] = mpcomm.update_fp8_scale %[[H]], %[[S]], %[[A]]
// CHECK-NOT: mpcomm.update_fp8_scale
// CHECK: return %{{.*}}, %[[H1]], %[[S1]]
func.func @train_step(
    %h: tensor<4xf32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "x.fp8.amax_history", mpcomm.donated = 1 : i64},
    %s: tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "x.fp8.scale", mpcomm.donated = 2 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "x.fp8.amax_history"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss_scale>, mpcomm.name = "x.fp8.scale"}) {
  %b = mpcomm.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %q = arith.mulf %x, %b : tensor<8xf32>
  %loss = mpcomm.reduce sum %q, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  %m = math.absf %x : tensor<8xf32>
  %a = mpcomm.reduce max %m, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  %h1, %s1 = mpcomm.update_fp8_scale %h, %s, %a, format = f8E4M3FN, margin = 0
      : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %loss, %h1, %s1 : tensor<f32>, tensor<4xf32>, tensor<f32>
}

// -----

// An optimizer counts steps, not micro-batches.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-NOT: arith.addi
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: tensor<i64>
// CHECK: %[[K1:.*]] = arith.addi
// CHECK-NOT: arith.addi
// CHECK: return %{{.*}}, %[[K1]] : tensor<f32>, tensor<i64>
func.func @train_step(
    %k: tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step", mpcomm.donated = 1 : i64},
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<i64> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "step"}) {
  %one = arith.constant dense<1> : tensor<i64>
  %k1 = arith.addi %k, %one : tensor<i64>
  %loss = mpcomm.reduce sum %x, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  return %loss, %k1 : tensor<f32>, tensor<i64>
}

// -----

// A state that goes on is a value of the micro-batch as it came, too: an update
// by it takes the mean.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-SAME: %{{.*}}: tensor<4x2xf32>, %[[SUM:.*]]: tensor<2xf32> {mpcomm.donated = 0 : i64}, %{{.*}}: tensor<f32> {mpcomm.donated = 1 : i64}, %[[H:.*]]: tensor<2xf32> {mpcomm.donated = 2 : i64}
// CHECK: %[[CAME:.*]] = mpcomm.reshape %[[H]]
// CHECK: arith.addf %[[SUM]], %[[CAME]]
// CHECK-LABEL: func.func @train_step(
// CHECK-COUNT-3: call @train_step.micro_batch
// CHECK: %[[LAST:.*]] = mpcomm.reshape %[[CALL:.*]]#2
// CHECK: %[[TOTAL:.*]] = arith.addf %[[CALL]]#0, %[[LAST]]
// CHECK: %[[MEAN:.*]] = arith.mulf %[[TOTAL]]
// CHECK: mpcomm.sgd_update %{{.*}}, %[[MEAN]]
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %h: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "h", mpcomm.donated = 2 : i64},
    %x: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "h"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %loss = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
  %h1 = arith.addf %h, %h : tensor<2xf32>
  %w1 = mpcomm.sgd_update %w, %h, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %w1, %h1 : tensor<f32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// What is state and loss at once is reduced twice: the state as the last
// micro-batch leaves it, the loss as the mean.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-SAME: %[[SUM:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 0 : i64}, %[[B:[a-z0-9]+]]: tensor<f32> {mpcomm.donated = 1 : i64}
// CHECK: %[[ADDED:.*]] = arith.addf %[[B]],
// CHECK: %[[TOTAL:.*]] = arith.addf %[[SUM]], %[[ADDED]]
// CHECK: return %[[TOTAL]],
// CHECK-LABEL: func.func @train_step(
// CHECK-COUNT-3: call @train_step.micro_batch
// CHECK: %[[LAST:.*]] = arith.addf %[[CALL:[0-9]+]]#1,
// CHECK-DAG: %[[ALL:.*]] = arith.addf %[[CALL]]#0, %[[LAST]]
// CHECK-DAG: %[[OWN:.*]] = mpcomm.reshape %[[LAST]]
// CHECK-DAG: %[[STATE:.*]] = mpcomm.all_reduce(%[[OWN]])
// CHECK-DAG: %[[REDUCED:.*]] = mpcomm.all_reduce(%[[ALL]])
// CHECK-DAG: %[[MEAN:.*]] = arith.mulf %[[REDUCED]], %{{.*}}
// CHECK: return %[[STATE]], %[[MEAN]]
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %x: tensor<8xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %b: tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 0 : i64})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"},
        tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %sum = mpcomm.reduce sum %x, dims = [0] : (tensor<8xf32>) -> tensor<f32>
  %b1 = arith.addf %b, %sum : tensor<f32>
  %mean = mpcomm.all_reduce(%b1) on @mesh axes ["dp"] mean : tensor<f32>
  return %mean, %mean : tensor<f32>, tensor<f32>
}

// -----

// Samples are a gradient: each micro-batch adds its own to the sum.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x2xf32>, %{{.*}}: tensor<f32> {{.*}}, %[[SUM:[a-z0-9]+]]: tensor<4x2xf32> {mpcomm.donated = 1 : i64}
// CHECK: %[[OWN:.*]] = mpcomm.reshape %[[X]]
// CHECK: arith.addf %[[SUM]], %[[OWN]]
// CHECK-LABEL: func.func @train_step(
// CHECK-COUNT-3: call @train_step.micro_batch
// CHECK: %[[LAST:.*]] = mpcomm.reshape
// CHECK: %[[TOTAL:.*]] = arith.addf %{{.*}}, %[[LAST]]
// CHECK: %[[REDUCED:.*]]:2 = mpcomm.all_reduce(%{{.*}}, %[[TOTAL]])
// CHECK: %[[MEAN:.*]] = arith.mulf %[[REDUCED]]#1
// CHECK: mpcomm.sgd_update %{{.*}}, %[[MEAN]]
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %x: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %loss = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<4x2xf32>) -> tensor<f32>
  %all, %mean = mpcomm.all_reduce(%loss, %x) on @mesh axes ["dp"] mean : tensor<f32>, tensor<4x2xf32>
  %w1 = mpcomm.sgd_update %w, %mean, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  return %all, %w1 : tensor<f32>, tensor<4x2xf32>
}

// -----

// A gradient narrowed from a state that goes on: what each micro-batch starts
// with, as narrowed, is summed.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-SAME: %{{.*}}: tensor<2xf32>, %[[SUM:[a-z0-9]+]]: tensor<2xf32> {mpcomm.donated = 0 : i64}, %{{.*}}: tensor<f32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<2xf32>
// CHECK: %[[NARROW:.*]] = arith.truncf %[[B]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[NARROW]]
// CHECK: arith.addf %[[SUM]], %[[WIDE]] : tensor<2xf32>
// CHECK-LABEL: func.func @train_step(
// CHECK-COUNT-3: call @train_step.micro_batch
// CHECK: %[[LAST:.*]] = arith.truncf %{{.*}}#2
// CHECK: %[[WIDE:.*]] = arith.extf %[[LAST]]
// CHECK: arith.addf %{{.*}}#0, %[[WIDE]] : tensor<2xf32>
func.func @train_step(
    %w: tensor<2xbf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xbf16> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %loss = mpcomm.reduce sum %x, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  %g = arith.truncf %b : tensor<2xf32> to tensor<2xbf16>
  %b1 = arith.addf %b, %x : tensor<2xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<2xbf16>, tensor<2xbf16>, tensor<f32>) -> tensor<2xbf16>
  return %loss, %w1, %b1 : tensor<f32>, tensor<2xbf16>, tensor<2xf32>
}

// -----

// A value that is reduced to its mean and to its maximum is summed, and its
// greatest is kept.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK: %[[G:.*]] = arith.mulf
// CHECK: %[[COPY:.*]] = mpcomm.reshape %[[G]]
// CHECK-DAG: arith.addf %{{.*}}, %[[G]] : tensor<4xf32>
// CHECK-DAG: arith.maximumf %{{.*}}, %[[COPY]] : tensor<4xf32>
// CHECK-LABEL: func.func @train_step(
// CHECK-DAG: %[[SUM:.*]] = arith.addf %{{.*}} : tensor<4xf32>
// CHECK-DAG: %[[MAX:.*]] = arith.maximumf %{{.*}} : tensor<4xf32>
// CHECK-DAG: mpcomm.all_reduce(%{{.*}}, %[[SUM]]) on @mesh axes ["dp"] mean
// CHECK-DAG: mpcomm.all_reduce(%[[MAX]]) on @mesh axes ["dp"] max
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %g = arith.mulf %x, %w : tensor<4xf32>
  %local = mpcomm.reduce sum %g, dims = [0] : (tensor<4xf32>) -> tensor<f32>
  %loss, %mean = mpcomm.all_reduce(%local, %g) on @mesh axes ["dp"] mean : tensor<f32>, tensor<4xf32>
  %max = mpcomm.all_reduce(%g) on @mesh axes ["dp"] max : tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %mean, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b1 = arith.addf %b, %max : tensor<4xf32>
  return %loss, %w1, %b1 : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Samples whose mean over the ranks is a gradient and a state: the gradient is
// the mean over the micro-batches, too, the state that of the last.

// CHECK-LABEL: func.func private @train_step.micro_batch(
// CHECK-LABEL: func.func @train_step(
// CHECK-COUNT-3: call @train_step.micro_batch
// CHECK: %[[X:.*]] = mpcomm.slice
// CHECK: %[[STATE:.*]] = mpcomm.reshape %[[X]]
// CHECK: %[[OWN:.*]] = mpcomm.reshape %[[X]]
// CHECK: %[[TOTAL:.*]] = arith.addf %{{.*}}, %[[OWN]]
// CHECK: %[[REDUCED:.*]] = mpcomm.all_reduce(%[[STATE]])
// CHECK: %[[MEANS:.*]]:2 = mpcomm.all_reduce(%{{.*}}, %[[TOTAL]])
// CHECK: %[[G:.*]] = arith.mulf %[[MEANS]]#1
// CHECK: mpcomm.sgd_update %{{.*}}, %[[G]]
// CHECK: return %{{.*}}, %{{.*}}, %[[REDUCED]]
mpcomm.mesh @mesh <["dp" = 2]>
func.func @train_step(
    %w: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %b: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %x: tensor<2x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2x4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "b"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %q = arith.mulf %x, %w : tensor<2x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  %all, %r = mpcomm.all_reduce(%loss, %x) on @mesh axes ["dp"] mean : tensor<f32>, tensor<2x4xf32>
  %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %all, %w1, %r : tensor<f32>, tensor<2x4xf32>, tensor<2x4xf32>
}
