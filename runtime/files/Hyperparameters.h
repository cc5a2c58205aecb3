//===- Hyperparameters.h - what a program takes as numbers ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sessions check what is set, and mpcomm-run its command line before it starts
// ranks, by the same function.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_HYPERPARAMETERS_H
#define MPCOMM_RUNTIME_FILES_HYPERPARAMETERS_H

#include "files/Manifest.h"

namespace mprt {

/// Whether those of `known`, arguments of role hyperparameter, that are called
/// `name` hold `value`. MPRT_NOT_FOUND where there is none of that name.
Error checkHyperparameter(const std::vector<const ManifestArgument *> &known,
                          const std::string &name, double value);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_HYPERPARAMETERS_H
