//===- NoSimGrid.cpp - where SimGrid is missing ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimGrid.h"

using namespace mpcomm;

bool mpcomm::hasSimGrid() { return false; }

SimGridResult mpcomm::simulateOnSimGrid(const SimProblem &,
                                        const SimGridOptions &) {
  SimGridResult result;
  result.error = "this build has no SimGrid (Debian: libsimgrid-dev)";
  return result;
}
