//===- GraphAttr.h - identification of a training graph ----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The module attribute that identifies the training graph of a program, for the
// manifest. docs/Design/Manifest.md explains its entries.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECT_MPRT_IR_GRAPHATTR_H
#define MPCOMM_DIALECT_MPRT_IR_GRAPHATTR_H

#include "llvm/ADT/StringRef.h"

namespace mpcomm::mprt {

inline constexpr llvm::StringLiteral kGraphAttr = "mprt.graph";
/// Its entries, of which those of `kGraphOptions` are strings by name.
inline constexpr llvm::StringLiteral kGraphDigest = "digest";
inline constexpr llvm::StringLiteral kGraphStructure = "structure";
inline constexpr llvm::StringLiteral kGraphBatch = "batch";
inline constexpr llvm::StringLiteral kGraphOptimizer = "optimizer";
inline constexpr llvm::StringLiteral kGraphOptions = "options";

} // namespace mpcomm::mprt

#endif // MPCOMM_DIALECT_MPRT_IR_GRAPHATTR_H
