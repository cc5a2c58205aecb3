//===- TestPasses.h - passes that only tests use ----------------*- C++ -*-===//
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

#ifndef MPCOMM_TEST_LIB_TESTPASSES_H
#define MPCOMM_TEST_LIB_TESTPASSES_H

namespace mpcomm::test {

/// Registers `test-mpcomm-emulate-gpu` and `test-mpcomm-embed-image`.
void registerTestEmulateGPUPasses();
/// Registers `test-mpcomm-print-cost`.
void registerTestPrintCostPass();
/// Registers `test-mpcomm-print-shardings`.
void registerTestPrintShardingsPass();
void registerTestPrintShardingRulesPass();
/// Registers `test-mpcomm-print-step-model`.
void registerTestPrintStepModelPass();

/// Registers all of them.
void registerTestPasses();

} // namespace mpcomm::test

#endif // MPCOMM_TEST_LIB_TESTPASSES_H
