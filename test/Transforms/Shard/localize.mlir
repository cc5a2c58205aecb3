// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=1},mpcomm-localize,mpcomm-verify-shardings,canonicalize,cse)' \
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
