//===- MPCommDialect.td - dialect and base classes -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_DIALECT
#define MPCOMM_IR_DIALECT

include "mlir/IR/OpBase.td"

def MPComm_Dialect : Dialect {
  let name = "mpcomm";
  let summary = "Training steps and the communication of the ranks that run them";
  let description = [{
    A training step (forward pass, backward pass, optimizer update) is one pure
    function on tensors. Collectives turn it into the program of N ranks.

    Elementwise operations are `arith` and `math` on tensors. This dialect adds
    - operations without a value-semantics op upstream (contractions,
      normalisation, softmax, gather, losses, their gradients), with
      StableHLO's names if StableHLO has the op;
    - optimizer updates;
    - communication: variadic collectives over the axes of a mesh, and
      `async`/`await`.

    Attributes of function arguments and results:
    - `mpcomm.role`: the purpose of the value (`#mpcomm.role<parameter>`, …);
    - `mpcomm.name`: its key in checkpoints and datasets;
    - `mpcomm.donated = N`: result N may reuse the argument's buffer;
    - `mpcomm.default`: the value of a hyperparameter that the user does not
      set, or of all elements of other state that no weights file holds;
    - `mpcomm.copy_of = "wte.weight"`: the initial value of the state is that
      parameter, converted to the element type of the state;
    - `mpcomm.range = array<i64: lo, hi>`: values of an integer batch argument
      lie in [lo, hi);
    - `mpcomm.added`: the compiler added this state: `"kept"` in checkpoints, or
      `"transient"`, for the next step of the same program alone;
    - `mpcomm.targets`: the batch argument that holds the labels of this output;
    - `mpcomm.sharding`: what a rank holds of it (`#mpcomm.sharding<…>`);
    - `mpcomm.global_type`: the type of the whole, where the function's is that
      of what a rank holds.

    Attributes of ops:
    - `mpcomm.stage = N`: the pipeline stage of the op, or the stage required by
      the user. Stages are numbered along the forward pass;
    - `mpcomm.local_update`, on an update: it takes the rank's own gradient;
    - `mpcomm.pending`, on an all_reduce: it reduces what the step before has
      left to this one;
    - `mpcomm.gathered_again`, on a reshard and its all_gather: it gathers for
      the backward pass what another one gathers for the forward pass;
    - `mpcomm.shardings`, for people: what a rank holds of each result, an array
      of `#mpcomm.sharding`, or of `unit` for what is no tensor of static shape;
    - `mpcomm.tag = "F0.1"`, on a collective: identifies the data that it
      carries. Collectives of one group and channel that meet have the same tag,
      or none.

    Attribute of modules: `mpcomm.cluster` is the cluster for which the module
    is compiled (`#mpcomm.cluster<…>`).
  }];
  let cppNamespace = "::mpcomm";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let extraClassDeclaration = [{
    /// The attribute of a module with the cluster it is compiled for.
    static constexpr ::llvm::StringLiteral getClusterAttrName() {
      return "mpcomm.cluster";
    }
  }];
}

class MPComm_Op<string mnemonic, list<Trait> traits = []>
    : Op<MPComm_Dialect, mnemonic, traits>;

#endif // MPCOMM_IR_DIALECT
