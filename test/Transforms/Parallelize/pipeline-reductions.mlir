// What a stage of a rank has added up over all micro-batches is reduced while
// the rank's other stages still run, and awaited after the last of them.

// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:2 micro-batches=2 schedule=interleaved" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:2 micro-batches=4 schedule=zb-v" | FileCheck %s --check-prefix=SPLIT
// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:2 micro-batches=2 schedule=interleaved buckets=none" | FileCheck %s
// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:4 micro-batches=2 schedule=interleaved cluster=%S/../Communicate/Inputs/two-levels.json" \
// RUN:   | FileCheck %s --check-prefix=LEVELS
// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:2 micro-batches=2 schedule=interleaved wire=i8 wire-min-bytes=0" \
// RUN:   | FileCheck %s --check-prefix=ENCODED
// RUN: mpcomm-opt %s --mpcomm-graph="mesh=pp:2,dp:2 micro-batches=2 schedule=interleaved clip-norm=1.0" \
// RUN:   | FileCheck %s --check-prefix=CLIP

// Rank 0 has stages 0 and 2: the gradient of stage 2 travels while stage 0 runs
// backward.
// CHECK-LABEL: func.func @train_step.rank0(
// CHECK: call @train_step.stage2.backward
// CHECK: %[[LAST:.*]]:{{[0-9]+}} = call @train_step.stage2.backward
// CHECK-NOT: call @
// CHECK: mpcomm.send(%[[LAST]]#1)
// CHECK: %[[EARLY:.*]] = mpcomm.async
// CHECK-NEXT: mpcomm.all_reduce(%[[LAST]]#0) on @mesh axes ["dp"]
// CHECK: call @train_step.stage0.backward
// CHECK-NOT: mpcomm.await %[[EARLY]]
// CHECK: call @train_step.stage0.backward
// CHECK-NOT: call @
// CHECK: mpcomm.all_reduce({{.*}} on @mesh axes ["dp"]
// CHECK: mpcomm.await %[[EARLY]]
// CHECK: sgd_update

// So does that of stage 3, on rank 1; the loss as soon as it is there.
// CHECK-LABEL: func.func @train_step.rank1(
// CHECK: call @train_step.stage3.backward
// CHECK: call @train_step.stage3.forward
// CHECK-NOT: call @
// CHECK: mpcomm.all_reduce({{.*}} : tensor<f32>
// CHECK: call @train_step.stage3.backward
// CHECK-NOT: call @
// CHECK: mpcomm.all_reduce({{.*}} : tensor<4x4xf32>
// CHECK: call @train_step.stage1.backward

// What gradients of weights are summed by is done with the last of them.
// SPLIT-LABEL: func.func @train_step.rank0(
// SPLIT-COUNT-4: call @train_step.stage3.weight_backward
// SPLIT-NOT: call @
// SPLIT: mpcomm.all_reduce({{.*}} : tensor<4x4xf32>
// SPLIT: call @train_step.stage0.weight_backward
// SPLIT: call @train_step.stage0.weight_backward
// SPLIT-NOT: call @
// SPLIT: mpcomm.all_reduce({{.*}} : tensor<4x4xf32>

// Of several phases only the first can start: to go on with the others the
// rank would wait.
// LEVELS-LABEL: func.func @train_step.rank0(
// LEVELS: call @train_step.stage2.backward
// LEVELS: call @train_step.stage2.backward
// LEVELS-NOT: call @
// LEVELS: mpcomm.reduce_scatter({{.*}} ["dp.inner"]
// LEVELS-NOT: ["dp.
// LEVELS: call @train_step.stage0.backward
// LEVELS-NOT: ["dp.
// LEVELS: call @train_step.stage0.backward
// LEVELS: mpcomm.all_gather({{.*}} ["dp.inner"]

// ENCODED-LABEL: func.func @train_step.rank0(
// ENCODED: call @train_step.stage2.backward
// ENCODED: call @train_step.stage2.backward
// ENCODED-NOT: call @
// ENCODED: mpcomm.all_to_all
// ENCODED-NOT: mpcomm.all_gather
// ENCODED: call @train_step.stage0.backward
// ENCODED: call @train_step.stage0.backward
// ENCODED: mpcomm.all_gather

// The norm over all stages waits for all of them: reductions along the pipeline
// stay in one order on all its ranks.
// CLIP-LABEL: func.func @train_step.rank0(
// CLIP: mpcomm.all_reduce({{.*}} ["dp"]
// CLIP: call @train_step.stage0.backward
// CLIP: call @train_step.stage0.backward
// CLIP-NOT: call @
// CLIP: %[[OWN:.*]] = mpcomm.squared_norm(
// CLIP: mpcomm.all_reduce(%[[OWN]]) on @mesh axes ["pp"] sum
// CLIP: %[[NORM:.*]] = math.sqrt
// CLIP: mpcomm.clip_by_global_norm(%{{.*}}, %{{.*}}) norm = %[[NORM]], max_norm = 1.0

func.func @train_step(
    %w0: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0", mpcomm.donated = 1 : i64},
    %w1: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1", mpcomm.donated = 2 : i64},
    %w2: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2", mpcomm.donated = 3 : i64},
    %w3: tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w3", mpcomm.donated = 4 : i64},
    %lr: tensor<f32> {mpcomm.role = #mpcomm.role<hyperparameter>, mpcomm.name = "lr", mpcomm.default = 0.1 : f32},
    %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>, mpcomm.name = "x"})
    -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w0"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w1"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w2"},
        tensor<4x4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w3"}) {
  %y0 = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y1 = mpcomm.dot_general %y0, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y2 = mpcomm.dot_general %y1, %w2, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %y3 = mpcomm.dot_general %y2, %w3, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %q = arith.mulf %y3, %y3 : tensor<8x4xf32>
  %loss = mpcomm.reduce sum %q, dims = [0, 1] : (tensor<8x4xf32>) -> tensor<f32>
  %d3 = arith.addf %y3, %y3 : tensor<8x4xf32>
  %g3 = mpcomm.dot_general %y2, %d3, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %d2 = mpcomm.dot_general %d3, %w3, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g2 = mpcomm.dot_general %y1, %d2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %d1 = mpcomm.dot_general %d2, %w2, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g1 = mpcomm.dot_general %y0, %d1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %d0 = mpcomm.dot_general %d1, %w1, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %g0 = mpcomm.dot_general %x, %d0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %n0 = mpcomm.sgd_update %w0, %g0, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n1 = mpcomm.sgd_update %w1, %g1, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n2 = mpcomm.sgd_update %w2, %g2, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %n3 = mpcomm.sgd_update %w3, %g3, %lr, weight_decay = 0.0 : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %loss, %n0, %n1, %n2, %n3 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
