//===- InitAllDialects.h - every dialect of mpcomm --------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_INITALLDIALECTS_H
#define MPCOMM_INITALLDIALECTS_H

#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

namespace mpcomm {

/// Adds the project's dialects, and their external models, to `registry`.
inline void registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<MPCommDialect, mprt::MPRTDialect>();
  registerExternalModels(registry);
  registerOpLowering(registry);
  mprt::registerBufferizableOpInterfaceExternalModels(registry);
}

} // namespace mpcomm

#endif // MPCOMM_INITALLDIALECTS_H
