//===- MakeProgram.h - a program file of a module ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_COMPILE_MAKEPROGRAM_H
#define MPCOMM_TOOLS_MPCOMM_COMPILE_MAKEPROGRAM_H

#include "CodeGen.h"

namespace mpcomm {

/// The contents of a program file of `modules`, the program and its variants
/// (Variants.h), with its seal.
llvm::Expected<std::string> makeProgram(CodeGen &codeGen,
                                        llvm::ArrayRef<llvm::Module *> modules);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_COMPILE_MAKEPROGRAM_H
