// What a micro-batch hands on is a rank's own until the step ends with its mean:
// a buffer that takes the value that another one came with, and a gradient of it.

// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2 micro-batches=2" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-data-parallel=size=2 | FileCheck %s --check-prefix=ONE
// RUN: mpcomm-opt %s --mpcomm-data-parallel="size=2 micro-batches=2" --mpcomm-accumulate-gradients=micro-batches=2 \
// RUN:   --mpcomm-verify-shardings -o /dev/null

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[W:.*]]: tensor<2xf32> {{{.*}}"w"{{.*}}}, %[[LAST:.*]]: tensor<2xf32> {{{.*}}"last"{{.*}}}, %[[NOW:.*]]: tensor<2xf32> {{{.*}}"now"
// CHECK-DAG: %[[GRAD:.*]] = mpcomm.all_reduce(%[[LAST]]) on @mesh axes ["dp"] mean
// CHECK-DAG: %[[LAST1:.*]] = mpcomm.all_reduce(%[[NOW]]) on @mesh axes ["dp"] mean
// CHECK-DAG: %[[SUM:.*]] = mpcomm.reduce sum
// CHECK-DAG: %[[NOW1:.*]] = mpcomm.all_reduce(%[[SUM]]) on @mesh axes ["dp"] mean
// CHECK: %[[W1:.*]] = mpcomm.sgd_update %[[W]], %[[GRAD]]
// CHECK: return %{{.*}}, %[[W1]], %[[LAST1]], %[[NOW1]]

// ONE-LABEL: func.func @train_step(
// ONE-SAME: %[[W:.*]]: tensor<2xf32> {{{.*}}"w"{{.*}}}, %[[LAST:.*]]: tensor<2xf32> {{{.*}}"last"{{.*}}}, %[[NOW:.*]]: tensor<2xf32> {{{.*}}"now"
// ONE: %[[W1:.*]] = mpcomm.sgd_update %[[W]], %[[LAST]]
// ONE: return %{{.*}}, %[[W1]], %[[NOW]], %{{.*}}
func.func @train_step(
    %w: tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 1 : i64},
    %last: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "last", mpcomm.donated = 2 : i64},
    %now: tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "now", mpcomm.donated = 3 : i64},
    %x: tensor<4x2xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "last"},
        tensor<2xf32> {mpcomm.role = #mpcomm.role<buffer>, mpcomm.name = "now"}) {
  %lr = arith.constant dense<1.0> : tensor<f32>
  %now1 = mpcomm.reduce sum %x, dims = [0] : (tensor<4x2xf32>) -> tensor<2xf32>
  %loss = mpcomm.reduce sum %now1, dims = [0] : (tensor<2xf32>) -> tensor<f32>
  %w1 = mpcomm.sgd_update %w, %last, %lr, weight_decay = 0.0 : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %loss, %w1, %now, %now1 : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
