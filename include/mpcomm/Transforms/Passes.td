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
      floats with a default;
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
    - each result of `@train_step` of role `loss`.
    `@evaluate` is left alone: its results are per rank.

    Assumes: Form 1; what enters an optimizer op as a gradient is linear in the
    gradient of the loss (a norm clipped before would be clipped per rank).

    Guarantees: Form 3. A result of role `parameter`, `optimizer_state`,
    `buffer` or `loss_scale` that would differ between ranks is an error that
    names what it depends on. Running the pass again changes nothing; an axis of
    size 1 gives the mesh and no collectives.

    Numerics: reassociating: the mean over ranks of means over a rank's samples,
    as DistributedDataParallel computes it.

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
    bytes, gradients that are the same on all ranks already.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"size", "size", "int64_t", "0",
           "Ranks along the axis; 0: as many as the mesh says">,
    Option<"mesh", "mesh", "std::string", "\"mesh\"",
           "Symbol of the mesh that is created or extended">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
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

def CombineCollectivesPass
    : Pass<"mpcomm-combine-collectives", "::mlir::ModuleOp"> {
  let summary = "Merges all_reduce ops into buckets, in the order in which "
                "their operands become ready";
  let description = [{
    Takes the all_reduce ops of a block in the order of their last operand's
    definition and fills buckets: one variadic op for ops of the same mesh,
    axes, reduction, wire and accumulation type, element type and attributes.
    A bucket takes no op that would make it larger than its cap (one op alone
    may be larger), so that it may be smaller than the buckets of
    DistributedDataParallel, which close after the op that reaches the cap. The
    first bucket of a block has a cap of its own: small, so that communication
    starts early. A bucket stands right behind the definition of its last
    operand. The loss is ready before the first gradient and so joins the first
    bucket, which it does not delay.

    Assumes: synchronous collectives. Uses between the members of a bucket close
    it (remark `BucketClosed`): `mpcomm-sink-updates` takes them out of the way.

    Guarantees: no result is used before its bucket; nothing moves across an op
    with effects other than an all_reduce; other ops stay where they are. The
    plan follows from the IR alone and is the same on every rank. n log n in the
    number of ops.

    Numerics: reassociating: which ranks' values are added first may depend on
    an element's place in its bucket.

    Example:
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
    ops of the block before it, of how many); an analysis remark
    `CombineCollectives` for each function (collectives before, after).
  }];
  let options = [
    Option<"maxBucketBytes", "max-bucket-bytes", "int64_t", "26214400",
           "Cap on the bytes of a bucket">,
    Option<"firstBucketBytes", "first-bucket-bytes", "int64_t", "1048576",
           "Cap on the bytes of the first bucket">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
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

#endif // MPCOMM_TRANSFORMS_PASSES
