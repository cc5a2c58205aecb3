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

int main(int argc, char **argv) {
  mlir::registerAllPasses();
  mpcomm::registerAllPasses();
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
