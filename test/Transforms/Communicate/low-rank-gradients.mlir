// RUN: mpcomm-opt %s --mpcomm-low-rank-gradients=rank=2 -split-input-file -verify-diagnostics --remarks-filter="mpcomm-low-rank.*" --remark-format=emitRemark | FileCheck %s

mpcomm.mesh @mesh <["dp" = 2]>

// The matrix of 64 x 32 becomes 2 x 64 and 2 x 32; 8 x 4 would be no smaller, and a vector stays.
// expected-remark @below {{elements=2088, matrices=1, others=2, sent=232}}
func.func @train_step(
    %w: tensor<64x32xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64},
    %v: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v", mpcomm.donated = 1 : i64},
    %b: tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b", mpcomm.donated = 2 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %gw: tensor<64x32xf32>, %gv: tensor<8x4xf32>, %gb: tensor<8xf32>)
    -> (tensor<64x32xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "v"},
        tensor<8xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "b"}) {
  // CHECK: func @train_step(%[[W:[a-z0-9]+]]: tensor<64x32xf32>
  // CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<64x32xf32>, %{{[a-z0-9]+}}: tensor<8x4xf32>, %{{[a-z0-9]+}}: tensor<8xf32>, %[[E:[a-z0-9]+]]: tensor<64x32xf32> {mpcomm.added = "kept", mpcomm.default = 0.000000e+00 : f32, mpcomm.donated = 3 : i64, mpcomm.name = "w.residual", mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {}], local = ["dp"]>}, %{{[a-z0-9]+}}: tensor<2x32xf32> {{.*}}"w.low_rank"
  // CHECK: %[[M:.*]] = arith.addf %[[G]], %[[E]]
  // CHECK: %[[P:.*]] = mpcomm.dot_general %{{.*}}, %[[M]], contracting_dims = [1] x [1] : (tensor<2x32xf32>, tensor<64x32xf32>) -> tensor<2x64xf32>
  // CHECK: mpcomm.all_reduce(%[[P]]) on @mesh axes ["dp"] mean : tensor<2x64xf32>
  // CHECK: %[[ROWS:.*]] = mpcomm.concatenate
  // CHECK: %[[N:.*]] = mpcomm.dot_general %[[ROWS]], %[[M]], contracting_dims = [1] x [0] : (tensor<2x64xf32>, tensor<64x32xf32>) -> tensor<2x32xf32>
  // CHECK: %[[R:.*]] = mpcomm.all_reduce(%[[N]]) on @mesh axes ["dp"] mean : tensor<2x32xf32>
  // Two terms are added where the mean is read.
  // CHECK: mpcomm.slice %[[ROWS]], starts = [0, 0]
  // CHECK: mpcomm.slice %[[R]], starts = [0, 0]
  // CHECK: %[[FIRST:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<64x32xf32>
  // CHECK: mpcomm.slice %[[ROWS]], starts = [1, 0]
  // CHECK: mpcomm.slice %[[R]], starts = [1, 0]
  // CHECK: %[[SECOND:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<64x32xf32>
  // CHECK: %[[MEAN:.*]] = arith.addf %[[FIRST]], %[[SECOND]]
  // CHECK: %[[LOST:.*]] = arith.subf %[[M]], %[[MEAN]]
  // CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<8x4xf32>
  // CHECK: mpcomm.sgd_update %[[W]], %[[MEAN]],
  // CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[LOST]], %[[R]]
  %0 = mpcomm.all_reduce(%gw) on @mesh axes ["dp"] mean : tensor<64x32xf32>
  %1 = mpcomm.all_reduce(%gv) on @mesh axes ["dp"] mean : tensor<8x4xf32>
  %2 = mpcomm.all_reduce(%gb) on @mesh axes ["dp"] mean : tensor<8xf32>
  %3 = mpcomm.sgd_update %w, %0, %lr, weight_decay = 0.000000e+00 : (tensor<64x32xf32>, tensor<64x32xf32>, tensor<f32>) -> tensor<64x32xf32>
  %4 = mpcomm.sgd_update %v, %1, %lr, weight_decay = 0.000000e+00 : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %5 = mpcomm.sgd_update %b, %2, %lr, weight_decay = 0.000000e+00 : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %3, %4, %5 : tensor<64x32xf32>, tensor<8x4xf32>, tensor<8xf32>
}
