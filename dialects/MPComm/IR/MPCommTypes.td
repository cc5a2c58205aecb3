//===- MPCommTypes.td - types and type constraints -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_TYPES
#define MPCOMM_IR_TYPES

include "mlir/IR/AttrTypeBase.td"
include "MPCommDialect.td"

def MPComm_FutureType : TypeDef<MPComm_Dialect, "Future"> {
  let mnemonic = "future";
  let summary = "the values that work in flight will give";
  let description = [{
    Made by `mpcomm.async`, turned into its values by `mpcomm.await`. Gone by
    the runtime form, where streams and events take its place.

    Example: `!mpcomm.future<tensor<64x10xf32>, tensor<10xf32>>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$types);
  let assemblyFormat = "`<` $types `>`";
}

def MPComm_Tensor : StaticShapeTensorOf<[AnyFloat, AnySignlessInteger]>;
def MPComm_FloatTensor : StaticShapeTensorOf<[AnyFloat]>;
def MPComm_IndexTensor : StaticShapeTensorOf<[I32, I64]>;
def MPComm_ScalarTensor
    : ConfinedType<MPComm_FloatTensor,
                   [CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">],
                   "0-d float tensor">;

#endif // MPCOMM_IR_TYPES
