//===- CodeGen.h - from the LLVM dialect to a program file ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TOOLS_MPCOMM_COMPILE_CODEGEN_H
#define MPCOMM_TOOLS_MPCOMM_COMPILE_CODEGEN_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace mpcomm {

/// Code generation for one processor.
class CodeGen {
public:
  /// `cpu`: a name as in `llc -mcpu`, or "native" for this machine's.
  static llvm::Expected<CodeGen> create(llvm::StringRef cpu, unsigned optLevel);

  /// The processor's name and those of its features that programs name.
  llvm::StringRef getCpu() const { return cpu; }
  std::string getManifestFeatures() const;

  /// Translates and optimises `module`; null, with diagnostics, on failure.
  std::unique_ptr<llvm::Module> translate(mlir::ModuleOp module,
                                          llvm::LLVMContext &context);
  /// Writes an object file.
  llvm::Error emitObject(llvm::Module &module, llvm::raw_pwrite_stream &stream);

private:
  std::unique_ptr<llvm::TargetMachine> machine;
  std::string cpu, features;
  unsigned optLevel = 2;
};

/// Links objects into a shared object with the linker found beside LLVM or in
/// PATH. LLVM's makes functions one that are the same in several of them.
llvm::Error linkShared(llvm::ArrayRef<std::string> objects,
                       llvm::StringRef output);

} // namespace mpcomm

#endif // MPCOMM_TOOLS_MPCOMM_COMPILE_CODEGEN_H
