//===- CommunicatePasses.td - what travels, and when -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 3 to Form 4: rewrites of communication follow one order that every rank
// computes identically.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_COMMUNICATEPASSES
#define MPCOMM_TRANSFORMS_COMMUNICATEPASSES

include "PassOptions.td"

def SinkUpdatesPass : Pass<"mpcomm-sink-updates", "::mlir::ModuleOp"> {
  let summary = "Moves what depends on collectives after what does not";
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
    - axes of size one go; a collective over groups of one gives its operands,
      rounded to the wire type; a barrier of one goes;
    - a collective without uses goes; sends, receives and other barriers stay;
    - of two with the same operands and attributes, the second goes;
    - a reduction of what is the same on all of the group: `mean`, `min` and
      `max` give the value itself, `sum` n times it, a reduce_scatter the rank's
      block of either; likewise a broadcast of it, and an all_gather of its
      all_slice along the same dimension;
    - a reduce_scatter of an all_gather along the same dimension is the rank's
      own block (`sum`: n times it);
    - an all_gather of a reduce_scatter along the same dimension is an
      all_reduce, and an all_slice of an all_reduce, or of a reshape of it, a
      reduce_scatter, if nothing else needs the middle;
    - an all_slice of an all_reduce over more axes is a reduce_scatter over the
      slice's axes and an all_reduce of the block over the others, where that is
      faster on the cluster;
    - an all_slice of an all_gather is the operand; an all_to_all that undoes
      another one goes with it;
    - a collective_permute that gives each rank its own value is the operand,
      and one of another one is a single one;
    - all_reduce over some axes of an all_reduce over other ones is one over all
      of them, if both reduce in the same way;
    - an all_reduce of which only one static slice is used reduces the slice;
    - two reductions (all_reduce of one operand, reduce_scatter) whose only use
      is the op that combines them are one of the combined operands: the sum or
      difference of two `sum` or `mean`, the product of two `prod`, the minimum
      of two `min`, the maximum of two `max`.

    What a collective has made the same on all of its group is the same on all
    ranks; in a function whose arguments all have roles, so is what RankVariance
    proves.

    What a narrower wire type rounds is never taken away, but for two roundings
    of which one remains (`numerics=lossy`).

    Assumes: no collective depends on a value that differs between the ranks of
    its group (Form 3).

    Guarantees: no more bytes travel than before. Collectives over an axis along
    which an mpcomm.program gives ranks different functions stay as they are.
    Linear in the number of ops, for each axis.

    Numerics: each remark says its class, and what `numerics` does not allow is
    left alone. Exact: all that takes no sum in another order; integers, `min`
    and `max`; moving elements within groups of two; the `sum` of up to four
    equal values. Reassociating: `mean` of equal values, which could overflow
    before the division, and what takes sums of floats in another order. Lossy:
    to combine before the wire rounds.

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
  let options = [MPComm_ClusterOption, MPComm_ProfileOption,
                 MPComm_NumericsOption];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def MoveCastsPass : Pass<"mpcomm-move-casts", "::mlir::ModuleOp"> {
  let summary = "Moves float casts across collectives, to the side where fewer "
                "bytes travel";
  let description = [{
    A cast that widens the operand of an all_gather, an all_to_all, a
    collective_broadcast, collective_permute, collective_gather or
    collective_scatter moves after it, and one that narrows its only result
    before it: elements are moved, not combined, so each is rounded as before.
    Between the cast and the collective may be reshapes, slices, transposes and
    broadcasts, which stay on their side, and multiplications or divisions by
    one number that all ranks have, which move with the cast; over a permute or
    a gather, which leave zeros on some ranks, by a positive constant alone.
    Collectives between ranks that run different functions stay.

    Messages travel in the narrower type if all that one channel of a
    communicator sends in a type, and a number of elements, is widened from it,
    or all that is received so is narrowed to it: then sends and receives change
    together.

    Reductions combine elements. Under `numerics=lossy` an all_reduce, a
    reduce_scatter or a collective_reduce without a wire type whose operands all come from, or whose
    results all go into, one narrower float type gets that type as `wire`, with
    `accumulate f32`. Reshapes and the like may be between; factors only
    where the narrow type has all exponents of the wide one, and before the
    reduction only powers of two, which round nothing.

    Assumes: synchronous collectives; sends and receives may be in an async. The
    module holds all functions that its ranks run.

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

    Counts: a remark `CastMoved` or `WireNarrowed` for each collective, send and
    receive (bytes saved); an analysis remark `MoveCasts` for each function (moved, narrowed).
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
    bucket stands right after the definition of its last operand.

    Under `policy=solved` which ops share a bucket follows from when each
    operand is ready, what a collective of so many bytes takes on the cluster,
    and what waits for its result: the plan that ends the step first
    (docs/Design/Bucketing.md). What will be compressed (`compress`) is weighed as
    what travels then, with the time that encoding takes. The plan is run in the
    simulator next to the plans of the other policies and the program as it came
    in, and the best of them all is kept: the step never gets longer in the
    model. `max-bucket-bytes`, `memory-bytes` and `split-bytes` bound it.

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
    makes one bucket. `max-bucket-bytes`, where given, bounds these, too; only
    under `ddp` the tensor that reaches it still goes in.

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
    Option<"compress", "compress", "std::string", "\"\"",
           "mpcomm-compress-collectives with this `type` follows: weigh its "
           "costs too (solved)">,
    Option<"compressMinBytes", "compress-min-bytes", "int64_t", "-1",
           "Its `min-bytes`">,
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
    An all_reduce of floats (`sum` or `mean`) that says `accumulate f32` becomes
    an all_to_all of encoded shares, a sum in f32 on the rank whose share it is,
    and an all_gather of the encoded sum: the volume of a ring, and two
    roundings whatever the number of ranks, where a ring that keeps partial sums
    in the type on the wire rounds once a rank. Operands are laid in one row,
    filled up to whole blocks.

    `type` is how elements travel: `f16` and `bf16` by a cast; `i8`, `f8E4M3FN`
    and `f8E5M2` with a scale in f32 for each `block` elements, the largest
    magnitude of the block over the format's. Empty: what has `wire` or elements
    of 16 bits travels so, and the rest is left alone; that
    is for networks that reduce in the type on the wire.

    Small all_reduces cost latency, of which the compressed form has twice to
    four times as much, not volume. With a `type`, one is compressed where that
    is faster on the cluster: all_to_all, all_gather and the passes over memory
    that encode, sum and decode, against the all_reduce. `min-bytes` decides
    instead where it is given.

    Assumes: synchronous collectives; run it after
    `mpcomm-combine-collectives`.

    Guarantees: all ranks get the same bits. With i8, an element of a sum is off
    by at most half of the sum of the ranks' scales of its block and half of the
    sum's scale. A block with an element that is not finite becomes NaN. Linear
    in the number of ops.

    Numerics: lossy; with an empty `type` as the op says.

    Example: with `type=i8 block=4 min-bytes=0` on 2 ranks
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum accumulate f32 : tensor<16xf32>
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

    Counts: a remark `Compressed` for each (bytes before and after); a missed
    one, `NotCompressed`, for what stays because of the model (bytes, and
    microseconds of both forms).
  }];
  let options = [
    Option<"type", "type", "std::string", "\"\"",
           "How elements travel: f16, bf16, i8, f8E4M3FN or f8E5M2; empty: as "
           "the op says">,
    Option<"block", "block", "int64_t", "256",
           "Elements that share a scale, and least of a rank's share">,
    Option<"minBytes", "min-bytes", "int64_t", "-1",
           "Fewest bytes of an all_reduce that is compressed; -1: from where it "
           "is faster in the model; all without a type">,
    MPComm_ClusterOption, MPComm_ProfileOption
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

    Assumes: synchronous collectives; run it after
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

    Assumes: Form 4; run it after `mpcomm-make-async`.

    Guarantees: Form 4. An update in place comes after all other uses of the
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

#endif // MPCOMM_TRANSFORMS_COMMUNICATEPASSES
