//===- CommunicatePasses.td - passes on collectives -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 3 to Form 4, in the order in which the passes run. Rewrites of
// communication follow one order that every rank computes identically.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_COMMUNICATEPASSES
#define MPCOMM_TRANSFORMS_COMMUNICATEPASSES

include "PassOptions.td"

def SimplifyCollectivesPass
    : Pass<"mpcomm-simplify-collectives", "::mlir::ModuleOp"> {
  let summary = "Removes and merges redundant collectives";
  let description = [{
    One walk in program order over synchronous collectives on the same
    communicator (mesh and set of axes):
    - axes of size one are removed; a collective over groups of one gives its
      operands, rounded to the wire type; a barrier of one is removed;
    - a collective without uses is removed; sends, receives and other barriers
      stay;
    - of two with the same operands and attributes, the second is removed;
    - a reduction of a value that is replicated on the group: `mean`, `min` and
      `max` give the value itself, `sum` n times it, a reduce_scatter the rank's
      block of either; likewise a broadcast of it, and an all_gather of its
      all_slice along the same dimension;
    - a reduce_scatter of an all_gather along the same dimension is the rank's
      own block (`sum`: n times it);
    - an all_gather of a reduce_scatter along the same dimension is an
      all_reduce, and an all_slice of an all_reduce, or of a reshape of it, a
      reduce_scatter, if the intermediate value has no other use;
    - an all_slice of an all_reduce over more axes is a reduce_scatter over the
      axes of the slice and an all_reduce of the block over the others, if that
      is faster on the cluster;
    - an all_slice of an all_gather is the operand; an all_to_all that inverts
      another one is removed with it;
    - a collective_permute that gives each rank its own value is the operand,
      and one of another one becomes a single one;
    - an all_reduce over some axes of an all_reduce over other ones is one over
      all of them, if both reduce in the same way;
    - an all_reduce of which only one static slice is used reduces the slice;
    - two reductions (all_reduce of one operand, reduce_scatter) whose only use
      is the op that combines them become one of the combined operands: the sum
      or difference of two `sum` or `mean`, the product of two `prod`, the
      minimum of two `min`, the maximum of two `max`.

    A value that a collective makes equal on its group is replicated on all
    ranks; in a function whose arguments all have roles, so is what AxisShardings
    proves to be.

    The rounding of a narrower wire type is never removed, except that one of
    two roundings may be (`numerics=lossy`).

    Assumes: whether a collective runs does not depend on a value that differs
    between the ranks of its group (Form 3).

    Guarantees: no more bytes travel than before. Collectives over an axis along
    which an mpcomm.program gives ranks different functions are unchanged.
    Linear in the number of ops, for each axis.

    Numerics: each remark gives its class, and rewrites that `numerics` does not
    allow are not applied. Exact: rewrites that do not reorder sums; integers,
    `min` and `max`; moving elements within groups of two; the `sum` of up to
    four equal values. Reassociating: `mean` of equal values, which could
    overflow before the division, and rewrites that reorder sums of floats.
    Lossy: combining before the wire rounds.

    Example:
    ```mlir
    %a = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
    %b = mpcomm.reduce_scatter(%a) on @mesh axes ["dp"] max dims = [0] : (tensor<8xf32>) -> tensor<4xf32>
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
  let summary = "Moves float casts across collectives, to the side where "
                "fewer bytes travel";
  let description = [{
    A cast that widens the operand of an all_gather, an all_to_all, a
    collective_broadcast, collective_permute, collective_gather or
    collective_scatter moves after it, and a cast that narrows its only result
    moves before it: elements are moved, not combined, so each is rounded as
    before. Between the cast and the collective there may be reshapes, slices,
    transposes and broadcasts, which stay on their side, and multiplications or
    divisions by one number that all ranks have, which move with the cast; over
    a permute or a gather, which leave zeros on some ranks, only positive
    constants qualify. Collectives between ranks that run different functions
    are unchanged.

    Messages travel in the narrower type if everything that one channel of a
    communicator sends in a type, and a number of elements, is widened from it,
    or everything that is received in that form is narrowed to it: then sends
    and receives change together.

    Reductions combine elements. Under `numerics=lossy` an all_reduce, a
    reduce_scatter or a collective_reduce without a wire type whose operands all
    come from, or whose results all go into, one narrower float type gets that
    type as `wire`, with `accumulate f32`. Reshapes and similar ops may be
    between. Factors may be between only if the narrow type has all exponents of
    the wide one; before the reduction only powers of two, which round nothing.

    Assumes: synchronous collectives; sends and receives may be in an async. The
    module contains all functions that its ranks run.

    Guarantees: fewer bytes travel than before, or nothing changes. Linear in
    the number of ops.

    Numerics: exact; with `numerics=lossy` lossy: partial results are rounded to
    the wire type.

    Example:
    ```mlir
    %w = arith.extf %x : tensor<4xbf16> to tensor<4xf32>
    %r = mpcomm.all_gather(%w) on @mesh axes ["dp"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
    ```
    becomes
    ```mlir
    %r = mpcomm.all_gather(%x) on @mesh axes ["dp"] dims = [0] : (tensor<4xbf16>) -> tensor<8xbf16>
    %w = arith.extf %r : tensor<8xbf16> to tensor<8xf32>
    ```

    Counts: a remark `CastMoved` or `WireNarrowed` for each collective, send and
    receive (bytes saved); an analysis remark `MoveCasts` for each function
    (moved, narrowed).
  }];
  let options = [MPComm_NumericsOption];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def SinkUpdatesPass : Pass<"mpcomm-sink-updates", "::mlir::ModuleOp"> {
  let summary = "Moves ops that depend on collectives after those that do not";
  let description = [{
    A stable sort of each block: first the ops that need no collective's result
    (the backward pass, and the collectives themselves), then those that do
    (optimizer updates, and collectives that need other collectives), by the
    last collective that they depend on; at the end what only moves a value for
    the terminator (the shape of a gathered parameter). What depends on nothing
    but all_gathers counts as the first. Buckets can then grow without crossing
    a use, awaits come after the backward pass, and a parameter is overwritten
    after its last use. Updates follow the order in which gradients become
    ready, so that the first ones run, and what they make is gathered, while the
    last buckets are in flight.

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

    Counts (analysis remark `SinkUpdates`, one per function): ops moved.
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def CombineCollectivesPass
    : Pass<"mpcomm-combine-collectives", "::mlir::ModuleOp"> {
  let summary = "Merges collectives into buckets, solved against the step";
  let description = [{
    Takes the ops of a block that may share buckets (`BucketableOpInterface`:
    all_reduce, reduce_scatter, all_gather, all_to_all) and fills buckets: one
    variadic op for ops of the same kind, mesh, axes, reduction, wire and
    accumulation type, channel, element type and attributes. Gathers are taken
    in the order of the first use of their results, the others in the order of
    their last operand's definition. A bucket is placed right after the
    definition of its last operand; a gather later, where the model says that it
    still arrives in time, so that results take no memory before.

    Under `policy=solved` the solver decides from the ready time of each
    operand, the time of a collective of a given size on the cluster, and the
    ops that wait for its result, or for gathers from the time of the first use
    of each result, by the same recurrence backwards. It finds the plan that ends the step first
    (docs/Design/Bucketing.md). Buckets that will be compressed (`compress`) are
    weighed by the bytes that then travel and the time of encoding. The
    simulator runs this plan, the plans of the other policies and the input, and
    the best of them is kept: the step never gets longer in the model.
    `max-bucket-bytes`, `memory-bytes`, `peak-bytes` and `split-bytes` bound the
    plan.

    With `reorder`, for programs that `mpcomm-schedule-overlap` will schedule,
    the order of the ops that produce the operands is chosen together with the
    buckets: buckets are planned, scheduled, planned again for the order of that
    schedule, and so on as long as the step improves (docs/Design/Overlap.md,
    "Buckets and order together"). The order of the input is kept if none is
    better.

    The other policies follow other systems: `ddp` closes a bucket once it holds
    `max-bucket-bytes` (25 MiB) or more, the first one `first-bucket-bytes` (1
    MiB); `xla` keeps buckets within `max-bucket-bytes` (30 MiB); `horovod`
    fuses what is ready when the communicator is free, up to 128 MiB; `megatron`
    closes at 40 million elements; `mg-wfbp` merges greedily; `one` makes one
    bucket. `max-bucket-bytes`, if given, bounds these, too; only under `ddp`
    the tensor that reaches it is still included.

    Assumes: synchronous collectives. Uses between the members of a bucket
    separate them (remark `BucketClosed`): `mpcomm-sink-updates` moves such
    uses.

    Guarantees: no result is used before its bucket; nothing moves across an op
    with effects other than those that may share buckets; other ops do not move,
    except with `reorder`: ops that depend on no collective then come first. The plan
    follows from the IR and the options alone and is the same on every rank. n
    log n in the number of ops; docs/Design/Overlap.md gives the cost of
    `reorder`.

    Numerics: reassociating: which ranks' values are added first may depend on
    the place of an element in its bucket. Under `numerics=exact` only
    collectives that cannot depend on it are merged: groups of up to two ranks,
    `min` and `max`, and those that only move elements.

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
    microseconds with these buckets scheduled, and of a single pass; lower
    bounds for all buckets in any order, and in this one; orders tried). A
    bucket that `max-bucket-bytes` or `peak-bytes` kept from including the next
    tensor gets `mpcomm.user_cap`, for `mpcomm-explain-communication`.
    Analysis remarks `BucketMemory`, with `peak-bytes`: bytes of the function
    without buckets at its peak, the limit, and what is left for a bucket.
  }];
  let options = [
    Option<"policy", "policy", "::mpcomm::BucketPolicy",
           "::mpcomm::BucketPolicy::Solved", "How buckets are chosen",
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
    Option<"peakBytes", "peak-bytes", "int64_t", "0",
           "Most bytes that a rank may have at a time: a bucket of several "
           "tensors takes no more than the function leaves of them; 0: no limit">,
    Option<"splitBytes", "split-bytes", "int64_t", "0",
           "Larger tensors may be split at multiples of it (solved); 0: never">,
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
    An all_reduce of floats (`sum` or `mean`) with `accumulate f32` becomes an
    all_to_all of encoded shards, a sum in f32 on the rank that owns the shard,
    and an all_gather of the encoded sum. It has the volume of a ring and two
    roundings for any number of ranks, whereas a ring that keeps partial sums in
    the wire type rounds once per rank. Operands are concatenated and padded to
    whole blocks. With a `type`, a reduce_scatter of rows becomes the all_to_all
    and the sum: one rounding. What rank r gets of all operands then lies side by
    side, and is padded.

    `type` is how elements travel: `f16` and `bf16` by a cast; `i8`, `f8E4M3FN`
    and `f8E5M2` with one f32 scale per `block` elements, the largest magnitude
    of the block over that of the format; `i4` and `i1` likewise with two and
    eight elements in a byte, of which `i1` has the signs, and as its scale the
    mean magnitude of the block; `top1of8` to `top1of256`, of a power of two, as
    the largest of each so many elements in bf16 with its place in a byte, and
    the others as zeros (top-k in blocks). Without `type`, only operands with
    `wire` or with 16-bit elements travel in their type, and the rest is
    unchanged; this is for networks that reduce in the wire type.

    `type` may be several, as in `bf16/i8`: each collective has the one that is
    the fastest in the model, the first of equals. Types with scales or places
    take more messages than a cast, and pay for that in large buckets or on slow
    links.

    Small all_reduces cost latency, not volume, and the compressed form has two
    to four times the latency. With a `type`, an all_reduce is compressed if
    that is faster on the cluster: all_to_all, all_gather and the passes over
    memory that encode, sum and decode, against the all_reduce. `min-bytes`
    decides instead if it is given.

    With `error-feedback`, what is lost of a gradient is added to that of the
    next step: state `NAME.residual` of the shape of the whole parameter, `local`
    to each rank, which begins as zeros (with `residual`, `NAME` and that: what is
    lost of momentum is no gradient's). It is what the rank's own encoding has
    lost, and for its shard also what the encoding of the sum has lost (Tang et
    al., "1-bit Adam", ICML 2021, keep both). It belongs to parameters, whatever
    buckets there are. Of gradients that `mpcomm.unscale` divides by a loss scale
    it is kept in units of those that are not scaled, and a step that
    `mpcomm.update_loss_scale` has skipped leaves it as it was.

    Assumes: synchronous collectives; run it after `mpcomm-combine-collectives`.
    A loss scale is an argument or a constant, and one (else it is an error).

    Guarantees: of an all_reduce all ranks get the same bits. With i8, the error of
    an element of a sum is at most half of the sum of the ranks' scales of its
    block, plus half of the scale of the sum where that is encoded. A block with
    an element that is not finite becomes NaN; of `top1ofN`, one element of it
    is not finite. Linear in the number of ops.

    Numerics: lossy; with an empty `type` as the op specifies.

    Example: with `type=i8 block=4 min-bytes=0` on 2 ranks
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] sum accumulate f32 : tensor<16xf32>
    ```
    becomes, with scales s and payloads q,
    ```mlir
    %q2 = mpcomm.all_to_all(%q) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2x4xi8>) -> tensor<2x2x4xi8>
    %s2 = mpcomm.all_to_all(%s) on @mesh axes ["dp"] split_dims = [0] concat_dims = [0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    ...
    %sum = mpcomm.reduce sum %terms, dims = [0] : (tensor<2x2x4xf32>) -> tensor<2x4xf32>
    ...
    %q4 = mpcomm.all_gather(%q3) on @mesh axes ["dp"] dims = [0] : (tensor<2x4xi8>) -> tensor<4x4xi8>
    %s4 = mpcomm.all_gather(%s3) on @mesh axes ["dp"] dims = [0] : (tensor<2xf32>) -> tensor<4xf32>
    ```

    Counts: a remark `Compressed` for each (bytes before and after, its type;
    where the model was asked, microseconds of each form); a missed one,
    `NotCompressed`, for each that is unchanged because of the model (bytes, and
    microseconds of each form).
  }];
  let options = [
    Option<"type", "type", "std::string", "\"\"",
           "Wire type of elements: f16, bf16, i8, f8E4M3FN, f8E5M2, i4, i1 or "
           "top1of8 to top1of256, or several, as in bf16/i8; empty: that of the "
           "op">,
    Option<"errorFeedback", "error-feedback", "bool", "false",
           "Add what is lost of a gradient to the next one">,
    MPComm_ResidualOption,
    Option<"block", "block", "int64_t", "256",
           "Elements that share a scale, and smallest shard of a rank; those of "
           "top1ofN are its own">,
    Option<"minBytes", "min-bytes", "int64_t", "-1",
           "Smallest all_reduce that is compressed; -1: if it is faster in the "
           "model; without a type all are">,
    MPComm_ClusterOption, MPComm_ProfileOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

def DecomposeCollectivesPass
    : Pass<"mpcomm-decompose-collectives", "::mlir::ModuleOp"> {
  let summary = "Reduces in two levels if the cluster has two and that is "
                "faster";
  let description = [{
    An all_reduce whose group spans several blocks of the cluster (the GPUs of a
    node) becomes a reduce_scatter inside the blocks, an all_reduce across them
    on each rank's shard, and an all_gather inside, if the cost model predicts
    that this is faster, including copies, than the communication library by
    itself. Operands are concatenated and padded to whole shards. An axis that a
    block cuts is split in two in the mesh, `dp` into `dp.outer` and `dp.inner`,
    and wherever it is named; ranks keep their numbers. An axis over which
    values are sharded is not split (remark `NotDecomposed`).

    Assumes: synchronous collectives; run it after `mpcomm-combine-collectives`,
    because the choice depends on the size.

    Guarantees: fewer predicted seconds, or nothing changes. For other passes an
    axis `dp` means all of its components. Linear in the number of ops.

    Numerics: reassociating; exact for `min` and `max`, and for everything that
    `numerics=exact` decomposes.

    Example: 4 ranks, 2 per node
    ```mlir
    mpcomm.mesh @mesh <["dp" = 4]>
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<8xf32>
    ```
    becomes
    ```mlir
    mpcomm.mesh @mesh <["dp.outer" = 2, "dp.inner" = 2]>
    %s = mpcomm.reduce_scatter(%g) on @mesh axes ["dp.inner"] mean dims = [0] : (tensor<8xf32>) -> tensor<4xf32>
    %a = mpcomm.all_reduce(%s) on @mesh axes ["dp.outer"] mean : tensor<4xf32>
    %r = mpcomm.all_gather(%a) on @mesh axes ["dp.inner"] dims = [0] : (tensor<4xf32>) -> tensor<8xf32>
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
  let summary = "Starts each collective where it is and awaits it before its "
                "first use";
  let description = [{
    Wraps each synchronous collective except barriers into an `mpcomm.async`,
    and inserts the `mpcomm.await` right before the first use of a result, at
    the latest before the end of the block, and before a barrier on the same
    communicator. No other op moves.

    Assumes: Form 3; `mpcomm-sink-updates` before it, so that uses come late.

    Guarantees: Form 4. Collectives start in their original order. Linear in the
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
    missed one for each barrier; an analysis remark `MakeAsync` for each
    function (collectives wrapped).
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def ScheduleOverlapPass : Pass<"mpcomm-schedule-overlap", "::mlir::ModuleOp"> {
  let summary = "Orders a step so that communication is hidden by "
                "computation, within a memory bound";
  let description = [{
    Reorders the ops of a block that has asynchronous collectives, each awaited
    once: gradients are computed sooner, collectives start when their operands
    are ready, awaits come late, and updates fill the waits. The order is the
    best that list scheduling and a local search find in the simulator
    (docs/Design/Overlap.md), or that of the input if nothing better is found:
    the step never gets longer in the model.

    `memory-bytes` bounds the bytes that are live at a time in the chosen order:
    arguments, buckets, staging and activations. The bound holds exactly, or the
    order is unchanged and a remark gives the reason. Remarks state the cost of
    the bound.

    Two collectives are never in flight at the same time on communicators that
    share two or more ranks. All ranks that run the function get the same order.

    Assumes: Form 4; run it after `mpcomm-make-async`.

    Guarantees: Form 4. An update in place comes after all other uses of the
    argument that it overwrites. A block with ops that have effects other than
    those of collectives is unchanged. n log n in the number of ops.

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
    and the cost of the bound, and a lower bound; peak bytes before and after,
    and without a memory bound).
  }];
  let options = [
    MPComm_ClusterOption, MPComm_ProfileOption,
    Option<"memoryBytes", "memory-bytes", "int64_t", "0",
           "Largest number of live bytes; 0: no limit">,
    Option<"reorderCompute", "reorder-compute", "bool", "true",
           "Move computation too, not only starts and awaits">,
    Option<"maxNodes", "max-nodes", "unsigned", "2048",
           "Above this number of pieces, runs of computation move as one">,
    Option<"searchSteps", "search-steps", "unsigned", "100",
           "Simulations of the local search; fewer for large steps">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def ForecastStepPass : Pass<"mpcomm-forecast-step", "::mlir::ModuleOp"> {
  let summary = "Notes what a step will take on slower and faster links";
  let description = [{
    Simulates `@train_step` with the outermost link that it uses at 2^6 to 2^-10
    times the bandwidth of the cluster, in 33 steps of a factor, and keeps the seconds of the step, and those
    for which a rank has a collective (but sends and receives) under way, as the attribute `mprt.forecast` of
    the module. It becomes `forecast` of the manifest, by which a session
    compares plans on the network that it finds.

    Assumes: IR that passes its verifiers, scheduled.

    Guarantees: the attribute, where the step can be simulated and communicates;
    nothing else changes. n log n in the number of ops.

    Numerics: exact.

    Example: of a step whose only collective is the all_reduce
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<1024xf32>
    ```
    it keeps a step that is longer at each lower bandwidth.
  }];
  let options = [MPComm_ClusterOption, MPComm_ProfileOption];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect"];
}

def LowRankGradientsPass
    : Pass<"mpcomm-low-rank-gradients", "::mlir::ModuleOp"> {
  let summary = "Sends gradients of matrices as products of two thin ones";
  let description = [{
    PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019). In place of the mean
    of a gradient M, n x m (of more dimensions, the first and all others), with
    Q the thin matrix of the last step and E what it has left over:

        M += E;  P = orthonormal mean(M Q);  Q = mean(transposed M times P)
        mean of M = P times transposed Q;  E = M - that

    E and Q are state of the step, `NAME.residual` and `NAME.low_rank`, both
    `local` (of Q all ranks have the same, and may begin again without it); they
    begin as zeros, and Q then as some fixed numbers. The means of P and Q, of
    `rank` (n + m) elements, are all_reduces in f32. Where ranks have parts of
    the parameter, each computes the whole mean and takes its own part. Where
    gradients meet multiplied by a loss scale, E is not, and a step that is not
    taken leaves both as they are.

    Assumes: `mpcomm-data-parallel`, and after that `mpcomm-accumulate-
    gradients` or `mpcomm-schedule-pipeline`, and `mpcomm-localize`: gradients
    are complete where they meet.

    Guarantees: changes the mean all_reduces and reduce_scatters of gradients
    on the wire that are made `least-factor` times as small at least: of a
    reduce_scatter, the thin ones count twice. The order of all else stays.
    Linear in the number of ops.

    Numerics: lossy; what is lost of a gradient is added to the next.

    Example: with `rank=1`,
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<512x512xf32>
    ```
    becomes two of `tensor<1x512xf32>`.

    Counts: for each function with gradients a remark `LowRank`: matrices, other
    gradients, elements of all, and elements that are sent.
  }];
  let options = [
    Option<"rank", "rank", "int64_t", "1", "Columns of the thin matrices">,
    MPComm_ResidualOption,
    Option<"leastFactor", "least-factor", "double", "2",
           "How many times fewer elements have to be sent">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def DeferReductionsPass
    : Pass<"mpcomm-defer-reductions", "::mlir::ModuleOp"> {
  let summary = "Leaves reductions of gradients to the start of the next step";
  let description = [{
    A gradient has to be reduced where the next step first reads its parameter.
    `@train_step` keeps gradients that it would reduce when its computation is
    over as state, `NAME.pending`, f32, of which each rank has its own. It
    starts with the reductions and the updates that the step before has left, in
    the order in which parameters are read; `pending` tells whether one has, and
    scalars that updates go by (learning rates, counts of steps) are kept as
    `pending.K`. `@apply_pending` does the same without a step, for those who
    read state between steps.

    Deferred is what shortens the step most by a model with one link and one
    order of compute (Scheduling/Deferral/Deferral.h), or with `max-bytes` what
    is read first. A reduction can be deferred if one optimizer op takes its
    result, maybe scaled or cast, and all that it computes is state, with the
    copies of the parameter that products read in 16 bits: not if a factor
    depends on all gradients (clip norm, loss scaling).

    Assumes: Form 3, with reductions that are not merged.

    Guarantees: Form 3. State and losses of each step are those that they were,
    but that parameters and state of what is deferred are those before their
    last update until `@apply_pending` has run.

    Numerics: exact, except for how kernels fuse: an update of many ops may
    round in another way where it stands beside others, and so may ops in 16
    bits, which are not rounded inside a kernel.

    Example: with `max-bytes=16`
    ```mlir
    %y = <forward pass of %w>
    %g = <backward pass>
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
    %w1 = mpcomm.sgd_update %w, %r, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %w1 : tensor<4xf32>
    ```
    becomes
    ```mlir
    %c = arith.cmpf ogt, %pending, <0.0> : tensor<f32>
    %r = mpcomm.all_reduce(%w.pending) on @mesh axes ["dp"] mean : tensor<4xf32>
    %u = mpcomm.sgd_update %w, %r, %pending.0, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %w1 = arith.select %c, %u, %w : tensor<4xi1>, tensor<4xf32>
    %y = <forward pass of %w1>
    %g = <backward pass>
    return %w1, <1.0>, %lr, %g : tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>
    ```

    Counts (analysis remark `Deferred`): reductions, those that could be, bytes,
    microseconds of the modelled step before and after.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "-1",
           "Bytes to defer, of parameters in the order in which they are read; "
           "-1: what the model says pays">,
    MPComm_ClusterOption,
    MPComm_ProfileOption
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mpcomm::MPCommDialect"];
}

def ExplainCommunicationPass
    : Pass<"mpcomm-explain-communication", "::mlir::ModuleOp"> {
  let summary = "Reports for each collective how much is hidden, how much "
                "exposed, and why";
  let description = [{
    Simulates `@train_step` (or each function with collectives) on the cluster
    and emits a remark for each collective, `Communication`: bytes on the wire,
    tensors, the algorithm that the cost model assumes, predicted microseconds,
    those hidden by computation and those exposed, and the reason for exposure:
    - `dependency`: an op needs the result (named, with its location);
    - `nothing-to-hide-under`: there is not enough computation that neither
      feeds nor needs it;
    - `memory-bound`: the bound of `mpcomm-schedule-overlap` moved it;
    - `stream-order`: the previous collective on its communicator (named);
    - `below-saturating-size`: latency dominates: less than nine tenths of the
      bandwidth;
    - `user-cap`: a limit of the user determined its bucket.

    Assumes: IR that passes its verifiers, in a function of one block.

    Guarantees: changes nothing. n log n in the number of ops.

    Numerics: exact.

    Example: for
    ```mlir
    %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<1024xf32>
    ```
    it reports `all_reduce` of 4096 bytes, all of it exposed: a synchronous
    collective is awaited at once.

    Counts: an analysis remark `Step` for each function (simulated microseconds
    of the step, of its computation, exposed; lower bound; peak bytes), and
    `Predicted` for each function (launches of kernels, and the bytes that they
    read and write; in the category of `mpcomm-form-kernels`, which reports the
    same in `Formed`).
  }];
  let options = [MPComm_ClusterOption, MPComm_ProfileOption];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_COMMUNICATEPASSES
