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
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/IndexedSlices.h"
#include "mpcomm/Dialect/MPComm/IR/Linearity.h"
#include "mpcomm/Dialect/MPComm/IR/ShardingRule.h"

#include "mpcomm/Dialect/MPComm/IR/MPCommDialect.h.inc"
#include "mpcomm/Dialect/MPComm/IR/MPCommEnums.h.inc"

namespace mpcomm {

/// The resource that collectives write, because their order is part of a
/// program.
struct CommunicatorResource
    : public mlir::SideEffects::Resource::Base<CommunicatorResource> {
  llvm::StringRef getName() final { return "mpcomm.communicator"; }
};

/// Names of the dialect's attributes of function arguments, results and ops.
inline constexpr llvm::StringLiteral kRoleAttr = "mpcomm.role";
inline constexpr llvm::StringLiteral kNameAttr = "mpcomm.name";
inline constexpr llvm::StringLiteral kDonatedAttr = "mpcomm.donated";
inline constexpr llvm::StringLiteral kDefaultAttr = "mpcomm.default";
inline constexpr llvm::StringLiteral kCopyOfAttr = "mpcomm.copy_of";
/// Of state that the compiler added to a step, neither the model's nor its
/// optimizer's: whether checkpoints have it ("kept"), or only the next step of
/// the same program needs it ("transient").
inline constexpr llvm::StringLiteral kAddedAttr = "mpcomm.added";
inline constexpr llvm::StringLiteral kKeptState = "kept";
inline constexpr llvm::StringLiteral kTransientState = "transient";
inline constexpr llvm::StringLiteral kRangeAttr = "mpcomm.range";
inline constexpr llvm::StringLiteral kTargetsAttr = "mpcomm.targets";
inline constexpr llvm::StringLiteral kShardingAttr = "mpcomm.sharding";
inline constexpr llvm::StringLiteral kGlobalTypeAttr = "mpcomm.global_type";
inline constexpr llvm::StringLiteral kStageAttr = "mpcomm.stage";
inline constexpr llvm::StringLiteral kFingerprintsAttr = "mpcomm.fingerprints";
inline constexpr llvm::StringLiteral kTagAttr = "mpcomm.tag";
/// Prefix of the tags of messages that carry the gradient of a parameter held
/// by several stages.
inline constexpr llvm::StringLiteral kTiedTag = "tied";
/// Unit attribute of an update that a rank makes by its own gradients, between
/// two meetings of the ranks.
inline constexpr llvm::StringLiteral kLocalUpdateAttr = "mpcomm.local_update";
/// Unit attribute of a reduction of what the step before has left to this one.
inline constexpr llvm::StringLiteral kPendingAttr = "mpcomm.pending";

namespace detail {

/// The largest number of elements of a tensor: the bytes of a few such tensors
/// together fit 64 bits.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;
/// Whether a tensor of static shape has at most kMaxElements elements, where
/// empty dimensions count as one.
bool isCountable(mlir::Type type);
/// The product of two non-negative numbers, or the largest int64_t if it is
/// larger.
int64_t multiplySaturated(int64_t a, int64_t b);
/// The type of sums of elements: f32 for narrower floats, else `element`.
mlir::Type getSumType(mlir::Type element);
/// Elements of a shaped type with static shape; 1 for any other type.
int64_t countElements(mlir::Type type);
/// Elements of all results of `op`.
int64_t countResultElements(mlir::Operation *op);
/// Operations of the ops of a region that have a cost. Saturated.
int64_t countFlops(mlir::Region &region);
/// Bytes of the shaped types among `types`; an element takes whole bytes.
int64_t countBytes(mlir::TypeRange types);
/// Two per product in a convolution with that filter and output.
int64_t countConvolutionFlops(mlir::Type filter, mlir::Type output);
/// One per element of a window and element of `windowed`.
int64_t countWindowFlops(llvm::ArrayRef<int64_t> window, mlir::Type windowed);
/// Operations of `products` products of B * H * Sq * Sk scores with rows of D
/// elements, and `others` further operations per score. Saturated.
int64_t countAttentionFlops(mlir::Type query, mlir::Type key, int64_t products,
                            int64_t others);
/// Operations of all trips of an `mpcomm.scan`. Saturated.
int64_t countScanFlops(mlir::Operation *op);
/// Bytes that a collective moves for this rank: those of its operands, or of
/// its results if it has no operands.
int64_t countPayloadBytes(mlir::Operation *op);
/// Whether collectives of `kind` reduce elements.
bool reduces(CollectiveKind kind);
/// Whether collectives of `kind` are a send or a recv.
bool isMessage(CollectiveKind kind);
/// Whether collectives of `kind` have a root.
bool hasRoot(CollectiveKind kind);
/// Product of the sizes of `axes` in the mesh with symbol `mesh`.
llvm::FailureOr<int64_t> lookupGroupSize(mlir::Operation *op,
                                         mlir::FlatSymbolRefAttr mesh,
                                         mlir::ArrayAttr axes);
/// Verifies the constraints of all collectives: axes, wire and accumulation
/// types.
llvm::LogicalResult verifyAxes(mlir::Operation *op, mlir::ArrayAttr axes);
llvm::LogicalResult verifyCollective(mlir::Operation *op);
/// Verifies that a bucket has operands, results and entries of lists alike.
llvm::LogicalResult verifyBucket(mlir::Operation *op);
/// See BucketableOpInterface.
mlir::Attribute getBucketKey(mlir::Operation *op);
/// Verifies that the mesh exists and has the axes, and that shapes and ranks
/// fit the size of the group.
llvm::LogicalResult verifyMeshUse(mlir::Operation *op,
                                  mlir::FlatSymbolRefAttr name,
                                  mlir::ArrayAttr axes,
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

/// `op` as a collective, or the collective in `op` if it is an `mpcomm.async`;
/// null otherwise.
CollectiveOpInterface getCollective(mlir::Operation *op);

/// Whether `op` changes state by what gradients are: optimizer ops, and
/// `mpcomm.update_fp8_scale`.
bool isGradientUpdate(mlir::Operation *op);

/// An operand of a bucket: that of another op, or a range of its elements.
struct BucketOperand {
  BucketableOpInterface op;
  unsigned index;
  mlir::Value value;
};
/// Makes a bucket of operands of ops that have one bucket key. Result i has the
/// type that operand i has where it comes from; of a range, that of the range.
BucketableOpInterface createBucket(mlir::OpBuilder &builder,
                                   llvm::ArrayRef<BucketOperand> operands);

/// The `mpcomm.async` that `op` runs in, or null.
AsyncOp getAsync(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_DIALECT_MPCOMM_IR_MPCOMM_H
