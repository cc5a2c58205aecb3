//===- MPRT.h - the runtime dialect -----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a step does in terms of the runtime (see mpcomm/Runtime/mprt.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_MPRT_H
#define MPCOMM_DIALECT_MPRT_IR_MPRT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/SlidingWindow.h"

#include "mpcomm/Dialect/MPRT/IR/MPRTDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTAttrs.h.inc"

namespace mpcomm::mprt {

/// Marks a function as a kernel that mprt.launch runs.
inline constexpr llvm::StringLiteral kKernelAttr = "mpcomm.kernel";

/// Attributes of Form 5, which MPRT.td explains.
inline constexpr llvm::StringLiteral kCommunicatorsAttr = "mprt.communicators";
inline constexpr llvm::StringLiteral kChannelsAttr = "mprt.channels";
inline constexpr llvm::StringLiteral kMeshAttr = "mprt.mesh";
inline constexpr llvm::StringLiteral kResultsAttr = "mprt.results";
inline constexpr llvm::StringLiteral kUpdateAttr = "mprt.update";
inline constexpr llvm::StringLiteral kOverwriteAttr = "mprt.overwrite";
inline constexpr llvm::StringLiteral kArenaBytesAttr = "mprt.arena_bytes";
inline constexpr llvm::StringLiteral kBucketBytesAttr = "mprt.bucket_bytes";
inline constexpr llvm::StringLiteral kArenaBytesByKindAttr =
    "mprt.arena_bytes_by_kind";
inline constexpr llvm::StringLiteral kGridAttr = "mprt.grid";
inline constexpr llvm::StringLiteral kMovedBytesAttr = "mprt.moved_bytes";
/// The gpu.module that has the code of kernels with that attribute.
inline constexpr llvm::StringLiteral kGPUModule = "mpcomm_kernels";
/// Entries of the dictionaries of kResultsAttr.
inline constexpr llvm::StringLiteral kResultType = "type";
inline constexpr llvm::StringLiteral kResultArgument = "argument";

/// True where the elements of `type` lie next to each other in row-major
/// order, whatever its offset.
bool isContiguous(mlir::MemRefType type);

/// Elements from the first to the last of a buffer, those between them that are
/// not its own included; 0 for an empty one. None where strides are unknown or
/// negative, or the number exceeds 64 bits.
std::optional<int64_t> spanOf(mlir::MemRefType type);

/// The buffer that `buffer` is a view of, or itself.
mlir::Value getViewRoot(mlir::Value buffer);

/// Whether kernels of a GPU take attention on q of [batch, rows, heads, size]
/// and k of [batch, columns, heads, size]: bf16 or f16, sizes of heads that are
/// multiples of 16 up to 128, and numbers of elements (none of them 0) that
/// grids and 32-bit positions in rows allow.
bool isAttentionSupported(mlir::ShapedType q, mlir::ShapedType k);

/// What a call of a part, a function that mprt.call runs, consists of.
struct CalleeSignature {
  enum Kind { Input, Output, Scratch };
  /// What an argument of the part is to its calls.
  struct Operand {
    Kind kind;
    unsigned index = 0; // of the call's inputs or outputs
  };
  llvm::SmallVector<mlir::Type> inputs, outputs;
  llvm::SmallVector<Operand> arguments;
};

/// Reads the signature of a part on tensors, or on buffers: then from its
/// kResultsAttr, and it fails where that is malformed. Time: arguments times
/// results.
mlir::FailureOr<CalleeSignature>
getCalleeSignature(mlir::FunctionOpInterface part);

/// Lets one-shot bufferization see launches and collectives.
void registerBufferizableOpInterfaceExternalModels(
    mlir::DialectRegistry &registry);

} // namespace mpcomm::mprt

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.h.inc"

#endif // MPCOMM_DIALECT_MPRT_IR_MPRT_H
