//===- InferError.h - errors of type inference ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_DIALECTS_MPCOMM_IR_INFERERROR_H
#define MPCOMM_DIALECTS_MPCOMM_IR_INFERERROR_H

#include "mlir/IR/Diagnostics.h"

namespace mpcomm {

/// Emits an error, worded as `emitOpError` does, for an op that is not there
/// yet: its types are being inferred. Always failure; silent without location.
template <typename... Args>
llvm::LogicalResult inferError(std::optional<mlir::Location> location,
                               llvm::StringRef op, Args &&...args) {
  return mlir::emitOptionalError(location, "'mpcomm.", op, "' op ",
                                 std::forward<Args>(args)...);
}

} // namespace mpcomm

#endif // MPCOMM_DIALECTS_MPCOMM_IR_INFERERROR_H
