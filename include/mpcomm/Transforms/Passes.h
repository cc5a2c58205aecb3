//===- Passes.h - passes on training graphs and rank programs ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors, options and registration of the passes that Passes.td
// describes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PASSES_H
#define MPCOMM_TRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Transforms/PassOptions.h"

namespace mpcomm {

#define GEN_PASS_DECL
#include "mpcomm/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mpcomm/Transforms/Passes.h.inc"

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PASSES_H
