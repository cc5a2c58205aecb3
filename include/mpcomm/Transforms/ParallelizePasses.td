//===- ParallelizePasses.td - who has which samples -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 2 to Form 3: programs of N ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZEPASSES
#define MPCOMM_TRANSFORMS_PARALLELIZEPASSES

include "PassOptions.td"

def DataParallelPass : Pass<"mpcomm-data-parallel", "::mlir::ModuleOp"> {
  let summary = "Makes of a training graph the program of N ranks, each with "
                "its own samples";
  let description = [{
    Creates the mesh, or adds the axis to it as its last and fastest one, and
    averages over the axis, by one `mpcomm.all_reduce … mean` each, placed where
    the value is defined:
    - each value that enters an optimizer op of `@train_step` as a gradient and
      may differ between ranks; other uses of the value keep the rank's own;
    - each result of `@train_step` of role `loss`;
    - each result of role `buffer` that is of floats and may differ: running
      statistics of a batch norm. (DistributedDataParallel keeps those of rank
      0. Of variances the mean leaves out how the ranks' means differ.)
    What `mpcomm.update_fp8_scale` takes as greatest magnitude is that of all
    ranks, by one `mpcomm.all_reduce … max` of all that are defined before the
    first of these ops: each rank keeps the same histories and scales.
    `@evaluate` is left alone: its results are per rank. With `micro-batches`,
    state that one micro-batch hands on to the next may differ where what it is
    made of does: it has a mean, too, and so has a gradient that is made of it.

    `wire` is the type in which wider gradients travel; with it, and where they
    have 16 bits, their sums are declared to be taken in f32 (`accumulate`).
    `average=before` divides each rank's gradients before they are sent and sums
    them.

    Assumes: Form 1; what enters an optimizer op as a gradient is linear in the
    gradient of the loss (a norm clipped before would be clipped per rank).

    Guarantees: Form 3. A result of role `parameter`, `optimizer_state`,
    `buffer` or `loss_scale` that would differ between ranks is an error that
    names what it depends on: counters are replicated, and integers have no mean.
    Running the pass again changes nothing; an axis of size 1 gives the mesh and no collectives.

    Numerics: reassociating: the mean over ranks of means over a rank's samples,
    as DistributedDataParallel computes it; lossy with a `wire` that is narrower
    than the gradients.

    Example: with `size=2`
    ```mlir
    %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    mpcomm.mesh @mesh <["dp" = 2]>
    %g = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4x2xf32>
    %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```

    Counts (analysis remark `DataParallel`): ranks, gradients averaged, their
    bytes, gradients that are the same on all ranks already, buffers averaged,
    magnitudes of which the greatest is taken.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"size", "size", "int64_t", "0",
           "Ranks along the axis; 0: as many as the mesh says">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"",
           "Symbol of the mesh that is created or extended">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches that the step will be cut into">,
    Option<"wire", "wire", "std::string", "\"\"",
           "Type in which gradients travel: f32, f16 or bf16; empty: their own">,
    Option<"averaging", "average", "::mpcomm::Averaging",
           "::mpcomm::Averaging::After", "When gradients are divided",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::Averaging::After, "after", "after their sum"),
      clEnumValN(::mpcomm::Averaging::Before, "before", "before they are sent")
    )}]>
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def SyncBatchNormPass : Pass<"mpcomm-sync-batch-norm", "::mlir::ModuleOp"> {
  let summary = "Batch norms of `@train_step` normalise over the batch of all "
                "ranks";
  let description = [{
    Statistics of `mpcomm.batch_norm_training` become those of the samples of
    all ranks along the axis: two `mpcomm.all_reduce … mean` of a number a
    feature, of the ranks' means and then of their variances about the global
    mean. What reads them, running statistics and gradients, reads the global
    ones, and n / (n - 1) in an unbiased running variance counts all samples.
    The gradient of the input takes the means over all ranks of dy and dy * xhat;
    gamma's and beta's gradients stay the rank's, for the data-parallel mean.
    As torch.nn.SyncBatchNorm, for ranks with as many samples each.

    Assumes: Form 3, of `mpcomm-data-parallel`, whose mesh it takes; the ops in
    the body of `@train_step`, and gradients that read the statistics of a
    forward op as they are.

    Guarantees: Form 3; nothing changes on one rank. `@evaluate` normalises by
    running statistics and is left alone. Running the pass again would take
    the mean of equal statistics; pipelines run it once.

    Numerics: another function of the samples: that of one rank with all of
    them, but for rounding.

    Example: with 2 ranks
    ```mlir
    %y, %m, %v = mpcomm.batch_norm_training %x, %g, %b, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
    becomes
    ```mlir
    %y, %m, %v = mpcomm.batch_norm_training %x, %g, %b, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
    %M = mpcomm.all_reduce(%m) on @mesh axes ["dp"] mean : tensor<4xf32>
    %d = arith.subf %m, %M : tensor<4xf32>
    %s = arith.mulf %d, %d : tensor<4xf32>
    %t = arith.addf %v, %s : tensor<4xf32>
    %V = mpcomm.all_reduce(%t) on @mesh axes ["dp"] mean : tensor<4xf32>
    %Y = mpcomm.batch_norm_inference %x, %g, %b, %M, %V, eps = 1.0e-05, feature_dim = 1 : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    ```

    Counts (analysis remark `SyncBatchNorm`): norms forward and backward, bytes
    that they send.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"mesh", "mesh", "std::string", "\"mesh\"",
           "Symbol of the mesh">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

def AccumulateGradientsPass
    : Pass<"mpcomm-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "Makes a step of several micro-batches, of which the gradients "
                "are added up";
  let description = [{
    Each batch argument of `@train_step` becomes `micro-batches` times as long.
    The forward and the backward pass, which is what lies before the first
    collective or optimizer op, become the private function
    `@train_step.micro_batch`, which `@train_step` calls for each micro-batch
    but the last; that one stays where it is, so that collectives of its
    gradients overlap with its backward pass. Collectives and updates run once.

    Of what collectives and updates need of a micro-batch, gradients and the
    loss, they get the mean over the micro-batches: a sum in f32, divided after
    an all_reduce in f32, and before a narrower one. What an all_reduce takes
    the maximum of, they get the maximum of. State that is not updated by an
    optimizer op goes from one micro-batch to the next: buffers (running
    statistics), and state of other roles that is computed of samples or of what
    goes on (not a count of steps); collectives and updates get the mean of what
    micro-batches started with. Role `rng`: micro-batch i takes the argument with
    i added to its last word.

    Assumes: Form 1 or 3; gradients and the loss are means over the samples of a
    micro-batch.

    Guarantees: the same form. It is an error if `@train_step` has no batch, if
    the batch is needed after a collective (batch norms that communicate) other
    than as a gradient or state, or if a result of another role than loss or
    state is made of a micro-batch.

    Numerics: reassociating: the mean of a whole batch is the mean of the means
    of its parts.

    Example: with `micro-batches=4`
    ```mlir
    func.func @train_step(%w: tensor<4xf32>, %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>}, ...)
      %g = <forward and backward pass of %w and %x>
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    ```
    becomes
    ```mlir
    func.func private @train_step.micro_batch(%w: tensor<4xf32>, %x: tensor<8x4xf32>, %sum: tensor<4xf32> {mpcomm.donated = 0 : i64}) -> tensor<4xf32>
    func.func @train_step(%w: tensor<4xf32>, %x: tensor<32x4xf32> {mpcomm.role = #mpcomm.role<batch>}, ...)
      %s1 = call @train_step.micro_batch(%w, <samples 0 to 7>, <zeros>)
      %s2 = call @train_step.micro_batch(%w, <samples 8 to 15>, %s1)
      %s3 = call @train_step.micro_batch(%w, <samples 16 to 23>, %s2)
      %g = <forward and backward pass of %w and samples 24 to 31>
      %s4 = arith.addf %s3, %g : tensor<4xf32>
      %r = mpcomm.all_reduce(%s4) on @mesh axes ["dp"] mean : tensor<4xf32>
      %m = arith.mulf %r, <0.25> : tensor<4xf32>
    ```

    Counts (analysis remark `Accumulated`): micro-batches, sums, their bytes.
  }];
  let options = [
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches of a step">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mpcomm::MPCommDialect"];
}

def PartitionPipelinePass
    : Pass<"mpcomm-partition-pipeline", "::mlir::ModuleOp"> {
  let summary = "Says for each op of a step which pipeline stage it is in";
  let description = [{
    Tells the forward from the backward pass of `@train_step` by what the loss
    depends on, and cuts the forward pass, in its order, into stages: so that
    the slowest stage, with the backward ops that go with it, is as fast as can
    be; among equals, so that the fewest bytes cross boundaries. This is solved
    exactly. Each backward op goes to the stage that keeps what it reads. Ops
    carry their stage as `mpcomm.stage`; `mpcomm-schedule-pipeline` makes the
    programs.

    What a user says is kept to: `mpcomm.stage` on an op of the forward pass,
    and `boundaries`, of which `h.3.*=1` puts what reads parameters of such
    names into stage 1. A parameter that ops of several stages read is held by
    each of them.

    Movement and widening of one value, and what does not depend on the batch,
    has no stage: it is made where it is needed.

    Assumes: Form 1 or 3, with a loss.

    Guarantees: the same form; nothing changes but attributes, and states
    that get a `mpcomm.reshape` to their own shape. It is an error if
    there is no cut with as many stages as asked for (fewer ops, given stages
    that contradict each other, too little memory), and if a stage has no
    parameters.

    Numerics: exact.

    Example: with `stages=2`
    ```mlir
    %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    ```
    becomes
    ```mlir
    %h = mpcomm.dot_general %x, %w0, contracting_dims = [1] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %y = mpcomm.dot_general %h, %w1, contracting_dims = [1] x [0] {mpcomm.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    ```

    Counts (analysis remarks): `Partitioned` with stages, forward ops,
    microseconds of the slowest stage and the least there can be, balance
    (slowest over mean), what binds it (compute, transfer, memory, constraint),
    bytes that cross boundaries, the greatest peak, tied parameters; `Stage`,
    for each, with its ops, microseconds and bytes; with `explain-ops` also `Op`,
    for each op of the forward pass, with what a stage of it alone would be: its
    picoseconds, those of its backward parts with them, and bytes.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1",
           "Stages, those of all chunks of a rank counted">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches of a step: how many may be under way in a stage">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"", "Symbol of the mesh">,
    ListOption<"boundaries", "boundaries", "std::string",
               "Stages of ops by names of parameters: PATTERN=STAGE,...">,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Most bytes of a stage; 0: no limit">,
    Option<"tolerance", "tolerance", "double", "0.0",
           "Share by which the slowest stage may be slower where that saves "
           "bytes at boundaries">,
    Option<"explainOps", "explain-ops", "bool", "false",
           "A remark of each op of the forward pass: what stages are weighed by">,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def RecomputePass : Pass<"mpcomm-recompute", "::mlir::ModuleOp"> {
  let summary = "Has stages make activations again instead of keeping them";
  let description = [{
    What the backward pass of a stage reads of its own forward pass is made
    again before it: the ops in between are copied, and the originals'
    results are kept no longer than their own pass. With `policy=stage` a stage
    keeps what it receives; with `selective` also the results of products and
    convolutions, which cost most to recompute for what they take. State is not
    recomputed, and a seed gives the same mask twice.

    Assumes: Form 1 or 3 in which the ops of `@train_step` carry
    `mpcomm.stage`.

    Guarantees: the same form. Later passes must not merge the copies with the
    originals: `mpcomm-schedule-pipeline` puts them into functions of their own.

    Numerics: exact: the same ops on the same values. Kernels may round them
    otherwise: a product and a sum in one kernel are rounded once.

    Example: with `policy=stage`
    ```mlir
    %t = math.tanh %h {mpcomm.stage = 0 : i64} : tensor<8x4xf32>
    %dw = mpcomm.dot_general %t, %dy, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    ```
    becomes
    ```mlir
    %t = math.tanh %h {mpcomm.stage = 0 : i64} : tensor<8x4xf32>
    %u = math.tanh %h {mpcomm.stage = 0 : i64} : tensor<8x4xf32>
    %dw = mpcomm.dot_general %u, %dy, contracting_dims = [0] x [0] {mpcomm.stage = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    ```

    Counts (analysis remark `Recomputed`, one a stage): ops copied, bytes of
    what is not kept, microseconds of the copies by the cost model.
  }];
  let options = [
    Option<"policy", "policy", "::mpcomm::Recomputation",
           "::mpcomm::Recomputation::None", "What is recomputed",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::Recomputation::None, "none", "nothing"),
      clEnumValN(::mpcomm::Recomputation::Selective, "selective",
                 "all but products and convolutions"),
      clEnumValN(::mpcomm::Recomputation::Stage, "stage",
                 "all that the stage does not receive")
    )}]>,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def SchedulePipelinePass
    : Pass<"mpcomm-schedule-pipeline", "::mlir::ModuleOp"> {
  let summary = "Makes of a step in stages the program of each rank of a "
                "pipeline";
  let description = [{
    A step takes `micro-batches` batches. What a stage does with one of them
    becomes private functions, its forward and its backward pass (in two, where
    the schedule says so: gradients of inputs, and of weights); a rank's program
    calls them in the order of a schedule. Activations and their gradients
    travel by asynchronous sends and receives, a channel for each edge and
    direction; the receives of an action start as the one ahead of it begins. A
    program of the module, `mpcomm.program`, says which function each rank runs.
    The mesh gets the axis, as its first.

    Gradients are added up over the micro-batches, divided as
    `mpcomm-accumulate-gradients` does, and reduced and applied once. Each
    reduction that does not span the pipeline starts after the action that adds
    the last of what it reduces. Of a parameter that several ranks hold, each rank's gradients are exchanged and
    added up in the order of ranks: copies stay equal. What all gradients have
    in common, that one is not finite, and their norm, is that of all stages.
    The loss is known to all ranks. `@evaluate` is cut along.

    Schedules: gpipe, 1f1b, interleaved (1F1B), zb-h1 and zb-v, as in
    docs/Design/PipelineSchedules.md; auto chooses by the cost model, or
    searches for a better order; a file gives one as PyTorch's CSV, which is
    verified first. Stages are on the ranks of its rows, else on those of
    `placement`, else on those of the schedule.

    Assumes: Form 1 or 3 in which the ops of `@train_step` carry
    `mpcomm.stage`, as `mpcomm-partition-pipeline` leaves it; gradients and the
    loss are means over the samples of a micro-batch.

    Guarantees: Form 3, with asynchronous sends and receives. It is an error if
    a schedule does not fit, if there are fewer micro-batches than ranks, if a
    gradient would travel up the stages, or if the step has results other than a
    loss and state.

    Numerics: reassociating: the mean of a whole batch is the mean of the means
    of its parts, and a tied parameter's gradient is the sum of those of its
    uses.

    Example: with `ranks=2 micro-batches=4 schedule=1f1b`
    ```mlir
    func.func @train_step(%w0: tensor<4x4xf32>, %w1: tensor<4x4xf32>, %x: tensor<8x4xf32>, ...)
    ```
    becomes
    ```mlir
    mpcomm.program @train_step on @mesh axes ["pp"] runs [@train_step.rank0, @train_step.rank1]
    func.func private @train_step.stage0.forward(%w0: tensor<4x4xf32>, %x: tensor<8x4xf32>, ...)
    func.func private @train_step.stage0.backward(...)
    func.func @train_step.rank0(%w0: tensor<4x4xf32>, %x: tensor<32x4xf32>, ...)
      %h = call @train_step.stage0.forward(%w0, <samples 0 to 7>)
      %f = mpcomm.async { mpcomm.send(%h) on @mesh axes ["pp"] to = 1 channel = 1 {mpcomm.tag = "F0.e0.v0"} : tensor<8x4xf32> ... }
      ...
    ```

    Counts (analysis remarks): `Pipelined` with ranks, stages, micro-batches,
    channels, buffers of a channel, bytes that a step sends, microseconds and
    bubble share by the cost model; `Chosen` for schedule=auto, with the lower
    bound and whether it is proven that none is faster.
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", "1", "Ranks of the pipeline">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches of a step">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "auto, gpipe, 1f1b, interleaved, zb-h1 or zb-v">,
    Option<"scheduleFile", "schedule-file", "std::string", "\"\"",
           "File with a schedule as PyTorch's CSV, which takes the place of "
           "`schedule`">,
    ListOption<"placement", "placement", "int64_t",
               "By stage, the rank that holds it; none given: as the schedule "
               "has them">,
    Option<"axis", "axis", "std::string", "\"pp\"",
           "Mesh axis of the pipeline's ranks">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"", "Symbol of the mesh">,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Most bytes of a rank, by which auto chooses; 0: no limit">,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_PARALLELIZEPASSES
