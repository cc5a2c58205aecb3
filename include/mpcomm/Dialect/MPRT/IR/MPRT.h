//===- MPRT.h - the runtime dialect -----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops for the calls of the runtime (see mpcomm/Runtime/mprt.h).
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
inline constexpr llvm::StringLiteral kSharedBytesAttr = "mprt.shared_bytes";
/// The gpu.module with the code of kernels that have this attribute.
inline constexpr llvm::StringLiteral kGPUModule = "mpcomm_kernels";
/// Entries of the dictionaries of kResultsAttr.
inline constexpr llvm::StringLiteral kResultType = "type";
inline constexpr llvm::StringLiteral kResultArgument = "argument";

/// Whether the elements of `type` are contiguous in row-major order, with any
/// offset.
bool isContiguous(mlir::MemRefType type);

/// The distance in elements from the first to the last element of a buffer,
/// both included; 0 for an empty buffer. Nothing if strides are unknown or
/// negative, or if the number exceeds 64 bits.
std::optional<int64_t> spanOf(mlir::MemRefType type);

/// The buffer that `buffer` is a view of, or itself.
mlir::Value getViewRoot(mlir::Value buffer);

/// Whether GPU kernels support attention on q of [batch, rows, heads, size] and
/// k of [batch, columns, heads, size]: the type is bf16 or f16, the head size a
/// multiple of 16 up to 128, and the numbers of elements are not 0 and fit
/// grids and 32-bit positions in rows.
bool isAttentionSupported(mlir::ShapedType q, mlir::ShapedType k);

/// Whether they support the gradient of a bias of that attention: it has an
/// element for each row and column, and no more tiles than a grid has blocks.
bool isBiasGradSupported(mlir::ShapedType q, mlir::ShapedType k,
                         mlir::ShapedType bias);

/// The operands of calls of a micro-batch body or stage function (mprt.call).
struct CalleeSignature {
  enum Kind { Input, Output, Scratch };
  /// The operand of a call that corresponds to an argument of the callee.
  struct Operand {
    Kind kind;
    unsigned index = 0; // of the call's inputs or outputs
  };
  llvm::SmallVector<mlir::Type> inputs, outputs;
  llvm::SmallVector<Operand> arguments;
};

/// Reads the signature of a callee on tensors, or on buffers. On buffers it
/// reads the callee's kResultsAttr, and fails if that is malformed. Time:
/// arguments times results.
mlir::FailureOr<CalleeSignature>
getCalleeSignature(mlir::FunctionOpInterface callee);

/// Lets one-shot bufferization see launches and collectives.
void registerBufferizableOpInterfaceExternalModels(
    mlir::DialectRegistry &registry);

} // namespace mpcomm::mprt

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.h.inc"

#endif // MPCOMM_DIALECT_MPRT_IR_MPRT_H
