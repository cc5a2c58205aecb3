//===- ShardPasses.td - what a rank holds -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Form 3 to Form 3: state that ranks hold parts of.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_SHARDPASSES
#define MPCOMM_TRANSFORMS_SHARDPASSES

include "PassOptions.td"

def AssignShardingsPass
    : Pass<"mpcomm-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Says what of the state each rank holds";
  let description = [{
    Puts `mpcomm.sharding` on arguments of role `optimizer_state` and
    `parameter` in every function that has state of that name. With `zero=1` (Rajbhandari et al., "ZeRO:
    Memory Optimizations Toward Training Trillion Parameter Models", 2020) state
    is split flat over the axis, in row-major order and padded, if all that reads
    it in a training step is its update, and this works element by element
    (`OptimizerOpInterface`). So a parameter is split, too, if what the rest of
    the step reads is a narrow copy of it (`mpcomm.copy_of`). With `zero=2` the
    same is split. With `zero=3` so are all parameters, trained or not, and
    their copies. State that has fewer elements than the axis has ranks stays
    whole.

    Assumes: Form 3.

    Guarantees: Form 3, with shardings; types are still those of the whole.
    `mpcomm-propagate-shardings`, `mpcomm-insert-reshards` and `mpcomm-localize`
    have to follow.

    Numerics: exact (changes nothing but attributes).

    Example: with `zero=1` and 2 ranks along `dp`
    ```mlir
    %m: tensor<64x10xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m"}
    ```
    becomes
    ```mlir
    %m: tensor<64x10xf32> {mpcomm.role = #mpcomm.role<optimizer_state>, mpcomm.name = "w.m",
                           mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {} ], flat = ["dp"]>}
    ```

    Counts (analysis remark `Assigned`): tensors of state that are split, bytes
    of these, and bytes that stay whole.
  }];
  let options = [
    Option<"zero", "zero", "int64_t", "0",
           "0: all ranks hold all state; 1 and 2: the optimizer's is split; 3: "
           "parameters, too">,
    MPComm_AxisOption
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def PropagateShardingsPass
    : Pass<"mpcomm-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "Derives what ranks hold from what is declared";
  let description = [{
    What is split along a dimension of one operand or result of an op is split
    along the dimensions of the others that are of the same factor
    (`ShardingOpInterface`), forwards and backwards, through calls, and between
    state and what takes its place in the next step. Ops without a reduced
    factor come first. What is declared, on arguments and results of functions
    and on `mpcomm.reshard`, stays. Otherwise a value keeps the sharding that
    reaches it first, and where two meet in one factor, the one of which more
    bytes are held goes on; no dimension is split over ranks that do not divide
    it. A product over a split dimension gives partial sums, and so do ops that
    are linear in these, as far as nothing else reads them and they do not grow;
    there they are to be reduced. (After Xu et al., "GSPMD: General and Scalable
    Parallelization for ML Computation Graphs", 2021, and Shardy's rules of ops.)
    That values differ between data ranks because samples do is not shown.

    The pass declares `mpcomm.sharding` of what had none: arguments of state,
    results that take their places, and arguments and results of private
    functions. Other arguments of public functions are fed as they are declared.
    State that is split flat takes its place flat.

    Assumes: Form 3; types are those of the whole, and one mesh has all
    shardings.

    Guarantees: Form 3.

    Numerics: exact (changes nothing but attributes).

    Example: rows of the second product's matrix follow from columns of the
    first's
    ```mlir
    %up: tensor<8x32xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"tp"} ]>}
    %down: tensor<32x8xf32>
    %0 = mpcomm.dot_general %x, %up ...
    %1 = mpcomm.gelu %0 ...
    %2 = mpcomm.dot_general %1, %down ...
    ```
    becomes, with `annotate`,
    ```mlir
    %up: tensor<8x32xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{}, {"tp"} ]>}
    %down: tensor<32x8xf32> {mpcomm.sharding = #mpcomm.sharding<@mesh, [{"tp"}, {} ]>}
    %0 = mpcomm.dot_general %x, %up ... {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"} ]>]}
    %1 = mpcomm.gelu %0 ... {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {"tp"} ]>]}
    %2 = mpcomm.dot_general %1, %down ...
             {mpcomm.shardings = [#mpcomm.sharding<@mesh, [{}, {} ], partial = [sum "tp"]>]}
    ```

    Counts (analysis remark `Propagated`, for each function): values that are
    split along dimensions, values that are partial, values of which ranks hold
    something else than an op that reads or computes them works on, or than is
    declared of the result that they are, and the bytes of these (whole; twice
    for what has to be reduced).
  }];
  let options = [
    Option<"annotate", "annotate", "bool", "false",
           "put `mpcomm.shardings` on each op that has results which are not "
           "replicated, to read; flat ones where all shardings of the function "
           "are flat">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def InsertReshardsPass : Pass<"mpcomm-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Says where ranks need whole what they have parts of";
  let description = [{
    Puts an `mpcomm.reshard` where an op that cannot work on parts reads a state
    that is split, or what is made of it element by element: it gathers there,
    for the forward pass (what results that are no state depend on), and with
    `mpcomm.gathered_again` once more for the rest of the step, so that the
    whole is not kept in between. Cheap ops of nothing but gathered values
    (movement, casts) are done for each, and what is widened is gathered before
    it is. One reshard serves both where no op
    between them reads another gathered tensor, as of the last layer, and for as
    many of those whose last use in the forward pass comes latest as take
    `keep-bytes` together: they save a gather, and are kept for the shortest
    time.

    With `gradients`, a reduction whose result is read in parts only is
    resharded to parts, which says that it is no part of the update phase: each
    micro-batch reduces its gradient, and the sums over micro-batches are of
    parts.

    Assumes: Form 3, with shardings of `mpcomm-assign-shardings` and
    `mpcomm-propagate-shardings`.

    Guarantees: Form 3; what reads a split state whole reads a reshard, but for
    what updates make.

    Numerics: exact.

    Example:
    ```mlir
    %y = mpcomm.dot_general %x, %w ...     // forward
    %dx = mpcomm.dot_general %dy, %w ...   // backward
    ```
    becomes, where `%w` is split,
    ```mlir
    %w1 = mpcomm.reshard %w to <@mesh, [{}, {} ]> : tensor<64x10xf32>
    %y = mpcomm.dot_general %x, %w1 ...
    %w2 = mpcomm.reshard %w to <@mesh, [{}, {} ]> {mpcomm.gathered_again} : tensor<64x10xf32>
    %dx = mpcomm.dot_general %dy, %w2 ...
    ```

    Counts (analysis remark `Resharded`, one for each function): tensors that
    are gathered, that are gathered again, and reductions to parts.
  }];
  let options = [
    Option<"gradients", "gradients", "bool", "false",
           "Whether each micro-batch reduces its gradients to parts">,
    Option<"keepBytes", "keep-bytes", "int64_t", "0",
           "Bytes of gathered tensors that are kept from the forward pass to "
           "the backward pass instead of being gathered again; -1: all">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def LocalizePass : Pass<"mpcomm-localize", "::mlir::ModuleOp"> {
  let summary = "Gives programs the types and collectives of what ranks hold";
  let description = [{
    Arguments and results that are split flat take the type of a rank's part,
    and `mpcomm.global_type` says what the whole is. What works on them element
    by element is done for the part alone: updates, casts, scaling, clipping.
    What they take besides is cut where it is made: an all_reduce of a gradient
    that nothing else reads becomes a `mpcomm.reduce_scatter`, other values an
    `mpcomm.all_slice`. What is needed whole, such as a new parameter, is put
    together by an `mpcomm.all_gather`. A norm over gradients is the root of
    sums of squares over all ranks, and a flag the greatest of theirs. So is a
    largest or smallest element, where ranks divide the elements.

    Assumes: Form 3, with shardings of `mpcomm-assign-shardings` or written by
    hand: `flat` over whole axes; and reshards of `mpcomm-insert-reshards`.

    Guarantees: Form 3; along the axes, each result is what its sharding says.
    No `mpcomm.reshard` is left in functions whose state is split.
    Padding is zero in gradients and whole values, and what updates make of
    that in state; it is part of no result.

    Numerics: reassociating: a norm over gradients is summed in another order;
    without one, exact.

    Example: for the argument above and its update
    ```mlir
    %h = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<64x10xf32>
    %p1, %m1 = mpcomm.sgd_update %p, %h, %lr, %m, momentum = 0.9, weight_decay = 0.0
        : (tensor<64x10xf32>, tensor<64x10xf32>, tensor<f32>, tensor<64x10xf32>)
        -> (tensor<64x10xf32>, tensor<64x10xf32>)
    ```
    becomes
    ```mlir
    %g1 = mpcomm.reshape %g : (tensor<64x10xf32>) -> tensor<640xf32>
    %h = mpcomm.reduce_scatter(%g1) on @mesh axes ["dp"] mean dims = [0] : (tensor<640xf32>) -> tensor<320xf32>
    %p1 = mpcomm.reshape %p : (tensor<64x10xf32>) -> tensor<640xf32>
    %p2 = mpcomm.all_slice %p1 on @mesh axes ["dp"] dim = 0 : (tensor<640xf32>) -> tensor<320xf32>
    %p3, %m1 = mpcomm.sgd_update %p2, %h, %lr, %m, momentum = 0.9, weight_decay = 0.0
        : (tensor<320xf32>, tensor<320xf32>, tensor<f32>, tensor<320xf32>)
        -> (tensor<320xf32>, tensor<320xf32>)
    %p4 = mpcomm.all_gather(%p3) on @mesh axes ["dp"] dims = [0] : (tensor<320xf32>) -> tensor<640xf32>
    %p5 = mpcomm.reshape %p4 : (tensor<640xf32>) -> tensor<64x10xf32>
    ```

    Counts (analysis remark `Localized`, one for each function): tensors that
    are split, reduce_scatters, all_slices and all_gathers.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_SHARDPASSES
