// Weights in 8 bits are gathered as such, not as what products read, for either pass; their largest magnitude is that
// of the ranks' largest. Where elements are filled up to a multiple of the ranks, what they are filled up with would
// count: then the whole is looked at.
//
// RUN: mpcomm-opt %s \
// RUN:   --pass-pipeline='builtin.module(mpcomm-assign-shardings{zero=3},mpcomm-propagate-shardings,mpcomm-insert-reshards{gradients},canonicalize,mpcomm-localize,mpcomm-verify-shardings,mpcomm-verify-rank-programs,canonicalize)' \
// RUN:   | FileCheck %s --implicit-check-not='mpcomm.all_gather({{.*}}bf16'

mpcomm.mesh @mesh <["dp" = 2]>

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[V:[^:]*]]: tensor<8xf32> {
// CHECK-SAME: %[[W:[^:]*]]: tensor<5xf32> {
// CHECK-DAG: %[[V8:.*]] = arith.truncf %[[V]] : tensor<8xf32> to tensor<8xf8E4M3FN>
// CHECK-DAG: mpcomm.all_gather(%[[V8]]) on @mesh axes ["dp"] dims = [0] : (tensor<8xf8E4M3FN>) -> tensor<16xf8E4M3FN>
// CHECK-DAG: mpcomm.all_gather(%[[V8]]) on @mesh axes ["dp"] dims = [0] {mpcomm.gathered_again} : (tensor<8xf8E4M3FN>) -> tensor<16xf8E4M3FN>
// CHECK-DAG: %[[A:.*]] = math.absf %[[V]] : tensor<8xf32>
// CHECK-DAG: %[[A2:.*]] = mpcomm.reshape %[[A]] : (tensor<8xf32>) -> tensor<8x1xf32>
// CHECK-DAG: %[[M:.*]] = mpcomm.reduce max %[[A2]], dims = [0, 1] : (tensor<8x1xf32>) -> tensor<f32>
// CHECK-DAG: mpcomm.all_reduce(%[[M]]) on @mesh axes ["dp"] max : tensor<f32>
// CHECK-DAG: %[[B:.*]] = math.absf %[[W]] : tensor<5xf32>
// CHECK-DAG: mpcomm.all_gather(%[[B]]) on @mesh axes ["dp"] dims = [0] : (tensor<5xf32>) -> tensor<10xf32>
// CHECK-DAG: mpcomm.reduce max %{{.*}}, dims = [0, 1] : (tensor<3x3xf32>) -> tensor<f32>
// CHECK: return

func.func @train_step(%v: tensor<4x4xf32> {mpcomm.name = "v", mpcomm.role = #mpcomm.role<parameter>, mpcomm.donated = 1 : i64},
    %w: tensor<3x3xf32> {mpcomm.name = "w", mpcomm.role = #mpcomm.role<parameter>, mpcomm.donated = 2 : i64},
    %scale: tensor<f32> {mpcomm.name = "scale", mpcomm.role = #mpcomm.role<buffer>, mpcomm.donated = 3 : i64},
    %lr: tensor<f32> {mpcomm.name = "lr", mpcomm.role = #mpcomm.role<hyperparameter>},
    %x: tensor<2x4xbf16> {mpcomm.name = "x", mpcomm.role = #mpcomm.role<batch>},
    %y: tensor<2x3xf32> {mpcomm.name = "y", mpcomm.role = #mpcomm.role<batch>})
    -> (tensor<f32> {mpcomm.name = "loss", mpcomm.role = #mpcomm.role<loss>},
        tensor<4x4xf32> {mpcomm.name = "v", mpcomm.role = #mpcomm.role<parameter>},
        tensor<3x3xf32> {mpcomm.name = "w", mpcomm.role = #mpcomm.role<parameter>},
        tensor<f32> {mpcomm.name = "scale", mpcomm.role = #mpcomm.role<buffer>}) {
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %two = arith.constant dense<1.0> : tensor<2x3xf32>
  %v8 = arith.truncf %v : tensor<4x4xf32> to tensor<4x4xf8E4M3FN>
  %v16 = arith.extf %v8 : tensor<4x4xf8E4M3FN> to tensor<4x4xbf16>
  %av = math.absf %v : tensor<4x4xf32>
  %mv = mpcomm.reduce max %av, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  %aw = math.absf %w : tensor<3x3xf32>
  %mw = mpcomm.reduce max %aw, dims = [0, 1] : (tensor<3x3xf32>) -> tensor<f32>
  %new = arith.maximumf %mv, %mw : tensor<f32>
  %h16 = mpcomm.dot_general %x, %v16, contracting_dims = [1] x [0] : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %h = arith.extf %h16 : tensor<2x4xbf16> to tensor<2x4xf32>
  %z = mpcomm.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %zz = arith.mulf %z, %z : tensor<2x3xf32>
  %hh = arith.mulf %h, %h : tensor<2x4xf32>
  %s = mpcomm.reduce sum %zz, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  %t = mpcomm.reduce sum %hh, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  %l = arith.addf %s, %t : tensor<f32>
  %loss = mpcomm.all_reduce(%l) on @mesh axes ["dp"] mean : tensor<f32>
  %gz = arith.addf %z, %two : tensor<2x3xf32>
  %gw = mpcomm.dot_general %y, %gz, contracting_dims = [0] x [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  %rw = mpcomm.all_reduce(%gw) on @mesh axes ["dp"] mean : tensor<3x3xf32>
  %gh = arith.addf %h, %one : tensor<2x4xf32>
  %gh16 = arith.truncf %gh : tensor<2x4xf32> to tensor<2x4xbf16>
  %back = mpcomm.dot_general %gh16, %v16, contracting_dims = [1] x [1] : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %both = arith.addf %back, %x : tensor<2x4xbf16>
  %gv16 = mpcomm.dot_general %x, %both, contracting_dims = [0] x [0] : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xbf16>
  %rv16 = mpcomm.all_reduce(%gv16) on @mesh axes ["dp"] mean : tensor<4x4xbf16>
  %rv = arith.extf %rv16 : tensor<4x4xbf16> to tensor<4x4xf32>
  %v1 = mpcomm.sgd_update %v, %rv, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %w1 = mpcomm.sgd_update %w, %rw, %lr, weight_decay = 0.0 : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %loss, %v1, %w1, %new : tensor<f32>, tensor<4x4xf32>, tensor<3x3xf32>, tensor<f32>
}
