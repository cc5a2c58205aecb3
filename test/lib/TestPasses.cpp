//===- TestPasses.cpp - passes that only tests use ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the passes of this folder.
//
//===----------------------------------------------------------------------===//

#include "TestPasses.h"

void mpcomm::test::registerTestPasses() {
  registerTestEmulateGPUPasses();
  registerTestPrintCostPass();
  registerTestPrintShardingRulesPass();
  registerTestPrintShardingsPass();
  registerTestPrintStepModelPass();
}
