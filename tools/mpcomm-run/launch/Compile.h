//===- Compile.h - programs from source -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_LAUNCH_COMPILE_H
#define MPCOMM_RUN_LAUNCH_COMPILE_H

#include "data/Runtime.h"

#include <cstdint>
#include <optional>

namespace mpcomm::run {

class StopSignals;

/// Runs mpcomm-compile on `source` into the new file `output`, for `ranks`, or
/// for the mesh that `furtherArguments` name. The compiler is the one beside
/// this executable, or else the first in PATH. Its temporary files go to the
/// folder of `output`, its messages to standard error. A signal that asks this
/// process to stop ends it, is stored in `stopped` (else 0), and is a failure.
Error compileProgram(const std::string &source, const std::string &output,
                     std::optional<uint64_t> ranks,
                     const std::string &furtherArguments,
                     const StopSignals &signals, int &stopped);

} // namespace mpcomm::run

#endif // MPCOMM_RUN_LAUNCH_COMPILE_H
