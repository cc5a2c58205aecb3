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
  let summary = "the future results of an asynchronous collective";
  let description = [{
    The result of `mpcomm.async`; `mpcomm.await` returns the values. In the
    runtime form, streams and events replace it.

    Example: `!mpcomm.future<tensor<64x10xf32>, tensor<10xf32>>`
  }];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::Type">:$types);
  let assemblyFormat = "`<` (`>`) : ($types^ `>`)?";
}

/// Rejects tensors whose size in bytes could overflow 64 bits, so that no pass
/// needs to check for overflow.
class MPComm_TensorOf<list<Type> types>
    : ConfinedType<StaticShapeTensorOf<types>,
                   [CPred<"::mpcomm::detail::isCountable($_self)">],
                   StaticShapeTensorOf<types>.summary #
                       " and at most 2^48 elements">;

def MPComm_Tensor : MPComm_TensorOf<[AnyFloat, AnySignlessInteger]>;
def MPComm_FloatTensor : MPComm_TensorOf<[AnyFloat]>;
def MPComm_IndexTensor : MPComm_TensorOf<[I32, I64]>;
def MPComm_ScalarTensor
    : ConfinedType<MPComm_FloatTensor,
                   [CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">],
                   "0-d float tensor">;

/// A count of steps, and the key of a random number generator.
def MPComm_CounterTensor
    : ConfinedType<StaticShapeTensorOf<[I32]>,
                   [CPred<"::llvm::cast<::mlir::ShapedType>($_self).getRank() == 0">],
                   "0-d tensor of i32">;
def MPComm_SeedTensor
    : ConfinedType<StaticShapeTensorOf<[I32]>,
                   [CPred<"::llvm::cast<::mlir::ShapedType>($_self).getShape() == ::llvm::ArrayRef<int64_t>({2})">],
                   "tensor of two i32">;

#endif // MPCOMM_IR_TYPES
