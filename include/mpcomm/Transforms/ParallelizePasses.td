//===- ParallelizePasses.td - programs of ranks -*- tablegen -*-===//
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
  let summary = "Turns a training graph into the program of N ranks with "
                "different samples";
  let description = [{
    Creates the mesh, or adds the axis to it as its last (fastest varying) one.
    Averages the following values over the axis, by one
    `mpcomm.all_reduce … mean` each, placed where the value is defined:
    - each value that enters an optimizer op of `@train_step` as a gradient and
      may differ between ranks; other uses of the value keep the rank's own
      value;
    - each result of `@train_step` of role `loss`;
    - each result of role `buffer` that has floats and may differ, such as
      running statistics of a batch norm. (DistributedDataParallel keeps those
      of rank 0. A mean of variances ignores the differences between the ranks'
      means.)

    The magnitude that `mpcomm.update_fp8_scale` takes is the maximum over all
    ranks, by one `mpcomm.all_reduce … max` of all that are defined before the
    first of these ops: each rank keeps the same histories and scales.
    `@evaluate` is unchanged: its results are per rank. With `micro-batches`,
    state that one micro-batch passes to the next may differ if its inputs do:
    it is averaged, too, and so is a gradient that depends on it. Gradients of
    updates that are marked `mpcomm.local_update` stay as they are, and state of
    role `optimizer_state` that then differs gets the sharding `local`.

    `wire` is the type in which wider gradients travel. With `wire`, and for
    16-bit gradients, sums are declared to be computed in f32 (`accumulate`).
    `average=before` divides the gradients of each rank before they are sent and
    sums them.

    Assumes: Form 1; what enters an optimizer op as a gradient is linear in the
    gradient of the loss (a norm clipped before would be clipped per rank).

    Guarantees: Form 3. A result of role `parameter`, `optimizer_state`,
    `buffer` or `loss_scale` that would differ between ranks is an error that
    names what it depends on: counters are replicated, and integers have no
    mean. Running the pass again changes nothing; an axis of size 1 creates the
    mesh and no collectives.

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
    bytes, gradients that are already replicated, buffers averaged, magnitudes
    whose maximum is taken.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"size", "size", "int64_t", "0",
           "Ranks along the axis; 0: the size of the axis in the mesh">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"",
           "Symbol of the mesh that is created or extended">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches that the step will be cut into">,
    Option<"wire", "wire", "std::string", "\"\"",
           "Wire type of gradients: f32, f16 or bf16; empty: their own type">,
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
  let summary = "Normalises batch norms of `@train_step` over the batch of "
                "all ranks";
  let description = [{
    Statistics of `mpcomm.batch_norm_training` become those of the samples of
    all ranks along the axis. This takes two `mpcomm.all_reduce … mean` of one
    number per feature: of the ranks' means, and then of their variances about
    the global mean. Readers of the statistics (running statistics and
    gradients) read the global ones, and n / (n - 1) in an unbiased running
    variance counts all samples. The gradient of the input takes the means over
    all ranks of dy and dy * xhat; the gradients of gamma and beta stay the
    rank's own, for the data-parallel mean. Equal to torch.nn.SyncBatchNorm, for
    ranks with equal numbers of samples.

    Assumes: Form 3, of `mpcomm-data-parallel`, whose mesh it uses; the ops are
    in the body of `@train_step`, and gradients read the statistics of a forward
    op unchanged.

    Guarantees: Form 3; nothing changes on one rank. `@evaluate` normalises by
    running statistics and is unchanged. Running the pass again would average
    equal statistics; pipelines run it once.

    Numerics: another function of the samples: that of one rank with all of
    them, except for rounding.

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
  let summary = "Splits a step into micro-batches and accumulates their "
                "gradients";
  let description = [{
    Each batch argument of `@train_step` becomes `micro-batches` times as long.
    The forward and the backward pass, which end at the first collective or
    optimizer op, become the private function `@train_step.micro_batch`, the
    micro-batch body. `@train_step` calls it for each micro-batch but the last.
    The last one stays inline, so that collectives of its gradients overlap with
    its backward pass. Collectives and updates run once.

    Collectives and updates get the mean of gradients and the loss over the
    micro-batches: a sum in f32, divided after an all_reduce in f32, and before
    a narrower one. For an all_reduce of a maximum they get the maximum. State
    that is not updated by an optimizer op passes from one micro-batch to the
    next: buffers (running statistics), and state of other roles that depends on
    samples or on such state (not a count of steps); collectives and updates get
    the mean of the values with which micro-batches started. Role `rng`:
    micro-batch i takes the argument with i added to its last word.

    Assumes: Form 1 or 3; gradients and the loss are means over the samples of a
    micro-batch.

    Guarantees: the same form. It is an error if `@train_step` has no batch, if
    the batch is needed after a collective (batch norms that communicate) other
    than as a gradient or state, or if a result of another role than loss or
    state depends on a micro-batch.

    Numerics: reassociating: the mean of a whole batch is the mean of the means
    of its micro-batches.

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

def LocalStepsPass : Pass<"mpcomm-local-steps", "::mlir::ModuleOp"> {
  let summary = "Has ranks take several steps by their own gradients before "
                "they meet";
  let description = [{
    Each batch argument of `@train_step` becomes `steps` times as long, and the
    step becomes `steps` steps on parts of it, each of which starts from the
    state that the one before left. All but the last are calls of the private
    function `@train_step.local_step`; the last stays inline, so that what ranks
    send after it overlaps with its backward pass. Updates in these steps are
    marked `mpcomm.local_update`: `mpcomm-data-parallel` leaves their gradients
    to the rank.

    What the steps did to a parameter, the old one minus the new one, is the
    gradient of an outer optimizer, stochastic gradient descent with a learning
    rate of `outer-lr` and Nesterov's momentum of `outer-momentum`, whose result
    is the parameter. `mpcomm-data-parallel` averages these gradients. With 1
    and 0 the parameter is the mean of the ranks' (local SGD; Stich, "Local SGD
    Converges Fast and Communicates Little", ICLR 2019); DiLoCo (Douillard et
    al., "DiLoCo: Distributed Low-Communication Training of Language Models",
    2023) has 0.7 and 0.9. Momentum is state of the name of the parameter and
    `.outer_momentum`, which begins as zeros.

    The loss is the mean over the steps. Step i takes an argument of role `rng`
    that is no state with i times 2^20 added to its last word: micro-batches add
    less. Copies of parameters in other types (`mpcomm.copy_of`) are those of
    the outer optimizer's. Hyperparameters are those of all steps.

    Assumes: Form 1; no loss scaling.

    Guarantees: Form 1, to be made parallel by `mpcomm-data-parallel`. It is an
    error if a result is neither a loss nor state, if an argument does not
    donate its buffer to state, if there is no batch, or if a parameter with an
    outer momentum is not f32. With `steps=1` nothing changes.

    Numerics: another optimizer: not that of one rank with all samples.

    Example: with `steps=2`
    ```mlir
    func.func @train_step(%w: tensor<4xf32>, %x: tensor<8x4xf32> {mpcomm.role = #mpcomm.role<batch>}, ...)
      %g = <forward and backward pass of %w and %x>
      %w1 = mpcomm.sgd_update %w, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %w1 : tensor<4xf32>
    ```
    becomes
    ```mlir
    func.func @train_step(%w: tensor<4xf32>, %x: tensor<16x4xf32> {mpcomm.role = #mpcomm.role<batch>}, ...)
      %w1 = call @train_step.local_step(%w, <samples 0 to 7>)
      %g = <forward and backward pass of %w1 and samples 8 to 15>
      %w2 = mpcomm.sgd_update %w1, %g, %lr, weight_decay = 0.0 {mpcomm.local_update} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %d = arith.subf %w, %w2 : tensor<4xf32>
      %w3 = mpcomm.sgd_update %w, %d, <1.0>, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %w3 : tensor<4xf32>
    ```

    Counts (analysis remark `LocalSteps`): steps, parameters that ranks average,
    their bytes.
  }];
  let options = [
    Option<"steps", "steps", "int64_t", "1",
           "Steps of a rank between two meetings, at most 4096">,
    Option<"outerLR", "outer-lr", "double", "1.0",
           "Learning rate of the outer optimizer">,
    Option<"outerMomentum", "outer-momentum", "double", "0.0",
           "Nesterov's momentum of the outer optimizer">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mpcomm::MPCommDialect"];
}

def AverageMomentumPass : Pass<"mpcomm-average-momentum", "::mlir::ModuleOp"> {
  let summary = "Has ranks average momentum instead of gradients";
  let description = [{
    What compression loses of a gradient and gives to the next one comes late,
    and momentum then amplifies it. What it loses of the momentum does not come
    twice: it is as if that had been sent later (Tang et al., "1-bit Adam:
    Communication Efficient Large-Scale Training with Adam's Convergence Speed",
    ICML 2021, algorithm 1 and, of SGD, theorem 1).

    Each `mpcomm.sgd_update` with a momentum buffer, and each
    `mpcomm.adamw_update`, becomes an `mpcomm.update` whose gradient is the new
    momentum: momentum * b + grad, or beta1 * m +
    (1 - beta1) * grad. `mpcomm-data-parallel` averages that over ranks instead
    of the gradient. Of SGD nothing else changes: weight decay is added to what
    ranks have averaged.

    An update by Adam is not linear in the gradient. The estimate of the
    variance, v / (1 - beta2^step), stays what it was before: v' = v *
    (1 - beta2^step) / (1 - beta2^(step - 1)), so that a step of AdamW can
    follow. Where it is 0, an element has never had a gradient, and stays, but
    for its weight decay, with a momentum of 0. The step is a plan with the state
    of the one that it comes from: a job warms up with AdamW and then switches
    to this. The first step of all is one of AdamW, whose variance then stays.

    Of an `mpcomm.update`, momentum is the first state that the region makes of
    itself and the gradient, and maybe the parameter, with constant factors.
    State that is not linear in the gradient stays as it is (the variance of
    LAMB, whose trust ratios are of the averaged momentum; Li et al., "1-bit
    LAMB", HiPC 2022, scale those of the warm-up instead), and an element for
    which it is 0 gathers no momentum: without steps of the optimizer before,
    none moves. An update without momentum averages its gradient, as without the
    pass.

    Assumes: Form 1; AdamW has made steps before.

    Guarantees: Form 1. It is an error if there is no update with momentum, if
    one reads the gradient beside it (Lion, NAdam), or has two states that are
    linear in the gradient (a buffer of the last gradient, AdEMAMix), if one has
    a parameter of fewer than 32 bits, or if its gradient is handed on by another
    optimizer op (clipped, or scaled): that is not the one which ranks would
    average.

    Numerics: of SGD reassociating (with Nesterov's momentum, the gradient is
    found again as a difference), of AdamW another optimizer.

    Example:
    ```mlir
    %p1, %b1 = mpcomm.sgd_update %p, %g, %lr, %b, momentum = 0.9, weight_decay = 0.0
        : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```
    becomes
    ```mlir
    %a = arith.mulf %b, <0.9> : tensor<8xf32>
    %c = arith.addf %a, %g : tensor<8xf32>
    %p1, %b1 = mpcomm.update %p, %c, %b, %lr {optimizer = "SGD with averaged momentum"}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) { ... }
    ```

    Counts (analysis remark `AverageMomentum`): updates by SGD, by AdamW, and as
    regions.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

def PartitionPipelinePass
    : Pass<"mpcomm-partition-pipeline", "::mlir::ModuleOp"> {
  let summary = "Assigns each op of a step to a pipeline stage";
  let description = [{
    Separates the forward from the backward pass of `@train_step` by what the
    loss depends on, and cuts the forward pass, in its order, into stages. The
    slowest stage, with its backward ops, is as fast as possible; among equals,
    the fewest bytes cross boundaries. The solution is exact. Each backward op
    goes to the stage that keeps what it reads. Ops get their stage as
    `mpcomm.stage`; `mpcomm-schedule-pipeline` builds the programs.

    Constraints of the user hold: `mpcomm.stage` on an op of the forward pass,
    and `boundaries`, where `h.3.*=1` puts the readers of parameters of such
    names into stage 1. A parameter that ops of several stages read is held by
    each of them.

    Movement and widening of one value, and ops that do not depend on the batch,
    have no stage: they run where they are needed.

    Assumes: Form 1 or 3, with a loss.

    Guarantees: the same form. Only attributes change, except that some state
    gets a `mpcomm.reshape` to its own shape. It is an error if there is no cut
    with the requested number of stages (fewer ops, contradictory stages, too
    little memory), or if a stage has no parameters.

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
    microseconds of the slowest stage and their lower bound, balance (slowest
    over mean), what binds it (compute, transfer, memory, constraint), bytes
    that cross boundaries, the largest peak, tied parameters; `Stage`, for each,
    with its ops, microseconds and bytes; with `explain-ops` also `Op`, for each
    op of the forward pass, with the costs of a stage of that op alone: its
    picoseconds, including its backward ops, and bytes.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "1",
           "Stages, those of all chunks of a rank counted">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches of a step; bounds those in flight in a stage">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"", "Symbol of the mesh">,
    ListOption<"boundaries", "boundaries", "std::string",
               "Stages of ops by names of parameters: PATTERN=STAGE,...">,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Largest memory of a stage; 0: no limit">,
    Option<"tolerance", "tolerance", "double", "0.0",
           "Share by which the slowest stage may be slower where that saves "
           "bytes at boundaries">,
    Option<"explainOps", "explain-ops", "bool", "false",
           "Emit a remark with the costs of each op of the forward pass">,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def RecomputePass : Pass<"mpcomm-recompute", "::mlir::ModuleOp"> {
  let summary = "Recomputes activations in the backward pass instead of "
                "keeping them";
  let description = [{
    The values of a stage's own forward pass that its backward pass reads are
    recomputed before the backward pass: the ops in between are copied, and the
    results of the originals are kept no longer than their own pass. With
    `policy=stage` a stage keeps only what it receives; with `selective` it also
    keeps the results of products and convolutions, whose recomputation is the
    most expensive for the memory it saves. State is not recomputed, and a seed
    gives the same mask twice.

    Assumes: Form 1 or 3 in which the ops of `@train_step` have `mpcomm.stage`.

    Guarantees: the same form. Later passes must not merge the copies with the
    originals: `mpcomm-schedule-pipeline` puts them into separate functions.

    Numerics: exact: the same ops on the same values. Kernels may round them
    differently: a product and a sum in one kernel are rounded once.

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

    Counts (analysis remark `Recomputed`, one per stage): ops copied, bytes that
    are not kept, microseconds of the copies by the cost model.
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
  let summary = "Builds the program of each rank of a pipeline from a step in "
                "stages";
  let description = [{
    A step takes `micro-batches` batches. The work of a stage on one of them
    becomes private functions, its forward and its backward pass (or two
    backward functions, if the schedule separates gradients of inputs and of
    weights). The program of a rank calls these stage functions in the order of
    a schedule. Activations and their gradients travel by asynchronous sends and
    receives, with a channel for each edge and direction; the receives of an
    action start when the previous action begins. A program of the module,
    `mpcomm.program`, says which function each rank runs. The axis becomes the
    first of the mesh.

    Gradients are accumulated over the micro-batches, divided as in
    `mpcomm-accumulate-gradients`, and reduced and applied once. Each reduction
    that does not span the pipeline starts after the action that adds the last
    of its inputs. If several ranks hold a parameter, they exchange its
    gradients and add them in the order of ranks, so copies stay equal. Two
    properties of all gradients are computed over all stages: whether one is not
    finite, and their norm. All ranks know the loss. `@evaluate` is cut in the
    same way.

    Schedules: gpipe, 1f1b, interleaved (1F1B), zb-h1 and zb-v, as in
    docs/Design/PipelineSchedules.md; auto chooses by the cost model, or
    searches for a better order; a file provides one in PyTorch's CSV format,
    which is verified first. Stages are on the ranks of the rows of the file,
    else on those of `placement`, else on those of the schedule.

    Assumes: Form 1 or 3 in which the ops of `@train_step` have `mpcomm.stage`,
    as `mpcomm-partition-pipeline` sets it; gradients and the loss are means
    over the samples of a micro-batch.

    Guarantees: Form 3, with asynchronous sends and receives. It is an error if
    a schedule does not fit, if there are fewer micro-batches than ranks, if a
    gradient would travel up the stages, or if the step has results other than a
    loss and state.

    Numerics: reassociating: the mean of a whole batch is the mean of the means
    of its micro-batches, and the gradient of a tied parameter is the sum of
    those of its uses.

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
               "The rank of each stage; none given: those of the schedule">,
    Option<"axis", "axis", "std::string", "\"pp\"",
           "Mesh axis of the pipeline's ranks">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"", "Symbol of the mesh">,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Memory limit of a rank for auto; 0: no limit">,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_PARALLELIZEPASSES
