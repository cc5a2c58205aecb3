//===- Passes.td - passes on training graphs and rank programs -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of these run on the module: rewrites of communication follow one order
// that every rank computes alike, and remarks come out in program order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PASSES
#define MPCOMM_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def MPComm_AxisOption : Option<"axis", "axis", "std::string", "\"dp\"",
    "Mesh axis along which the ranks have different samples">;

def MPComm_ClusterOption : Option<"cluster", "cluster", "std::string", "\"\"",
    "Preset or JSON file of the cluster; empty: that of the module, else local">;
def MPComm_ProfileOption : Option<"profileFile", "profile-file", "std::string",
    "\"\"", "Measured times of ops, which replace the model's">;

def MPComm_NumericsOption : Option<"numerics", "numerics",
    "::mpcomm::Numerics", "::mpcomm::Numerics::Reassociating",
    "What rewrites may do to values", [{::llvm::cl::values(
      clEnumValN(::mpcomm::Numerics::Exact, "exact",
                 "nothing: the same bits"),
      clEnumValN(::mpcomm::Numerics::Reassociating, "reassociating",
                 "sums in another order"),
      clEnumValN(::mpcomm::Numerics::Lossy, "lossy",
                 "also fewer bits, as on the wire")
    )}]>;

//===----------------------------------------------------------------------===//
// Verify
//===----------------------------------------------------------------------===//

def VerifyTrainingGraphPass
    : Pass<"mpcomm-verify-training-graph", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 1, the training graph";
  let description = [{
    Assumes: IR that passes its verifiers; nothing else.

    Guarantees, where it succeeds, or else names op and place:
    - there is one public function `@train_step`, with a body of one block; the
      only other public function is `@evaluate`;
    - both are pure, without collectives, on ranked tensors of static shape;
    - each argument and result has a role and a name, unique among its kind;
    - donation indices are used once, and the result that reuses a buffer has
      its type, role and name; a result that is state names an argument of its
      role and type, so that it can be fed to the next step;
    - batch arguments share their leading dimension; hyperparameters are 0-d
      floats with a default; what has `mpcomm.copy_of` is state of floats that
      names a parameter of its shape;
    - `@train_step` has one result of role `loss`, a 0-d float;
    - `@evaluate` takes arguments of `@train_step`: same name, role and type,
      and donates nothing; `mpcomm.targets` names an integer batch argument.

    Numerics: exact (changes nothing).

    Example: this step is refused, because the donated buffer of `w` holds
    another type than the result that would reuse it:
    ```mlir
    func.func @train_step(
        %w: tensor<4xf32> {mpcomm.role = #mpcomm.role<parameter>, mpcomm.name = "w", mpcomm.donated = 0 : i64})
        -> (tensor<f32> {mpcomm.role = #mpcomm.role<loss>, mpcomm.name = "loss"})
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def VerifyRankProgramsPass
    : Pass<"mpcomm-verify-rank-programs", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 3, the programs of the ranks";
  let description = [{
    Assumes: IR that passes its verifiers.

    Guarantees, where it succeeds:
    - collectives are synchronous, name the one mesh of the module, and run on
      all ranks of their group: none stands under control flow that depends on
      a value which may differ between the ranks;
    - a gradient that enters an optimizer op is the same on all ranks along
      `axis`, and so is a result of role `parameter`, `optimizer_state`,
      `buffer` or `loss_scale`, and the loss of `@train_step`.

    A value may differ between ranks if it depends on an argument of role
    `batch` or `rng`, and no collective over the axis has made it one again.
    Without a mesh, or with an axis of size 1, nothing differs.

    Numerics: exact (changes nothing).

    Example: refused, as `%g` is each rank's own:
    ```mlir
    %p1 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    ```

    Counts: nothing.
  }];
  let options = [MPComm_AxisOption];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def VerifyScheduledProgramsPass
    : Pass<"mpcomm-verify-scheduled-programs", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 4, the scheduled programs";
  let description = [{
    Assumes: IR that passes its verifiers.

    Guarantees, where it succeeds:
    - every future comes from an `mpcomm.async` and is awaited exactly once, in
      the same block, and nothing else uses it;
    - no collective runs synchronously while another one of the same
      communicator (mesh and axes) is in flight: the two would start in an
      order that depends on the clocks of the ranks;
    - what `mpcomm-verify-rank-programs` says of meshes, control flow,
      gradients and results. Collectives of a communicator thus start in the
      order of the program on every rank.

    Numerics: exact (changes nothing).

    Example: refused, as the future is lost:
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
      mpcomm.yield %r : tensor<4xf32>
    } : !mpcomm.future<tensor<4xf32>>
    return
    ```

    Counts: nothing.
  }];
  let options = [MPComm_AxisOption];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

def ScaleLossPass : Pass<"mpcomm-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Scales the loss, clips gradients, and skips steps that overflow";
  let description = [{
    Makes loss scaling and clipping part of `@train_step`, as values: no flag is
    read back by a host. `@evaluate` is left alone, and the loss that is
    returned is not scaled (docs/Design/LossScaling.md).

    - `mode=static` multiplies gradients by a constant where the backward pass
      begins, and divides them by it before the updates (`mpcomm.unscale`).
      Nothing is checked: what overflows goes into the parameters.
    - `mode=dynamic` does so by a scale that is state of the step; where a
      gradient is not finite, every result of role `parameter` or
      `optimizer_state` keeps its old value (so step counters do not advance),
      and the scale backs off; after `interval` good steps it grows
      (`mpcomm.update_loss_scale`). State that is added, of role `loss_scale`:
      `loss_scale` (f32), `loss_scale.good_steps`, `loss_scale.hysteresis` and
      `loss_scale.skipped`, the number of steps skipped so far (i32).
    - `clip-norm` clips the gradients of all parameters by the norm over all of
      them (`mpcomm.clip_by_global_norm`), behind the division.
    - `check-gradients` adds a result of role `output` named `nonfinite`: of
      each parameter, in the order of the arguments, 1 where its gradient is not
      finite, else 0.

    Where the backward pass begins follows from the graph: the loss needs no
    value of it. A constant gradient of the loss is replaced; where the front
    end folded it, the first values behind it are multiplied. Updates move
    behind all gradients.

    Assumes: Form 1. An op named `*_grad` is linear in its first operand.

    Guarantees: Form 1. Every gradient carries the factor exactly once; a step
    for which that cannot be shown, or which would return a scaled value, is an
    error that names the gradient and the op.

    Numerics: exact in f32 where the scale is a power of two and nothing
    overflows or is subnormal; clipping rounds.

    Example: with `mode=static scale=8`
    ```mlir
    %one = arith.constant dense<1.0> : tensor<f32>
    %d = mpcomm.cross_entropy_grad %one, %logits, %targets, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
    %b1 = mpcomm.sgd_update %b, %d, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    %scale = arith.constant dense<8.0> : tensor<f32>
    %d = mpcomm.cross_entropy_grad %scale, %logits, %targets, %lse mean ignore_index = -100 : (tensor<f32>, tensor<4x2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x2xf32>
    %u, %found = mpcomm.unscale(%d) by %scale : (tensor<4x2xf32>, tensor<f32>) -> (tensor<4x2xf32>, tensor<f32>)
    %b1 = mpcomm.sgd_update %b, %u, %lr, weight_decay = 0.0 : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    ```

    Counts (analysis remark `ScaleLoss`): gradients, places where the factor
    came in, results that a step may skip.
  }];
  let options = [
    Option<"mode", "mode", "::mpcomm::LossScaling",
           "::mpcomm::LossScaling::None", "How the loss is scaled",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::LossScaling::Auto, "auto",
                 "dynamic where the precision is f16, else not at all"),
      clEnumValN(::mpcomm::LossScaling::None, "none", "not at all"),
      clEnumValN(::mpcomm::LossScaling::Static, "static", "by `scale`"),
      clEnumValN(::mpcomm::LossScaling::Dynamic, "dynamic",
                 "by a scale that follows overflows")
    )}]>,
    Option<"policy", "policy", "std::string", "\"\"",
           "The precision, as `mpcomm-insert-casts` takes it (auto)">,
    Option<"policyFile", "policy-file", "std::string", "\"\"",
           "File with the precision, as `mpcomm-insert-casts` takes it (auto)">,
    Option<"initialScale", "scale", "double", "65536.0",
           "The scale, of a dynamic one the first">,
    Option<"growth", "growth", "double", "2.0",
           "Factor on the scale after `interval` good steps">,
    Option<"backoff", "backoff", "double", "0.5",
           "Factor on the scale after an overflow">,
    Option<"interval", "interval", "int64_t", "2000",
           "Good steps in a row before the scale grows">,
    Option<"minScale", "min", "double", "1.0", "Least dynamic scale">,
    Option<"maxScale", "max", "double", "16777216.0", "Greatest dynamic scale">,
    Option<"hysteresis", "hysteresis", "int64_t", "1",
           "Overflows since the scale grew before it backs off">,
    Option<"clipNorm", "clip-norm", "double", "0.0",
           "Greatest norm over all gradients; 0: any">,
    Option<"checkGradients", "check-gradients", "bool", "false",
           "Return which parameters had gradients that are not finite">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def InsertCastsPass : Pass<"mpcomm-insert-casts", "::mlir::ModuleOp"> {
  let summary = "Runs and stores in a narrow type what policy lets it";
  let description = [{
    Gives each op of `@train_step` a type, f32 or the policy's (`bf16`, `f16`),
    and puts `arith.truncf` and `arith.extf` where a value is made in one and
    read in the other. Ops of class `low` (`PrecisionOpInterface`) run in the
    narrow type, ops of class `full` in f32. For the others the type is chosen
    that casts the fewest bytes, by a minimum cut; a `widest` op runs narrow
    only where its inputs come from ops that do. Where the cluster's rates say
    that products are slower in the narrow type, they stay in f32 (`compute`).

    A parameter that narrow ops read gets a copy in the narrow type, as new
    state (`mpcomm.copy_of`) that the update writes along with the parameter. An
    activation that the backward pass reads, and a gradient, is stored in the
    narrow type from where it is made to where it is read (`activations`,
    `gradients`), statistics excepted; a reshape, transpose, slice or broadcast
    of something that is stored anyway is done again. `@evaluate` stays in f32.
    The rules are in docs/Design/Precision.md.

    Assumes: Form 1, with f32 parameters.

    Guarantees: Form 1, with the same results but for those of new state. Each
    value is narrowed at most once, and widened at most once in the forward pass
    and once behind it. A flow problem, near linear in the number of ops.

    Numerics: lossy.

    Example: with `policy=bf16 compute=low`
    ```mlir
    %h = mpcomm.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %y = mpcomm.softmax %h, dim = 1 : tensor<8x2xf32>
    ```
    becomes
    ```mlir
    %x16 = arith.truncf %x : tensor<8x4xf32> to tensor<8x4xbf16>
    %h16 = mpcomm.dot_general %x16, %w.bf16, contracting_dims = [1] x [0] : (tensor<8x4xbf16>, tensor<4x2xbf16>) -> tensor<8x2xbf16>
    %h = arith.extf %h16 : tensor<8x2xbf16> to tensor<8x2xf32>
    %y = mpcomm.softmax %h, dim = 1 : tensor<8x2xf32>
    ```

    Counts: an analysis remark `Compute` under `compute=auto` (the type of
    products, and the rates); an analysis remark `InsertCasts` (casts inserted
    and the bytes of their wide sides; merged: uses that share the cast of
    another; removed: casts fewer than with every op that may be narrow in f32;
    alone: casts that no kernel of their maker or readers can do; values
    stored; parameters copied).
  }];
  let options = [
    Option<"policy", "policy", "std::string", "\"\"",
           "none, bf16, f16 or fp8; empty: the file's, else mpcomm.precision of "
           "the module, else none">,
    Option<"policyFile", "policy-file", "std::string", "\"\"",
           "JSON file with a policy and exceptions by op and by parameter">,
    Option<"compute", "compute", "std::string", "\"\"",
           "Products in the narrow type: auto (where the cluster is not slower "
           "at it), low or full; empty: the file's, else auto">,
    Option<"activations", "activations", "std::string", "\"\"",
           "What the backward pass reads is stored low or full; empty: the "
           "file's, else low">,
    Option<"gradients", "gradients", "std::string", "\"\"",
           "Gradients wait for the update low or full; empty: the file's, else "
           "low">,
    MPComm_ClusterOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mpcomm::MPCommDialect"];
}

//===----------------------------------------------------------------------===//
// Parallelize
//===----------------------------------------------------------------------===//

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
    `@evaluate` is left alone: its results are per rank.

    `wire` is the type in which wider gradients travel; those that travel in 16
    bits are summed in f32 (`accumulate`). `average=before` divides each rank's
    gradients before they are sent and sums them.

    Assumes: Form 1; what enters an optimizer op as a gradient is linear in the
    gradient of the loss (a norm clipped before would be clipped per rank).

    Guarantees: Form 3. A result of role `parameter`, `optimizer_state`,
    `buffer` or `loss_scale` that would differ between ranks is an error that
    names what it depends on: counters are alike, and integers have no mean.
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
    bytes, gradients that are the same on all ranks already, buffers averaged.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"size", "size", "int64_t", "0",
           "Ranks along the axis; 0: as many as the mesh says">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"",
           "Symbol of the mesh that is created or extended">,
    Option<"wire", "wire", "std::string", "\"\"",
           "Type in which gradients travel: f32, f16 or bf16; empty: their own">,
    Option<"averaging", "average", "::mpcomm::Averaging",
           "::mpcomm::Averaging::After", "When gradients are divided",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::Averaging::After, "after", "behind their sum"),
      clEnumValN(::mpcomm::Averaging::Before, "before", "before they are sent")
    )}]>
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

//===----------------------------------------------------------------------===//
// Communicate
//===----------------------------------------------------------------------===//

def SinkUpdatesPass : Pass<"mpcomm-sink-updates", "::mlir::ModuleOp"> {
  let summary = "Moves what depends on collectives behind what does not";
  let description = [{
    A stable partition of each block: first the ops that need no collective's
    result (the backward pass, and the collectives themselves), then those that
    do (optimizer updates, and collectives that need other collectives), both
    in their old order. Buckets can then grow without crossing a use, awaits
    come after the backward pass, and a parameter is overwritten after its last
    use. Updates follow the order in which gradients become ready, so that the
    first ones run while the last buckets are on the wire.

    Assumes: synchronous collectives; run it before `mpcomm-make-async`.

    Guarantees: nothing moves across an op with effects other than those of a
    collective, nor across a send, a receive, a barrier, an async or an await.
    Linear in the number of ops.

    Numerics: exact.

    Example:
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = arith.mulf %x, %w : tensor<4xf32>
    ```
    becomes
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    %h = arith.mulf %x, %w : tensor<4xf32>
    %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    ```

    Counts (analysis remark `SinkUpdates`, one a function): ops moved.
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def SimplifyCollectivesPass
    : Pass<"mpcomm-simplify-collectives", "::mlir::ModuleOp"> {
  let summary = "Removes and merges collectives that say less than they cost";
  let description = [{
    One walk in program order over synchronous collectives on the same
    communicator (mesh and set of axes):
    - a collective without uses goes; sends, receives and barriers stay;
    - of two with the same operands and attributes, the second goes;
    - a reduction of what an all_reduce, an all_gather or a broadcast has made
      the same on all of the group: `mean`, `min` and `max` give the value
      itself, `sum` n times it; likewise a broadcast of it;
    - a reduce_scatter of an all_gather along the same dimension is the rank's
      own block (`sum`: n times it);
    - an all_gather of a reduce_scatter along the same dimension is an
      all_reduce, and an all_slice of an all_reduce a reduce_scatter, if nothing
      else needs the middle;
    - an all_slice of an all_gather is the operand; an all_to_all that undoes
      another one goes with it;
    - all_reduce over some axes of an all_reduce over other ones is one over all
      of them, if both reduce alike;
    - an all_reduce of which only one static slice is used reduces the slice.

    What a narrower wire type rounds is never taken away.

    Assumes: every rank of a group runs the function, in which no collective
    depends on a value that differs between them (Form 3).

    Guarantees: no more bytes travel than before. Linear in the number of ops.

    Numerics: exact where the class is said to be so in the remark; `mean` and
    `sum` of equal values, and what takes sums in another order, are
    reassociating, and left alone under `numerics=exact`. (Over a power of two
    of ranks the mean of equal values is the value: exact.)

    Example:
    ```mlir
    %a = mpcomm.all_gather(%x) on @mesh axes ["dp"] dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
    %b = mpcomm.reduce_scatter(%a) on @mesh axes ["dp"] max dim = 0 : (tensor<8xf32>) -> tensor<4xf32>
    %y = arith.negf %b : tensor<4xf32>
    ```
    becomes
    ```mlir
    %y = arith.negf %x : tensor<4xf32>
    ```

    Counts: a remark for each rewrite, by its name; an analysis remark
    `SimplifyCollectives` for each function (collectives before, after).
  }];
  let options = [MPComm_NumericsOption];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def MoveCastsPass : Pass<"mpcomm-move-casts", "::mlir::ModuleOp"> {
  let summary = "Moves float casts across collectives, to the side where fewer "
                "bytes travel";
  let description = [{
    A cast that widens the operand of an all_gather, an all_to_all or a
    collective_broadcast moves behind it, and one that narrows its only result
    before it: elements are moved, not combined, so each is rounded as before.

    Reductions combine elements. Under `numerics=lossy` an all_reduce or a
    reduce_scatter without a wire type whose operands all come from, or whose
    results all go into, one narrower float type gets that type as `wire`, with
    `accumulate f32`.

    Assumes: synchronous collectives.

    Guarantees: fewer bytes travel than before, or nothing changes. Linear in
    the number of ops.

    Numerics: exact, with `numerics=lossy` lossy: partial results are rounded to
    the wire type.

    Example:
    ```mlir
    %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
    %r = mpcomm.all_gather(%w) on @mesh axes ["dp"] dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
    ```
    becomes
    ```mlir
    %r = mpcomm.all_gather(%x) on @mesh axes ["dp"] dim = 0 : (tensor<4xbf16>) -> tensor<8xbf16>
    %w = arith.extf %r : tensor<8xbf16> to tensor<8xf32>
    ```

    Counts: a remark `CastMoved` or `WireNarrowed` for each (bytes saved); an
    analysis remark `MoveCasts` for each function (moved, narrowed).
  }];
  let options = [MPComm_NumericsOption];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def CombineCollectivesPass
    : Pass<"mpcomm-combine-collectives", "::mlir::ModuleOp"> {
  let summary = "Merges all_reduce ops into buckets, solved against the step";
  let description = [{
    Takes the all_reduce ops of a block in the order of their last operand's
    definition and fills buckets: one variadic op for ops of the same mesh,
    axes, reduction, wire and accumulation type, element type and attributes. A
    bucket stands right behind the definition of its last operand.

    Under `policy=solved` which ops share a bucket follows from when each
    operand is ready, what a collective of so many bytes takes on the cluster,
    and what waits for its result: the plan that ends the step first
    (docs/Design/Bucketing.md). It is run in the simulator next to the plans of
    the other policies and the program as it came in, and the best of them all
    is kept: the step never gets longer in the model. `max-bucket-bytes`,
    `memory-bytes` and `split-bytes` bound it.

    With `reorder`, which is for programs that `mpcomm-schedule-overlap` will
    schedule, the order of what makes the operands is chosen with the buckets:
    buckets are planned against it, scheduled, planned against the order of that
    schedule, and so on while it gains (docs/Design/Overlap.md, "Buckets and
    order together"). The input's order stays where none is better.

    The other policies do as others do: `ddp` closes a bucket once it holds
    `max-bucket-bytes` (25 MiB) or more, the first one `first-bucket-bytes`
    (1 MiB); `xla` keeps buckets within `max-bucket-bytes` (30 MiB); `horovod`
    fuses what is ready when the communicator is free, up to 128 MiB;
    `megatron` closes at 40 million elements; `mg-wfbp` merges greedily; `one`
    makes one bucket.

    Assumes: synchronous collectives. Uses between the members of a bucket keep
    them apart (remark `BucketClosed`): `mpcomm-sink-updates` takes them out of
    the way.

    Guarantees: no result is used before its bucket; nothing moves across an op
    with effects other than an all_reduce; other ops stay where they are, but for
    `reorder`: ops that depend on no all_reduce then come first. The plan follows
    from the IR and the options alone and is the same on every rank. n log n in
    the number of ops, and with `reorder` what docs/Design/Overlap.md says.

    Numerics: reassociating: which ranks' values are added first may depend on
    an element's place in its bucket. Under `numerics=exact` only what cannot
    depend on it is merged: groups of up to two ranks, and `min` and `max`.

    Example: with `policy=one`
    ```mlir
    %a = mpcomm.all_reduce(%g0) on @mesh axes ["dp"] mean : tensor<4xf32>
    %g1 = mpcomm.reduce sum %x, dims = [0] : (tensor<8x2xf32>) -> tensor<2xf32>
    %b = mpcomm.all_reduce(%g1) on @mesh axes ["dp"] mean : tensor<2xf32>
    ```
    becomes
    ```mlir
    %g1 = mpcomm.reduce sum %x, dims = [0] : (tensor<8x2xf32>) -> tensor<2xf32>
    %r:2 = mpcomm.all_reduce(%g0, %g1) on @mesh axes ["dp"] mean : tensor<4xf32>, tensor<2xf32>
    ```

    Counts: a remark `Bucket` for each (bytes, tensors, position: the number of
    ops of the block before it, of how many); `BucketPlan` for each run of
    candidates (the rule that won; simulated microseconds of the step, of the
    input, and a lower bound); analysis remarks `CombineCollectives` for each
    function (collectives before, after), and with `reorder` `Order` (simulated
    microseconds with these buckets scheduled, and of a single pass; lower bounds
    for all buckets in any order, and in this one; orders tried). A bucket that
    `max-bucket-bytes` kept from taking in the next tensor gets
    `mpcomm.user_cap`, for `mpcomm-explain-communication`.
  }];
  let options = [
    Option<"policy", "policy", "::mpcomm::BucketPolicy",
           "::mpcomm::BucketPolicy::Solved", "Who decides on buckets",
           [{::llvm::cl::values(
      clEnumValN(::mpcomm::BucketPolicy::Solved, "solved",
                 "the solver, checked against the others in the simulator"),
      clEnumValN(::mpcomm::BucketPolicy::DDP, "ddp",
                 "a bucket closes once it holds 25 MiB, the first one 1 MiB"),
      clEnumValN(::mpcomm::BucketPolicy::XLA, "xla",
                 "buckets of at most 30 MiB"),
      clEnumValN(::mpcomm::BucketPolicy::Horovod, "horovod",
                 "what is ready when the communicator is free, up to 128 MiB"),
      clEnumValN(::mpcomm::BucketPolicy::Megatron, "megatron",
                 "a bucket closes once it holds 40 million elements"),
      clEnumValN(::mpcomm::BucketPolicy::MGWFBP, "mg-wfbp",
                 "the greedy merge of MG-WFBP"),
      clEnumValN(::mpcomm::BucketPolicy::One, "one", "one bucket"),
      clEnumValN(::mpcomm::BucketPolicy::None, "none", "nothing is merged")
    )}]>,
    MPComm_ClusterOption, MPComm_ProfileOption,
    Option<"maxBucketBytes", "max-bucket-bytes", "int64_t", "0",
           "Cap on the bytes of a bucket; 0: the policy's own">,
    Option<"firstBucketBytes", "first-bucket-bytes", "int64_t", "0",
           "Cap on the bytes of the first bucket (ddp); 0: 1 MiB">,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Most bytes of the buckets of a communicator that are filled or on "
           "the wire at a time (solved); 0: no limit">,
    Option<"splitBytes", "split-bytes", "int64_t", "0",
           "Larger tensors may be cut at multiples of it (solved); 0: never">,
    Option<"decompose", "decompose", "bool", "false",
           "mpcomm-decompose-collectives follows: weigh its costs too (solved)">,
    Option<"reorder", "reorder", "bool", "false",
           "mpcomm-schedule-overlap follows: choose the order of computation with "
           "the buckets (solved)">,
    Option<"maxNodes", "max-nodes", "unsigned", "2048",
           "Above this number of pieces, runs of computation move as one; of "
           "all_reduce ops, the order stays (reorder)">,
    MPComm_NumericsOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def CompressCollectivesPass
    : Pass<"mpcomm-compress-collectives", "::mlir::ModuleOp"> {
  let summary = "Sends the terms of sums in fewer bits, and sums them in f32";
  let description = [{
    An all_reduce of floats (`sum` or `mean`) becomes an all_to_all of encoded
    shares, a sum in f32 on the rank whose share it is, and an all_gather of the
    encoded sum: the volume of a ring, and two roundings whatever the number of
    ranks, where a ring that keeps partial sums in the type on the wire rounds
    once a rank. Operands are laid in one row, filled up to whole blocks.

    `type` is how elements travel: `f16` and `bf16` by a cast; `i8`, `f8E4M3FN`
    and `f8E5M2` with a scale in f32 for each `block` elements, the largest
    magnitude of the block over the format's. Empty: what has `wire` or elements
    of 16 bits and `accumulate f32` travels so, and the rest is left alone; that
    is for networks that reduce in the type on the wire. Smaller all_reduces
    than `min-bytes` are left alone: they cost latency, not volume.

    Assumes: synchronous collectives; run it behind
    `mpcomm-combine-collectives`.

    Guarantees: all ranks get the same bits. With i8, an element of a sum is off
    by at most half of the sum of the ranks' scales of its block and half of the
    sum's scale. A block with an element that is not finite becomes NaN. Linear
    in the number of ops.

    Numerics: lossy; with an empty `type` as the op says.

    Example: with `type=i8 block=4 min-bytes=0` on 2 ranks
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum : tensor<16xf32>
    ```
    becomes, with scales s and payloads q,
    ```mlir
    %q2 = mpcomm.all_to_all(%q) on @mesh axes ["dp"] split_dim = 0 concat_dim = 0 : (tensor<2x2x4xi8>) -> tensor<2x2x4xi8>
    %s2 = mpcomm.all_to_all(%s) on @mesh axes ["dp"] split_dim = 0 concat_dim = 0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
    ...
    %sum = mpcomm.reduce sum %terms, dims = [0] : (tensor<2x2x4xf32>) -> tensor<2x4xf32>
    ...
    %q4 = mpcomm.all_gather(%q3) on @mesh axes ["dp"] dim = 0 : (tensor<2x4xi8>) -> tensor<4x4xi8>
    %s4 = mpcomm.all_gather(%s3) on @mesh axes ["dp"] dim = 0 : (tensor<2xf32>) -> tensor<4xf32>
    ```

    Counts: a remark `Compressed` for each (bytes before and after).
  }];
  let options = [
    Option<"type", "type", "std::string", "\"\"",
           "How elements travel: f16, bf16, i8, f8E4M3FN or f8E5M2; empty: as "
           "the op says">,
    Option<"block", "block", "int64_t", "256",
           "Elements that share a scale, and least of a rank's share">,
    Option<"minBytes", "min-bytes", "int64_t", "65536",
           "Fewest bytes of an all_reduce that is compressed">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

def DecomposeCollectivesPass
    : Pass<"mpcomm-decompose-collectives", "::mlir::ModuleOp"> {
  let summary = "Reduces in two levels where the cluster has two and that is "
                "faster";
  let description = [{
    An all_reduce whose group lies in several blocks of the cluster (the GPUs of
    a node) becomes a reduce_scatter inside the blocks, an all_reduce across
    them on each rank's share, and an all_gather inside, if the cost model says
    that it takes less time, copies included, than what the communication
    library does by itself. Operands are laid in one row, filled up to whole shares. An axis that a
    block cuts is split in two in the mesh, `dp` into `dp.outer` and `dp.inner`,
    and wherever it is named; ranks keep their numbers.

    Assumes: synchronous collectives; run it behind
    `mpcomm-combine-collectives`, for the choice depends on the size.

    Guarantees: fewer predicted seconds, or nothing changes. Other passes that
    take an axis `dp` mean all its parts. Linear in the number of ops.

    Numerics: reassociating; `min` and `max` are exact, and all that
    `numerics=exact` decomposes.

    Example: 4 ranks, 2 of them to a node
    ```mlir
    mpcomm.mesh @mesh <["dp" = 4]>
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<8xf32>
    ```
    becomes
    ```mlir
    mpcomm.mesh @mesh <["dp.outer" = 2, "dp.inner" = 2]>
    %s = mpcomm.reduce_scatter(%g) on @mesh axes ["dp.inner"] mean dim = 0 : (tensor<8xf32>) -> tensor<4xf32>
    %a = mpcomm.all_reduce(%s) on @mesh axes ["dp.outer"] mean : tensor<4xf32>
    %r = mpcomm.all_gather(%a) on @mesh axes ["dp.inner"] dim = 0 : (tensor<4xf32>) -> tensor<8xf32>
    ```

    Counts: a remark `Decomposed` for each (bytes, ranks inside and across,
    microseconds flat and decomposed).
  }];
  let options = [MPComm_ClusterOption, MPComm_ProfileOption,
                 MPComm_NumericsOption];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def MakeAsyncPass : Pass<"mpcomm-make-async", "::mlir::ModuleOp"> {
  let summary = "Starts each collective where it stands and awaits it before "
                "its first use";
  let description = [{
    Wraps each synchronous collective but barriers into an `mpcomm.async`, and
    puts the `mpcomm.await` right before the first use of a result, at the
    latest before the end of the block, and before a barrier on the same
    communicator. No other op moves.

    Assumes: Form 3; `mpcomm-sink-updates` before it, so that uses come late.

    Guarantees: Form 4. Collectives start in the order they had. Linear in the
    number of ops.

    Numerics: exact.

    Example:
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    %h = arith.mulf %x, %x : tensor<4xf32>
    %y = arith.addf %h, %r : tensor<4xf32>
    ```
    becomes
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
      mpcomm.yield %r : tensor<4xf32>
    } : !mpcomm.future<tensor<4xf32>>
    %h = arith.mulf %x, %x : tensor<4xf32>
    %v = mpcomm.await %f : !mpcomm.future<tensor<4xf32>>
    %y = arith.addf %h, %v : tensor<4xf32>
    ```

    Counts: a remark `MadeAsync` for each (ops between start and await), a
    missed one for each barrier; an analysis remark
    `MakeAsync` for each function (collectives wrapped).
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def ScheduleOverlapPass : Pass<"mpcomm-schedule-overlap", "::mlir::ModuleOp"> {
  let summary = "Orders a step so that communication hides under computation, "
                "within a memory bound";
  let description = [{
    Reorders the ops of a block that has asynchronous collectives, each awaited
    once: what frees gradients comes sooner, collectives start when their
    operands are there, awaits come late, and updates fill the waits. The order
    is the best that list scheduling and a local search find in the simulator
    (docs/Design/Overlap.md), and the input's where nothing better is found: the
    step never gets longer in the model.

    `memory-bytes` bounds the bytes that live at a time in the order chosen:
    arguments, buckets, staging and activations. The bound is kept exactly, or
    the order stays as it is and a remark says why. What it costs is told.

    Two collectives are never in flight at a time on communicators that share
    two or more ranks. All ranks that run the function get the same order.

    Assumes: Form 4; run it behind `mpcomm-make-async`.

    Guarantees: Form 4. An update in place comes behind all other uses of the
    argument that it overwrites. A block with ops that have other effects than
    those of collectives is left alone. n log n in the number of ops.

    Numerics: exact.

    Example: the second all_reduce does not wait for the first product.
    ```mlir
    %a = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%dy) on @mesh axes ["dp"] mean : tensor<8x2xf32>
      mpcomm.yield %r : tensor<8x2xf32>
    } : !mpcomm.future<tensor<8x2xf32>>
    ```
    becomes
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%dy) on @mesh axes ["dp"] mean : tensor<8x2xf32>
      mpcomm.yield %r : tensor<8x2xf32>
    } : !mpcomm.future<tensor<8x2xf32>>
    %a = mpcomm.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    ```

    Counts: an analysis remark `ScheduleOverlap` for each function (simulated
    microseconds of the step, of the input, of the same without a memory bound
    and what the bound costs, and a lower bound; peak bytes before and after, and
    without a memory bound).
  }];
  let options = [
    MPComm_ClusterOption, MPComm_ProfileOption,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Most bytes that live at a time; 0: no limit">,
    Option<"reorderCompute", "reorder-compute", "bool", "true",
           "Move computation too, not only starts and awaits">,
    Option<"maxNodes", "max-nodes", "unsigned", "2048",
           "Above this number of pieces, runs of computation move as one">,
    Option<"searchSteps", "search-steps", "unsigned", "100",
           "Simulations of the local search; fewer for large steps">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def ExplainCommunicationPass
    : Pass<"mpcomm-explain-communication", "::mlir::ModuleOp"> {
  let summary = "Says of each collective how much is hidden, how much exposed, "
                "and why";
  let description = [{
    Simulates `@train_step` (or each function with collectives) on the cluster
    and gives a remark for each collective, `Communication`: bytes on the wire,
    tensors, the algorithm that the cost model takes for it, predicted
    microseconds, of these hidden under computation and exposed, and what keeps
    the rest from being hidden:
    - `dependency`: an op needs the result (named, with its location);
    - `nothing-to-hide-under`: there is not that much computation that neither
      feeds nor needs it;
    - `memory-bound`: the bound of `mpcomm-schedule-overlap` moved it;
    - `stream-order`: the collective before it on its communicator (named);
    - `below-saturating-size`: latency dominates: less than nine tenths of the
      bandwidth;
    - `user-cap`: a limit of the user's formed its bucket.

    Assumes: IR that passes its verifiers, in a function of one block.

    Guarantees: changes nothing. n log n in the number of ops.

    Numerics: exact.

    Example: of
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<1024xf32>
    ```
    it says `all_reduce` of 4096 bytes, all of it exposed: a synchronous
    collective is awaited at once.

    Counts: an analysis remark `Step` for each function (simulated microseconds
    of the step, of its computation, exposed; lower bound; peak bytes).
  }];
  let options = [MPComm_ClusterOption, MPComm_ProfileOption];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

def ChannelsLastPass : Pass<"mpcomm-channels-last", "::mlir::ModuleOp"> {
  let summary = "Lays activations out with the channels last";
  let description = [{
    Convolutions, pools and batch norms on [N, C, H, W] become the same on
    [N, H, W, C] (`channels_last`, `feature_dim = 3`), and so do elementwise
    ops, concatenations, reductions and transposes of what they make. There a
    pixel's channels are contiguous: oneDNN reads them without a copy into a
    layout of its own, and statistics of a batch norm are sums of rows.

    Assumes: functions of one block; others are left alone.

    Guarantees: signatures stay, filters too; transposes are left at the edges,
    where a batch comes in or an activation is flattened. Linear in the number
    of ops.

    Numerics: exact; sums over more than one dimension may be taken in another
    order.

    Example:
    ```mlir
    %y = mpcomm.convolution %x, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1
        : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x32x32xf32>
    ```
    becomes
    ```mlir
    %a = mpcomm.transpose %x, dims = [0, 2, 3, 1] : (tensor<8x3x32x32xf32>) -> tensor<8x32x32x3xf32>
    %b = mpcomm.convolution %a, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1 {channels_last}
        : (tensor<8x32x32x3xf32>, tensor<16x3x3x3xf32>) -> tensor<8x32x32x16xf32>
    %y = mpcomm.transpose %b, dims = [0, 3, 1, 2] : (tensor<8x32x32x16xf32>) -> tensor<8x16x32x32xf32>
    ```

    Counts: an analysis remark `ChannelsLast` for each function (ops moved,
    transposes of activations left).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_PASSES
