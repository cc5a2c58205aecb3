//===- MPRT.h - the runtime dialect -----------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One op a call of the runtime (see mpcomm/Runtime/mprt.h).
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
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mpcomm/Dialect/MPRT/IR/MPRTDialect.h.inc"

namespace mpcomm::mprt {

/// Marks a function as a kernel that mprt.launch runs.
inline constexpr llvm::StringLiteral kKernelAttr = "mpcomm.kernel";

/// True where the elements of `type` lie next to each other in row-major
/// order, whatever its offset.
bool isContiguous(mlir::MemRefType type);

/// Lets one-shot bufferization see launches and collectives.
void registerBufferizableOpInterfaceExternalModels(
    mlir::DialectRegistry &registry);

} // namespace mpcomm::mprt

#define GET_OP_CLASSES
#include "mpcomm/Dialect/MPRT/IR/MPRTOps.h.inc"

#endif // MPCOMM_DIALECT_MPRT_IR_MPRT_H
