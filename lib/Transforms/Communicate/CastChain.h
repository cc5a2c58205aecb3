//===- CastChain.h - casts with ops before the message ----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A float cast, a multiplication by one factor for all elements, and an op that
// only moves elements may change places: each element meets the same
// computations either way. So a cast is found, and moved, through such ops.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_CASTCHAIN_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_CASTCHAIN_H

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

namespace mpcomm {

/// Bits of a float, or of the elements of a tensor of floats.
unsigned getBits(mlir::Type type);

/// A float cast, and the ops between it and where the search began, in the
/// order from there: each is used by the next one only. They move elements, or
/// multiply or divide all by one factor.
struct CastChain {
  mlir::Operation *cast = nullptr;
  llvm::SmallVector<mlir::Operation *, 2> between;

  mlir::Type getFrom() const; ///< element type of the cast's operand
  mlir::Type getTo() const;   ///< and of its result
  bool widens() const { return getBits(getFrom()) < getBits(getTo()); }
  bool narrows() const { return getBits(getFrom()) > getBits(getTo()); }
};

/// A number by which `op` multiplies or divides all elements.
struct Factor {
  mlir::Operation *op;
  unsigned operand;      ///< which of its operands it is
  mlir::Attribute splat; ///< null if it is no constant:
  mlir::Value scalar;    ///< then a tensor of rank 0 that is broadcast
};

/// Whether a factor may be in a chain.
using FactorFilter = llvm::function_ref<bool(const Factor &)>;

/// The cast from which `value` comes, if only the use at hand needs it; and the
/// one into which `use` goes. A cast that is found before a value may have
/// other uses.
std::optional<CastChain> findCastBefore(mlir::Value value,
                                        FactorFilter mayPass);
std::optional<CastChain> findCastAfter(mlir::OpOperand &use,
                                       FactorFilter mayPass);

enum class ChainOps { Moves, Factors };

/// Those of `ops`, which belong to a chain, on `value`, one after the other.
mlir::Value rebuild(mlir::OpBuilder &builder,
                    llvm::ArrayRef<mlir::Operation *> ops, ChainOps which,
                    mlir::Value value);
/// The cast of a chain on `value`, whatever its shape.
mlir::Value rebuildCast(mlir::OpBuilder &builder, const CastChain &chain,
                        mlir::Value value);

/// Erases `ops`, users first, up to one that is used; `willErase` is called for
/// each before.
void eraseUnused(
    llvm::ArrayRef<mlir::Operation *> ops,
    llvm::function_ref<void(mlir::Operation *)> willErase = nullptr);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_CASTCHAIN_H
