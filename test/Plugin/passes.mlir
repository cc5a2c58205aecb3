// Stock mlir-opt, given the plugin, runs a pass of ours among its own, with
// options, and reports our diagnostics.

// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(mpcomm-data-parallel{size=2},cse,mpcomm-verify-shardings)' \
// RUN:   | FileCheck %s
// RUN: mlir-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --list-passes | FileCheck %s --check-prefix=PASSES
// RUN: not mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(mpcomm-verify-training-graph)' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GATE

// PASSES-DAG: mpcomm-combine-collectives
// PASSES-DAG: mpcomm-data-parallel
// PASSES-DAG: mpcomm-make-async
// PASSES-DAG: mpcomm-verify-scheduled-programs

// GATE: error:

// CHECK: mpcomm.mesh @mesh <["dp" = 2]>
// CHECK-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr"},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w"}) {
  // CHECK: %[[LOSS:.*]] = mpcomm.reduce sum
  // CHECK: mpcomm.all_reduce(%[[LOSS]]) on @mesh axes ["dp"] mean : tensor<f32>
  %loss = mpcomm.reduce sum %x, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  // CHECK: %[[G:.*]] = mpcomm.reduce sum
  // CHECK: %[[R:.*]] = mpcomm.all_reduce(%[[G]]) on @mesh axes ["dp"] mean : tensor<4xf32>
  // CHECK: mpcomm.sgd_update %{{.*}}, %[[R]]
  %g = mpcomm.reduce sum %x, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
  %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %loss, %w1 : tensor<f32>, tensor<4xf32>
}
