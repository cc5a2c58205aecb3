//===- ToolDiagnostics.h - errors about graphs ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops of imported graphs are at names, of modules and operators of a model.
// MLIR prints an error there as `<unknown>:0: error: loc("0/addmm"): ...`; here
// it is `0/addmm: error: ...`.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_SUPPORT_TOOLDIAGNOSTICS_H
#define MPCOMM_TOOLS_SUPPORT_TOOLDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

namespace mpcomm {

/// Prints diagnostics of a context while it lives, with lines of `sources`.
class ToolDiagnostics : public mlir::SourceMgrDiagnosticHandler {
public:
  ToolDiagnostics(llvm::SourceMgr &sources, mlir::MLIRContext *context);

private:
  void print(mlir::Diagnostic &diagnostic);
};

} // namespace mpcomm

#endif // MPCOMM_TOOLS_SUPPORT_TOOLDIAGNOSTICS_H
