//===- CpuFeatures.h - can this machine run that code? --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program compiled for another processor would die of an illegal instruction
// in the middle of a step. The manifest lists what its code uses.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_CPUFEATURES_H
#define MPCOMM_RUNTIME_SESSION_CPUFEATURES_H

#include <string>
#include <vector>

namespace mprt {

/// Those of `features` (LLVM's names, `+avx512f`; without a plus they are not
/// required) that this processor lacks. Names that are not known are taken to
/// be there.
std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &features);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_CPUFEATURES_H
