// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=1},mpcomm-propagate-shardings,mpcomm-localize,mpcomm-verify-shardings,canonicalize,cse)' \
// RUN:   | FileCheck %s

mpcomm.mesh @mesh <["dp" = 2]>

// The state of the optimizer is split; the parameter, which the forward pass reads, is whole.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[P:[^:]*]]: tensor<3x5xf32> {mpcomm.donated = 1
// CHECK-SAME: %[[M:[^:]*]]: tensor<8xf32> {mpcomm.donated = {{[0-9]}} : i64, mpcomm.global_type = tensor<3x5xf32>{{.*}}flat = ["dp"]>}
func.func @train_step(
    %p: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %m: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<3x5xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<3x5xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<3x5xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m"}) {
  %y = arith.mulf %p, %x : tensor<3x5xf32>
  %l = mpcomm.reduce sum %y, dims = [0, 1] : (tensor<3x5xf32>) -> tensor<f32>
  %l1 = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  // CHECK: %[[G:.*]] = mpcomm.pad {{.*}} high = [1], {{.*}} : (tensor<15xf32>, tensor<f32>) -> tensor<16xf32>
  // CHECK: %[[H:.*]] = mpcomm.reduce_scatter(%[[G]]) on @mesh axes ["dp"] mean dims = [0] : (tensor<16xf32>) -> tensor<8xf32>
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<3x5xf32>
  // CHECK: %[[Q:.*]] = mpcomm.all_slice %{{.*}} on @mesh axes ["dp"] dim = 0 : (tensor<16xf32>) -> tensor<8xf32>
  // CHECK: %[[N:.*]], %[[M1:.*]] = mpcomm.sgd_update %[[Q]], %[[H]], %{{.*}}, %[[M]],
  // CHECK: %[[A:.*]] = mpcomm.all_gather(%[[N]]) on @mesh axes ["dp"] dims = [0] : (tensor<8xf32>) -> tensor<16xf32>
  // CHECK: %[[S:.*]] = mpcomm.slice %[[A]], starts = [0], limits = [15]
  // CHECK: %[[P1:.*]] = mpcomm.reshape %[[S]] : (tensor<15xf32>) -> tensor<3x5xf32>
  // CHECK: return %{{.*}}, %[[P1]], %[[M1]] : tensor<f32>, tensor<3x5xf32>, tensor<8xf32>
  %p1, %m1 = mpcomm.sgd_update %p, %g, %lr, %m, momentum = 0.9, weight_decay = 0.0
      : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<f32>, tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>)
  return %l1, %p1, %m1 : tensor<f32>, tensor<3x5xf32>, tensor<3x5xf32>
}

// -----

mpcomm.mesh @mesh <["dp" = 2]>

// An update with a mean over each row: a part is a block of rows, and the state of rows is split
// with it. That of columns is not.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: tensor<12xf32> {mpcomm.donated = {{[0-9]}} : i64, mpcomm.global_type = tensor<4x6xf32>
// CHECK-SAME: tensor<2xf32> {mpcomm.donated = {{[0-9]}} : i64, mpcomm.global_type = tensor<4xf32>
// CHECK-SAME: %{{.*}}: tensor<6xf32> {mpcomm.donated = {{[0-9]}} : i64, mpcomm.name = "w.t"
func.func @train_step(
    %p: tensor<4x6xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %m: tensor<4x6xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m", mpcomm.donated = 2 : i64},
    %s: tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.s", mpcomm.donated = 3 : i64},
    %t: tensor<6xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.t", mpcomm.donated = 4 : i64},
    %x: tensor<4x6xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x6xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<4x6xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.s"},
        tensor<6xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.t"}) {
  %y = arith.mulf %p, %x : tensor<4x6xf32>
  %l = mpcomm.reduce sum %y, dims = [0, 1] : (tensor<4x6xf32>) -> tensor<f32>
  %l1 = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  %g = mpcomm.all_reduce(%x) on @mesh axes ["dp"] mean : tensor<4x6xf32>
  // CHECK: mpcomm.update {{.*}} : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2xf32>, tensor<6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2xf32>, tensor<6xf32>)
  // CHECK: arith.constant dense<5.000000e-01> : tensor<2x6xf32>
  // CHECK: mpcomm.slice {{.*}} starts = [0, 1], limits = [2, 2], {{.*}} : (tensor<2x6xf32>) -> tensor<2x1xf32>
  %p1, %m1, %s1, %t1 = mpcomm.update %p, %g, %m, %s, %t
      : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<6xf32>) {
  ^bb0(%a: tensor<4x6xf32>, %d: tensor<4x6xf32>, %n: tensor<4x6xf32>, %v: tensor<4xf32>, %u: tensor<6xf32>):
    %0 = mpcomm.reduce sum %d, dims = [1] : (tensor<4x6xf32>) -> tensor<4xf32>
    %1 = arith.addf %0, %v : tensor<4xf32>
    %f = mpcomm.slice %a, starts = [0, 1], limits = [4, 2], strides = [1, 1] : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %c = mpcomm.reshape %f : (tensor<4x1xf32>) -> tensor<4xf32>
    %o = arith.mulf %1, %c : tensor<4xf32>
    %2 = mpcomm.broadcast_in_dim %o, dims = [0] : (tensor<4xf32>) -> tensor<4x6xf32>
    %h = arith.constant dense<0.5> : tensor<4x6xf32>
    %3 = arith.mulf %n, %h : tensor<4x6xf32>
    %4 = arith.addf %3, %2 : tensor<4x6xf32>
    %e = mpcomm.broadcast_in_dim %u, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
    %6 = arith.mulf %4, %e : tensor<4x6xf32>
    %5 = arith.subf %a, %6 : tensor<4x6xf32>
    %u1 = arith.addf %u, %u : tensor<6xf32>
    mpcomm.yield %5, %4, %1, %u1 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<6xf32>
  }
  return %l1, %p1, %m1, %s1, %t1 : tensor<f32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xf32>, tensor<6xf32>
}
