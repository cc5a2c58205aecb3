//===- Variants.h - several plans of one step in a file ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A variant is compiled as any program is. Its symbols get a suffix, so that it
// can be linked with others; kernels that are the same in several are one in
// the file, where the linker folds identical functions.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_COMPILE_VARIANTS_H
#define MPCOMM_TOOLS_MPCOMM_COMPILE_VARIANTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace mpcomm {

/// "narrow: wire=bf16": a name, and options beside those of the program.
struct VariantRequest {
  std::string name, settings;
};

/// Fails with what was expected.
llvm::Expected<VariantRequest> parseVariant(llvm::StringRef text);

/// The suffix that a variant's symbols have; none for the program itself.
std::string suffixOf(llvm::StringRef variant);

/// Gives what the module exports the suffix of `variant`.
void addSuffix(llvm::Module &module, llvm::StringRef variant);

/// Has the program's own module say which variants are in its file.
void listVariants(llvm::Module &module, llvm::ArrayRef<std::string> names);

/// Fails where a session could not go on with the state of `program` in
/// `variant`, both compiled: ranks and state must be the same.
llvm::Error checkVariant(mlir::ModuleOp program, mlir::ModuleOp variant,
                         llvm::StringRef name);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_COMPILE_VARIANTS_H
