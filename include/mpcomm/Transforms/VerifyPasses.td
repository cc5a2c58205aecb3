//===- VerifyPasses.td - gates between the forms -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// These passes change nothing but fingerprints. Each checks the assumptions of the next phase,
// and reports an error if they do not hold.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_VERIFYPASSES
#define MPCOMM_TRANSFORMS_VERIFYPASSES

include "PassOptions.td"

def VerifyTrainingGraphPass
    : Pass<"mpcomm-verify-training-graph", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 1, the training graph";
  let description = [{
    Assumes: IR that passes its verifiers.

    Guarantees, on success (otherwise an error names op and place):
    - there is one public function `@train_step`, with a body of one block; the
      only other public function is `@evaluate`;
    - both are pure, without collectives, on ranked tensors of static shape;
    - each argument and result has a role and a name, unique among its kind;
    - donation indices are used once, and the result that reuses a buffer has
      its type, role and name; a result that is state names an argument of its
      role and type, so that it can be passed to the next step;
    - batch arguments share their leading dimension; hyperparameters are 0-d
      floats with a default; an argument with `mpcomm.copy_of` is state of
      floats that names a parameter of its shape;
    - `@train_step` has a result of role `loss`, a 0-d float; metrics, of the same
      role, may follow it;
    - `@evaluate` takes arguments of `@train_step` (same name, role and type),
      and donates nothing; `mpcomm.targets` names an integer batch argument.

    Numerics: exact (changes nothing).

    Example: this step is rejected, because the donated buffer of `w` has
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

    Guarantees, on success: collectives are synchronous. What the ranks hold,
    and that all of them come to each collective, is checked by
    `mpcomm-verify-shardings`.

    Numerics: exact (changes nothing).

    Example: rejected, because the future belongs to a scheduled program:
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
      mpcomm.yield %r : tensor<4xf32>
    } : !mpcomm.future<tensor<4xf32>>
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def VerifyScheduledProgramsPass
    : Pass<"mpcomm-verify-scheduled-programs", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 4, the scheduled programs";
  let description = [{
    Assumes: IR that passes its verifiers.

    Guarantees, on success:
    - every future comes from an `mpcomm.async`, is awaited exactly once, in the
      same block, and has no other use;
    - no collective runs synchronously while another one of the same
      communicator (mesh and axes) is in flight: the two would start in an order
      that depends on the clocks of the ranks. So the collectives of a
      communicator start in the order of the program on every rank.

    Numerics: exact (changes nothing).

    Example: rejected, because the future is lost:
    ```mlir
    %f = mpcomm.async {
      %r = mpcomm.all_reduce(%g) on @mesh axes ["dp"] mean : tensor<4xf32>
      mpcomm.yield %r : tensor<4xf32>
    } : !mpcomm.future<tensor<4xf32>>
    return
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def VerifyShardingsPass
    : Pass<"mpcomm-verify-shardings", "::mlir::ModuleOp"> {
  let summary = "Checks what the ranks hold of each result and each gradient";
  let description = [{
    Assumes: IR that passes its verifiers, in Form 3 or 4, and no state that is
    declared to be split and is still whole (see `mpcomm-localize`).

    Derives, for each part of `axis`, what the ranks along it hold of every
    value, from the shardings and roles of arguments on.

    Guarantees, on success:
    - collectives name the only mesh of the module, and run on all ranks of
      their group: none is under control flow that depends on a value which may
      differ between the ranks;
    - a result of role `parameter`, `optimizer_state`, `buffer` or `loss_scale`,
      and the loss of `@train_step` or of a stage of it, has the sharding that
      is declared for it; without one it is replicated;
    - a gradient that enters an optimizer op is replicated or split, and is the
      mean over the ranks: neither their sum, nor divided twice. So is a loss,
      and other state is no multiple of a mean. A magnitude that an 8-bit scale is
      updated from is the greatest over the ranks. Factors are those of
      reductions and of `mpcomm.predivide`; what the model multiplies by is its
      own;
    - with fingerprints in the module, each function computes what it did when
      they were recorded.

    A fingerprint is a number for each result and one for all messages, of what
    is computed of the arguments. Buckets, slices of them, two levels of a
    reduction, futures, casts of floats and the order of independent ops do not
    count. A pass that only moves communication keeps it; `record` takes down
    that of the program as it is, for the passes that follow, and
    `convert-mpcomm-to-mprt` drops it.

    Time: linear in the ops, for each part of the axis.

    Numerics: exact (changes nothing).

    Example: rejected, because `%g` is the sum over the ranks and not the mean:
    ```mlir
    %g = mpcomm.all_reduce(%own) on @mesh axes ["dp"] sum : tensor<4xf32>
    %p1 = mpcomm.sgd_update %p, %g, %lr, weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    ```

    Counts: nothing.
  }];
  let options = [
    MPComm_AxisOption,
    Option<"record", "record", "bool", "false",
           "Record fingerprints instead of comparing with those recorded">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

def VerifyRuntimeProgramsPass
    : Pass<"mpcomm-verify-runtime-programs", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of Form 5, the runtime programs";
  let description = [{
    Assumes: IR that passes its verifiers. Bodies of kernels are not checked.

    Guarantees, on success, for every other function:
    - it is one block of mprt ops on buffers, views, constants and globals;
    - the address of each buffer in an argument, a global or the arena is known,
      and no op accesses a byte outside of it; an argument that is written has
      `mprt.update`, or holds a result;
    - every `mprt.start` is followed by one `mprt.await` of its event with the
      same outputs; in between, only collectives of the same communicator access
      its outputs or write its inputs;
    - buffers of the arena (`memref.view`s of it) that live at the same time,
      from their first use to their last, are disjoint;
    - a buffer of the arena that is read was written before, at least in part; a
      copy from a buffer that was not written counts as no write.

    Time: O(n log n) in the ops, times the collectives in flight.

    Numerics: exact (changes nothing).

    Example: rejected, because the copy reads a buffer that is being received:
    ```mlir
    mprt.start "recv" "" id = 0 communicator = 0 event = 0 peer = 0 accumulate f32
        ins() outs(%a : memref<4xf32>)
    mprt.copy %a, %b : memref<4xf32>, memref<4xf32>
    mprt.await event = 0 ins() outs(%a : memref<4xf32>)
    ```

    Counts: nothing.
  }];
  let dependentDialects = ["::mpcomm::mprt::MPRTDialect"];
}

def VerifyCommunicationPass
    : Pass<"mpcomm-verify-communication", "::mlir::ModuleOp"> {
  let summary = "Proves that no rank can hang, and that communication matches";
  let description = [{
    Takes the programs of all ranks: those of each `mpcomm.program`, and each
    other public function that communicates, which all ranks run. Reads Forms 3
    and 4 (collectives, alone or in `mpcomm.async`) and Form 5 (`mprt.start`).
    Called functions are read at each call, and loops with a constant trip count
    are unrolled.

    Assumes: IR that passes its verifiers.

    Guarantees, on success, for every execution: each rank reaches its end; the
    ranks that take part in a collective agree on its kind, count, element type,
    wire type, accumulation type, reduction, root and `mpcomm.tag`, and on its
    tensors if it has several; each send meets its recv, of the same count, type
    and tag. The model of the runtime and the proof are in
    docs/Design/CommunicationProof.md. By default no message is assumed to be
    buffered.

    Errors show the ranks that conflict and their ops. For a deadlock they show,
    for each rank of a cycle, the op at which it waits and the op that it needs.
    Communication is rejected if it is not known how often it runs: under
    conditions and in loops that depend on values, in functions of several
    blocks, and in functions without a body.

    Numerics: exact (changes nothing).

    Example: rejected, because rank 0 waits for rank 1 to receive, and rank 1
    for rank 0:
    ```mlir
    mpcomm.program @swap on @mesh axes ["pp"] runs [@first, @second]
    func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
      mpcomm.send(%x) on @mesh axes ["pp"] to = 1 : tensor<4xf32>
      %r = mpcomm.recv on @mesh axes ["pp"] from = 1 : tensor<4xf32>
      return %r : tensor<4xf32>
    }
    func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
      mpcomm.send(%x) on @mesh axes ["pp"] to = 0 : tensor<4xf32>
      %r = mpcomm.recv on @mesh axes ["pp"] from = 0 : tensor<4xf32>
      return %r : tensor<4xf32>
    }
    ```

    Counts (analysis remark `Proved`, one for each program): ranks, those of
    them that were distinguished (cells), starts and awaits of one rank of each
    cell (instructions), collectives of all distinct programs.
  }];
  let options = [
    Option<"buffered", "buffered", "bool", "false",
           "Sends finish without their recv, as if each message fits a buffer">
  ];
  let dependentDialects = ["::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_VERIFYPASSES
