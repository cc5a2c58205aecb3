//===- mpcomm-opt.cpp - runs passes on IR ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with the dialects, passes and pipelines of mpcomm.
//
//===----------------------------------------------------------------------===//

#include "ToolHelp.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/InitAllPasses.h"
#ifdef MPCOMM_TEST_PASSES
#include "TestPasses.h"
#endif

static const char helpText[] =
    R"(mpcomm-opt: runs passes on IR

  mpcomm-opt step.mlir --mpcomm-graph="mesh=dp:2" -o scheduled.mlir
  mpcomm-opt step.mlir --pass-pipeline='builtin.module(mpcomm-data-parallel{size=2})'

It is mlir-opt with the dialects, passes and pipelines of mpcomm, and takes what
mlir-opt takes. Without passes it checks and prints its input; '-' or no file is
standard input.

Options:
  -o FILE                           write here (default: standard output)
  --pass-pipeline=TEXT              passes, as a text
  --split-input-file                take parts between lines // ----- one by one
  --verify-diagnostics              compare errors with expected-error comments
  --mlir-print-ir-before-all, --mlir-print-ir-after-all, --mlir-print-ir-after-change
                                    print the IR between passes
  --mlir-print-debuginfo            print locations
  --mlir-print-op-on-diagnostic=false
                                    errors without the operation that they are at
  --mlir-timing                     print the time of each pass
  --mlir-disable-threading          run passes one at a time
  --remarks-filter=REGEX, --remark-format=emitRemark
                                    print remarks, such as reasons of decisions
  --mlir-pass-pipeline-crash-reproducer=FILE
                                    on a failure, write IR and passes here
  --load-dialect-plugin=FILE, --load-pass-plugin=FILE
                                    load somebody else's dialects and passes
  --version                         print the version
)";

int main(int argc, char **argv) {
  mpcomm::setVersion("mpcomm-opt");
  mpcomm::registerAllPasses();
  if (auto status = mpcomm::answerHelp(
          argc, argv,
          {"mpcomm-opt", helpText, true, [] { mlir::registerAllPasses(); }}))
    return *status;
  mlir::registerAllPasses();
#ifdef MPCOMM_TEST_PASSES
  mpcomm::test::registerTestPasses();
#endif
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllGPUToLLVMIRTranslations(registry);
  mpcomm::registerAllDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mpcomm optimizer driver\n", registry));
}
