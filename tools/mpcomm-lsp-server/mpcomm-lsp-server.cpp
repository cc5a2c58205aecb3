//===- mpcomm-lsp-server.cpp - mpcomm for editors -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The MLIR language server with the dialects of mpcomm: diagnostics, hover and
// navigation in .mlir files.
//
//===----------------------------------------------------------------------===//

#include "ToolHelp.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mpcomm/InitAllDialects.h"

static const char helpText[] =
    R"(mpcomm-lsp-server: mpcomm for editors

An editor starts it and speaks the Language Server Protocol with it over standard
input and output: it reports errors in .mlir files, shows types and descriptions,
and finds definitions and uses.

Options:
  --log=error|info|verbose          what to log on standard error
  --pretty                          indent the JSON of answers
  --version                         print the version
)";

int main(int argc, char **argv) {
  mpcomm::setVersion("mpcomm-lsp-server");
  if (auto status =
          mpcomm::answerHelp(argc, argv, {"mpcomm-lsp-server", helpText}))
    return *status;
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mpcomm::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
