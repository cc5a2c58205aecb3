//===- MPComm.h - the mpcomm dialect ----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect's ops, types, attributes, enums and interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPCOMM_IR_MPCOMM_H
#define MPCOMM_DIALECT_MPCOMM_IR_MPCOMM_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/Linearity.h"

#include "mpcomm/Dialect/MPComm/IR/MPCommDialect.h.inc"
#include "mpcomm/Dialect/MPComm/IR/MPCommEnums.h.inc"

namespace mpcomm {

/// What collectives write: their order among themselves is part of a program.
struct CommunicatorResource
    : public mlir::SideEffects::Resource::Base<CommunicatorResource> {
  llvm::StringRef getName() final { return "mpcomm.communicator"; }
};

/// Names of the attributes that the dialect gives a meaning on the arguments
/// and results of functions.
inline constexpr llvm::StringLiteral kRoleAttr = "mpcomm.role";
inline constexpr llvm::StringLiteral kNameAttr = "mpcomm.name";
inline constexpr llvm::StringLiteral kDonatedAttr = "mpcomm.donated";
inline constexpr llvm::StringLiteral kDefaultAttr = "mpcomm.default";
inline constexpr llvm::StringLiteral kCopyOfAttr = "mpcomm.copy_of";
inline constexpr llvm::StringLiteral kRangeAttr = "mpcomm.range";
inline constexpr llvm::StringLiteral kTargetsAttr = "mpcomm.targets";
inline constexpr llvm::StringLiteral kStageAttr = "mpcomm.stage";
inline constexpr llvm::StringLiteral kTagAttr = "mpcomm.tag";

/// Marks a loop that adds rows of one tensor to rows of another, and the kernel
/// made of it: the index whose rows are left out, or -1.
inline constexpr llvm::StringLiteral kScatterAddAttr = "mpcomm.scatter_add";

namespace detail {

/// The most elements that a tensor may have: their bytes, and those of a few
/// tensors together, fit 64 bits.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;
/// Whether a tensor of static shape has at most kMaxElements elements, empty
/// dimensions counting as one.
bool isCountable(mlir::Type type);
/// The product of numbers that are not negative; the greatest number where it
/// is greater.
int64_t multiplySaturated(int64_t a, int64_t b);
/// The type in which elements are summed up: f32 for floats narrower than that,
/// else their own.
mlir::Type getSumType(mlir::Type element);
/// Elements of a shaped type with static shape; 1 for anything else.
int64_t countElements(mlir::Type type);
/// Elements of all results of `op`.
int64_t countResultElements(mlir::Operation *op);
/// Bytes of the shaped types among `types`, an element taking whole bytes.
int64_t countBytes(mlir::TypeRange types);
/// Two for each product that a convolution with that filter and output takes.
int64_t countConvolutionFlops(mlir::Type filter, mlir::Type output);
/// One for each element of a window, for each element of `windowed`.
int64_t countWindowFlops(llvm::ArrayRef<int64_t> window, mlir::Type windowed);
/// Operations of `products` products of scores, B * H * Sq * Sk of them, with
/// rows of D elements, and `others` operations a score; the greatest number
/// where there are more.
int64_t countAttentionFlops(mlir::Type query, mlir::Type key, int64_t products,
                            int64_t others);
/// Bytes that a collective moves for this rank: its operands, or its results
/// where it has none.
int64_t countPayloadBytes(mlir::Operation *op);
/// Whether collectives of `kind` combine elements.
bool reduces(CollectiveKind kind);
/// Whether they are one end of a message between two ranks.
bool isMessage(CollectiveKind kind);
/// Whether they are rooted at a rank.
bool hasRoot(CollectiveKind kind);
/// Product of the sizes of `axes` in the mesh that `mesh` names.
llvm::FailureOr<int64_t> lookupGroupSize(mlir::Operation *op,
                                         mlir::FlatSymbolRefAttr mesh,
                                         mlir::ArrayAttr axes);
/// What all collectives have in common: axes, wire and accumulation types.
llvm::LogicalResult verifyAxes(mlir::Operation *op, mlir::ArrayAttr axes);
llvm::LogicalResult verifyCollective(mlir::Operation *op);
/// The mesh exists, has the axes, and shapes and ranks fit the group's size.
llvm::LogicalResult verifyMeshUse(mlir::Operation *op,
                                  mlir::SymbolTableCollection &symbols);

} // namespace detail
} // namespace mpcomm

#define GET_ATTRDEF_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommTypes.h.inc"

#include "mpcomm/Dialect/MPComm/IR/MPCommInterfaces.h.inc"

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPComm/IR/MPCommOps.h.inc"

namespace mpcomm {

/// The collective that `op` is, or that it starts as an `mpcomm.async`; null
/// where it is neither.
CollectiveOpInterface getCollective(mlir::Operation *op);

/// The `mpcomm.async` that `op` runs in, or null.
AsyncOp getAsync(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_MPCOMM_H
