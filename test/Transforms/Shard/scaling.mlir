// RUN: mpcomm-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=1},mpcomm-propagate-shardings,mpcomm-localize,mpcomm-verify-shardings,canonicalize,cse)' \
// RUN:   | FileCheck %s

mpcomm.mesh @mesh <["dp" = 4]>

// A narrow copy is what the rest of the step reads: the parameter is split, too, and the copy put together. What of
// gradients is one number for all of them is reduced: the flag and the norm.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[P:[^:]*]]: tensor<16xf32> {mpcomm.donated = {{[0-9]}} : i64, mpcomm.global_type = tensor<8x8xf32>
// CHECK-SAME: %[[C:[^:]*]]: tensor<8x8xbf16> {mpcomm.copy_of = "w"
// CHECK-SAME: %[[B:[^:]*]]: tensor<2xf32>
func.func @train_step(
    %p: tensor<8x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %c: tensor<8x8xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16", mpcomm.copy_of = "w", mpcomm.donated = 2 : i64},
    %b: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %scale: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "scale"},
    %x: tensor<8x8xbf16> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %z: tensor<2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "z"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<8x8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<8x8xbf16> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.bf16"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"}) {
  %y = arith.mulf %c, %x : tensor<8x8xbf16>
  // CHECK: %[[H:.*]] = mpcomm.reduce_scatter(%{{.*}}) on @mesh axes ["dp"] mean accumulate f32 dims = [0] : (tensor<64xbf16>) -> tensor<16xbf16>
  %g = mpcomm.all_reduce(%y) on @mesh axes ["dp"] mean accumulate f32 : tensor<8x8xbf16>
  // CHECK: %[[Z:.*]] = mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<2xf32>
  %h = mpcomm.all_reduce(%z) on @mesh axes ["dp"] mean : tensor<2xf32>
  // CHECK: %[[U:.*]]:2, %[[FOUND:.*]] = mpcomm.unscale(%[[H]], %[[Z]]) by %{{.*}} : (tensor<16xbf16>, tensor<2xf32>, tensor<f32>)
  // CHECK: %[[F:.*]] = mpcomm.all_reduce(%[[FOUND]]) on @mesh axes ["dp"] max : tensor<f32>
  %u, %v, %found = mpcomm.unscale(%g, %h) by %scale
      : (tensor<8x8xbf16>, tensor<2xf32>, tensor<f32>) -> (tensor<8x8xf32>, tensor<2xf32>, tensor<f32>)
  // CHECK: %[[S:.*]] = mpcomm.squared_norm(%[[U]]#0) : (tensor<16xf32>) -> tensor<f32>
  // CHECK: %[[T:.*]] = mpcomm.all_reduce(%[[S]]) on @mesh axes ["dp"] sum : tensor<f32>
  // CHECK: %[[R:.*]] = mpcomm.squared_norm(%[[U]]#1) : (tensor<2xf32>) -> tensor<f32>
  // CHECK: %[[A:.*]] = arith.addf %[[T]], %[[R]] : tensor<f32>
  // CHECK: %[[N:.*]] = math.sqrt %[[A]] : tensor<f32>
  // CHECK: %[[K:.*]]:2, %{{.*}} = mpcomm.clip_by_global_norm(%[[U]]#0, %[[U]]#1) norm = %[[N]], max_norm = 1.0
  %k, %l, %norm = mpcomm.clip_by_global_norm(%u, %v) max_norm = 1.0
      : (tensor<8x8xf32>, tensor<2xf32>) -> (tensor<8x8xf32>, tensor<2xf32>, tensor<f32>)
  // CHECK: %[[Q:.*]] = mpcomm.sgd_update %[[P]], %[[K]]#0, %{{.*}} : (tensor<16xf32>, tensor<16xf32>, tensor<f32>) -> tensor<16xf32>
  %p1 = mpcomm.sgd_update %p, %k, %lr, weight_decay = 0.0 : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %b1 = mpcomm.sgd_update %b, %l, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: arith.select %{{.*}}, %[[P]], %[[Q]] : tensor<16xi1>, tensor<16xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %over = arith.cmpf ogt, %found, %zero : tensor<f32>
  %skip = mpcomm.broadcast_in_dim %over, dims = [] : (tensor<i1>) -> tensor<8x8xi1>
  %p2 = arith.select %skip, %p, %p1 : tensor<8x8xi1>, tensor<8x8xf32>
  // CHECK: %[[C1:.*]] = arith.truncf %{{.*}} : tensor<16xf32> to tensor<16xbf16>
  // CHECK: mpcomm.all_gather(%[[C1]]) on @mesh axes ["dp"] dims = [0] : (tensor<16xbf16>) -> tensor<64xbf16>
  %c1 = arith.truncf %p2 : tensor<8x8xf32> to tensor<8x8xbf16>
  return %found, %p2, %c1, %b1 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xbf16>, tensor<2xf32>
}
