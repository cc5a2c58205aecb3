//===- MPCommPlugin.cpp - mpcomm for other tools --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared object with the dialects, passes and pipelines of mpcomm, for stock
// mlir-opt and for any other tool that takes MLIR plugins:
//
//   mlir-opt --load-dialect-plugin=MPCommPlugin.so \
//     --load-pass-plugin=MPCommPlugin.so --pass-pipeline='builtin.module(...)'
//
// It shares the tool's libMLIR and brings no copy of it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mpcomm/InitAllDialects.h"
#include "mpcomm/InitAllPasses.h"

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "MPComm", MPCOMM_VERSION,
          [](mlir::DialectRegistry *registry) {
            mpcomm::registerAllDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "MPComm", MPCOMM_VERSION,
          []() { mpcomm::registerAllPasses(); }};
}
