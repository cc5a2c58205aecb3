//===- ToolOptions.h - command lines that say what they expect --*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Errors of LLVM's command lines in the words of CheckedOptions.h: what was
// expected, what was found, and which name or value may have been meant.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_SUPPORT_TOOLOPTIONS_H
#define MPCOMM_TOOLS_SUPPORT_TOOLOPTIONS_H

#include "mpcomm/Pipelines/CheckedOptions.h"
#include "llvm/Support/CommandLine.h"

namespace mpcomm {

/// What the values of an option have to be, by its name.
using NamedCheck = std::pair<llvm::StringRef, OptionCheck>;

template <typename T> NamedCheck checked(llvm::cl::opt<T> &option) {
  return {option.ArgStr, makeCheck<T>(option.getParser())};
}

/// As cl::ParseCommandLineOptions, and ends the process with status 1 after an
/// error. Names of `settings` are known to be keys of --options.
void parseCommandLine(int argc, char **argv, llvm::StringRef tool,
                      llvm::StringRef overview,
                      llvm::ArrayRef<NamedCheck> checks,
                      const CheckedOptions *settings = nullptr);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_SUPPORT_TOOLOPTIONS_H
