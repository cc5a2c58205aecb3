// State is split over the ranks of several nodes. An all_reduce of all of them,
// here of the loss, would be faster in two levels, but the axis that it would
// split shards the state.

// RUN: mpcomm-opt %s --mpcomm-graph="cluster=dgx-h100 mesh=dp:64 zero=1" --remarks-filter=mpcomm-decompose-collectives \
// RUN:   --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: mpcomm-opt %s --mpcomm-graph="cluster=dgx-h100 mesh=dp:64" | FileCheck %s --check-prefix=WHOLE

// CHECK: mpcomm.mesh @mesh <["dp" = 64]>
// CHECK: tensor<512xf32> {{.*}}mpcomm.sharding = #mpcomm.sharding<@mesh, {{.*}}flat = ["dp"]
// CHECK: mpcomm.all_reduce(%{{.*}}) on @mesh axes ["dp"] mean : tensor<f32>
// REMARK: NotDecomposed{{.*}}values are sharded over the axis that it would split
// WHOLE: mpcomm.mesh @mesh <["dp.outer" = 8, "dp.inner" = 8]>
func.func @train_step(
    %w: tensor<256x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %m: tensor<256x128xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m", mpcomm.donated = 2 : i64},
    %v: tensor<256x128xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v", mpcomm.donated = 3 : i64},
    %t: tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "t", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 1.0e-01 : f32},
    %x: tensor<8x256xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<256x128xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<256x128xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "m"},
        tensor<256x128xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "v"},
        tensor<f32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "t"}) {
  // loss = sum(y^2) / 2, with y = x w.
  %y = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x256xf32>, tensor<256x128xf32>) -> tensor<8x128xf32>
  %y2 = arith.mulf %y, %y : tensor<8x128xf32>
  %sum = mpcomm.reduce sum %y2, dims = [0, 1] : (tensor<8x128xf32>) -> tensor<f32>
  %half = arith.constant dense<0.5> : tensor<f32>
  %loss = arith.mulf %sum, %half : tensor<f32>
  %dw = mpcomm.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x256xf32>, tensor<8x128xf32>) -> tensor<256x128xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %t1 = arith.addf %t, %one : tensor<f32>
  %w1, %m1, %v1 = mpcomm.adamw_update %w, %dw, %m, %v, %t1, %lr,
      beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, weight_decay = 0.01
      : (tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<f32>, tensor<f32>)
      -> (tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>)
  return %loss, %w1, %m1, %v1, %t1 : tensor<f32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<f32>
}
