// Gradients and the loss are averaged where they are defined, each distinct
// value once; the mesh is made or extended; a second run changes nothing.

// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel="size=2" | FileCheck %s
// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel="size=2" \
// RUN:   --mpcomm-data-parallel="size=2" | FileCheck %s
// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel="size=2" \
// RUN:   --mpcomm-data-parallel --mpcomm-verify-shardings | FileCheck %s
// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel="size=1 axis=one mesh=m" \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %s -split-input-file --mpcomm-data-parallel="size=2" \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// One rank: the mesh and no collectives.
// ONE: mpcomm.mesh @m <["one" = 1]>
// ONE-NOT: mpcomm.all_reduce

// %g: 4 * 2 * 4 = 32 bytes; %gb is a constant, the same on all ranks.
// REMARK: DataParallel{{.*}}Function=train_step | buffers=0, bytes=32, gradients=1, magnitudes=0, ranks=2, replicated=1

// CHECK-LABEL: mpcomm.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: func.func @train_step
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<4x2xf32>
func.func @train_step(
    %w: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %dy: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"},
        tensor<4x2xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "own"}) {
  // CHECK: %[[LOSS:.*]] = mpcomm.reduce sum
  // CHECK-NEXT: %[[MEAN:.*]] = mpcomm.all_reduce(%[[LOSS]]) on @mesh axes ["dp"] mean : tensor<f32>
  %loss = mpcomm.reduce sum %dy, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  // CHECK-NEXT: %[[G:.*]] = mpcomm.dot_general
  // CHECK-NEXT: %[[R:.*]] = mpcomm.all_reduce(%[[G]]) on @mesh axes ["dp"] mean : tensor<4x2xf32>
  // CHECK-NOT: all_reduce
  %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %gb = arith.constant dense<1.0> : tensor<2xf32>
  // The same gradient twice, one all_reduce; the other use of %g keeps the
  // rank's own.
  // CHECK: %[[OWN:.*]] = arith.addf %[[G]], %[[G]]
  %own = arith.addf %g, %g : tensor<4x2xf32>
  // CHECK: %[[W1:.*]] = mpcomm.sgd_update %[[W]], %[[R]],
  // CHECK: %[[W2:.*]] = mpcomm.sgd_update %[[W1]], %[[R]],
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %w2 = mpcomm.sgd_update %w1, %g, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %b1 = mpcomm.sgd_update %b, %gb, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: return %[[MEAN]], %[[W2]], %{{.*}}, %[[OWN]]
  return %loss, %w2, %b1, %own : tensor<f32>, tensor<4x2xf32>, tensor<2xf32>, tensor<4x2xf32>
}

// Results of @evaluate are per rank.
// CHECK-LABEL: func.func @evaluate
// CHECK-NOT: all_reduce
func.func @evaluate(%dy: tensor<8x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"}) {
  %loss = mpcomm.reduce sum %dy, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A mesh that is there gets the axis as its last one. Two gradients of one op
// are averaged in the order of their first use; a gradient that is an argument
// at the start of the function.
// CHECK-LABEL: mpcomm.mesh @mesh <["pp" = 3, "dp" = 2]>
mpcomm.mesh @mesh <["pp" = 3]>
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32> {mpcomm.name = "x"
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32>,
    %m: tensor<8xf32>, %r: tensor<8xf32>,
    %x: tensor<4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %d: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "d"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[RX:.*]] = mpcomm.all_reduce(%[[X]])
  // CHECK-NEXT: %{{.*}}, %[[G:.*]], %[[B:.*]] = mpcomm.layer_norm_grad
  // CHECK-NEXT: %[[RB:.*]] = mpcomm.all_reduce(%[[B]])
  // CHECK-NEXT: %[[RG:.*]] = mpcomm.all_reduce(%[[G]])
  // CHECK-NEXT: sgd_update %{{.*}}, %[[RB]]
  // CHECK-NEXT: sgd_update %{{.*}}, %[[RG]]
  // CHECK-NEXT: sgd_update %{{.*}}, %[[RX]]
  %dx, %g, %b = mpcomm.layer_norm_grad %d, %d, %m, %r, %w : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %w1 = mpcomm.sgd_update %w, %b, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %w2 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %w3 = mpcomm.sgd_update %w, %x, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %w1, %w2, %w3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Running statistics, which each rank takes of its own samples, are averaged
// where they are returned; the norm itself is by the rank's own. A counter is
// the same on all ranks.
// CHECK-LABEL: func.func @train_step
// CHECK: %{{.*}}, %[[MEAN:.*]], %[[VARIANCE:.*]] = mpcomm.batch_norm_training
// CHECK: %[[NEXT:.*]] = arith.addf %{{.*}}, %[[MEAN]]
// CHECK-NEXT: %[[AVERAGE:.*]] = mpcomm.all_reduce(%[[NEXT]]) on @mesh axes ["dp"] mean
// CHECK: mpcomm.batch_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[MEAN]], %[[VARIANCE]]
// CHECK: return %[[AVERAGE]], %{{.*}} : tensor<4xf32>, tensor<i64>
// REMARK: DataParallel{{.*}} | buffers=1, bytes=0, gradients=0, magnitudes=0, ranks=2, replicated=0
func.func @train_step(
    %mean: tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.mean"},
    %count: tensor<i64> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.count"},
    %gamma: tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "gamma"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.mean"},
        tensor<i64> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "bn.count"}) {
  %y, %m, %v = mpcomm.batch_norm_training %x, %gamma, %gamma, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %next = arith.addf %mean, %m : tensor<4xf32>
  %dx, %dg, %db = mpcomm.batch_norm_grad %y, %x, %gamma, %m, %v, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %one = arith.constant dense<1> : tensor<i64>
  %counted = arith.addi %count, %one : tensor<i64>
  return %next, %counted : tensor<4xf32>, tensor<i64>
}
