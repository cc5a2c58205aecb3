//===- ToolHelp.h - what a tool says about itself ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tools that are MLIR's with the passes of mpcomm inherit a help of many
// hundred lines, of every pass of MLIR and every option of LLVM. Here is what
// is the project's; --help-hidden still lists the rest.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_SUPPORT_TOOLHELP_H
#define MPCOMM_TOOLS_SUPPORT_TOOLHELP_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mpcomm {

struct ToolHelp {
  llvm::StringRef tool;
  /// Usage and options, as --help prints them.
  llvm::StringRef text;
  /// Whether the passes that are registered are listed after it.
  bool listsPasses = false;
  /// Registers passes that are not listed, but have a help of their own.
  void (*registerOthers)() = nullptr;
};

/// Makes --version name the tool, its version, the ABI of program files and
/// MLIR.
void setVersion(llvm::StringRef tool);

/// Answers --help, and --help=NAME with the options of a pass or pipeline. To
/// be called while the project's passes alone are registered; whether the
/// command line asked for it, and the exit status.
std::optional<int> answerHelp(int argc, char **argv, const ToolHelp &help);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_SUPPORT_TOOLHELP_H
