// Batch norms of a step take the statistics of all ranks, forward and backward,
// and everything that reads them does; a gradient's mean that is there already
// is not taken twice.

// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2" --mpcomm-sync-batch-norm \
// RUN:   --mpcomm-verify-shardings | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=1" --mpcomm-sync-batch-norm \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2" --mpcomm-sync-batch-norm \
// RUN:   --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// Statistics that are stored in 16 bits until the backward pass are the same.
// RUN: sed -e 's/@train_step/@other/;s/@stored/@train_step/' %s \
// RUN:   | mpcomm-opt --mpcomm-data-parallel="size=2" --mpcomm-sync-batch-norm \
// RUN:     --remarks-filter="mpcomm.*" --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=STORED
// STORED: SyncBatchNorm{{.*}}Function=train_step | Backward=1, {{.*}}Forward=1
// RUN: not mpcomm-opt %s --mpcomm-sync-batch-norm 2>&1 | FileCheck %s --check-prefix=MESH

// ONE-NOT: all_reduce
// MESH: error: there is no mesh @mesh with an axis 'dp', expected it where batch norms meet

// The mean and the variance, 4 * 4 bytes each; gamma's and beta's gradients meet
// anyway.
// REMARK: SyncBatchNorm{{.*}}Function=train_step | Backward=1, Bytes=32, Forward=1

// CHECK-LABEL: func.func @train_step
// CHECK-SAME:    %[[G:[a-z0-9]+]]: tensor<4xf32> {{[^%]*}}%[[B:[a-z0-9]+]]: tensor<4xf32>
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4xf32> {{[^%]*}}%[[DY:[a-z0-9]+]]: tensor<8x4xf32>
func.func @train_step(
    %gamma: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma"},
    %beta: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"},
    %dy: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "dy"})
    -> (tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "unbiased"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "y"},
        tensor<8x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "dx"}) {
  // CHECK: %{{.*}}, %[[M:.*]], %[[V:.*]] = mpcomm.batch_norm_training %[[X]], %[[G]], %[[B]]
  // CHECK: %[[MEAN:.*]] = mpcomm.all_reduce(%[[M]]) on @mesh axes ["dp"] mean
  // CHECK: %[[D:.*]] = arith.subf %[[M]], %[[MEAN]]
  // CHECK: %[[S:.*]] = arith.mulf %[[D]], %[[D]]
  // CHECK: %[[T:.*]] = arith.addf %[[V]], %[[S]]
  // CHECK: %[[VARIANCE:.*]] = mpcomm.all_reduce(%[[T]]) on @mesh axes ["dp"] mean
  // CHECK: %[[Y:.*]] = mpcomm.batch_norm_inference %[[X]], %[[G]], %[[B]], %[[MEAN]], %[[VARIANCE]]
  %y, %mean, %variance = mpcomm.batch_norm_training %x, %gamma, %beta, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // 8 / 7 becomes 16 / 15.
  // CHECK: %[[UNBIASED:.*]] = arith.constant dense<1.06666672> : tensor<4xf32>
  // CHECK: %[[U:.*]] = arith.mulf %[[VARIANCE]], %[[UNBIASED]]
  %correction = arith.constant dense<1.14285719> : tensor<4xf32>
  %unbiased = arith.mulf %variance, %correction : tensor<4xf32>
  // CHECK: %[[DX:.*]], %[[DG:.*]], %[[DB:.*]] = mpcomm.batch_norm_grad %[[DY]], %[[X]], %[[G]], %[[MEAN]], %[[VARIANCE]]
  // CHECK-DAG: %[[GG:.*]] = mpcomm.all_reduce(%[[DG]]) on @mesh axes ["dp"] mean
  // CHECK-DAG: %[[GB:.*]] = mpcomm.all_reduce(%[[DB]]) on @mesh axes ["dp"] mean
  // CHECK-DAG: %[[EG:.*]] = arith.subf %[[DG]], %[[GG]]
  // CHECK-DAG: %[[EB:.*]] = arith.subf %[[DB]], %[[GB]]
  // CHECK: %[[E:.*]] = mpcomm.batch_norm_inference %[[X]], %{{.*}}, %{{.*}}, %[[MEAN]], %[[VARIANCE]]
  // CHECK: %[[ALL:.*]] = arith.addf %[[DX]], %[[E]]
  // CHECK-NOT: all_reduce
  %dx, %dgamma, %dbeta = mpcomm.batch_norm_grad %dy, %x, %gamma, %mean, %variance, eps = 1.0e-05, feature_dim = 1
      : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: mpcomm.sgd_update %[[G]], %[[GG]]
  // CHECK: mpcomm.sgd_update %[[B]], %[[GB]]
  %gamma1 = mpcomm.sgd_update %gamma, %dgamma, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %beta1 = mpcomm.sgd_update %beta, %dbeta, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: return %{{.*}}, %{{.*}}, %[[U]], %[[Y]], %[[ALL]]
  return %gamma1, %beta1, %unbiased, %y, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

func.func @stored(
    %gamma: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "gamma"},
    %beta: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "beta"},
    %x: tensor<1x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<1x4xf32> {mpcomm.role = #mpcomm.role<output>, mpcomm.name = "dx"}) {
  %y, %mean, %variance = mpcomm.batch_norm_training %x, %gamma, %beta, eps = 1.0e-05, feature_dim = 1
      : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %low = arith.truncf %mean : tensor<4xf32> to tensor<4xbf16>
  %high = arith.extf %low : tensor<4xbf16> to tensor<4xf32>
  %dx, %dgamma, %dbeta = mpcomm.batch_norm_grad %y, %x, %gamma, %high, %variance, eps = 1.0e-05, feature_dim = 1
      : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<1x4xf32>
}
