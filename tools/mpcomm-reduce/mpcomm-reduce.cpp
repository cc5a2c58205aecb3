//===- mpcomm-reduce.cpp - makes failing IR small -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-reduce with the dialects and passes of mpcomm. Given a script that says
// whether a module still shows a failure, it deletes what does not matter.
//
//===----------------------------------------------------------------------===//

#include "ToolHelp.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/InitAllPasses.h"

static const char helpText[] =
    R"(mpcomm-reduce: makes failing IR small

  mpcomm-reduce failing.mlir --reduction-tree='traversal-mode=0 test=./fails.sh' -o small.mlir

fails.sh gets a file and exits with 1 if it still shows the failure, with 0 if
not. It is mlir-reduce with the dialects and passes of mpcomm.

Options:
  -o FILE                           write here (default: standard output)
  --reduction-tree='traversal-mode=0 test=SCRIPT [test-arg=TEXT]'
                                    delete functions and ops
  --opt-reduction-pass='opt-pass=PASS test=SCRIPT [test-arg=TEXT]'
                                    keep what PASS makes of it if that is smaller
  --version                         print the version
)";

int main(int argc, char **argv) {
  mpcomm::setVersion("mpcomm-reduce");
  mpcomm::registerAllPasses();
  if (auto status =
          mpcomm::answerHelp(argc, argv, {"mpcomm-reduce", helpText, true}))
    return *status;
  mlir::registerAllPasses();
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mpcomm::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
