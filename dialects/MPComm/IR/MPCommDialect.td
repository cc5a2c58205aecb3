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
    A training step (forward, backward, optimizer update) as one pure function
    on tensors, and the collectives that make of it the programs of N ranks.

    Elementwise work is `arith` and `math` on tensors. This dialect adds what
    has no value-semantics op upstream (contractions, normalisation, softmax,
    embedding, losses, their gradients) under StableHLO's names where StableHLO
    has the op, what only training has (optimizer updates), and communication:
    variadic collectives over the axes of a mesh, and `async`/`await`.

    Attributes that the dialect gives a meaning on function arguments and
    results:
    - `mpcomm.role`: what the value is for (`#mpcomm.role<parameter>`, …);
    - `mpcomm.name`: its key in checkpoints and datasets;
    - `mpcomm.donated = N`: the argument's buffer may be reused for result N;
    - `mpcomm.default`: the value of a hyperparameter unless the user sets one,
      or of all elements of other state that no weights file holds;
    - `mpcomm.copy_of = "wte.weight"`: the state starts as that parameter,
      converted to its own element type;
    - `mpcomm.range = array<i64: lo, hi>`: values of an integer batch argument
      lie in [lo, hi);
    - `mpcomm.targets`: the batch argument that holds this output's labels.

    On an op:
    - `mpcomm.stage = N`: the stage of a pipeline that it is in, or has to be
      in, counted along the data;
    - `mpcomm.tag = "F0.1"`, of a collective: what it carries, the same for all
      ranks that take part. Of one group and channel, collectives that meet have
      the same tag or none.

    On a module, `mpcomm.cluster` says what it is compiled for
    (`#mpcomm.cluster<…>`).
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
    /// The attribute of a module that says what it is compiled for.
    static constexpr ::llvm::StringLiteral getClusterAttrName() {
      return "mpcomm.cluster";
    }
  }];
}

class MPComm_Op<string mnemonic, list<Trait> traits = []>
    : Op<MPComm_Dialect, mnemonic, traits>;

#endif // MPCOMM_IR_DIALECT
