//===- GPUCode.h - LLVM IR to code for a GPU --------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM's NVPTX backend, and NVIDIA's assembler as a program. Knows no MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_ASSEMBLE_GPUCODE_H
#define MPCOMM_LIB_CODEGEN_ASSEMBLE_GPUCODE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace mpcomm {

/// Optimises `module` for `chip` and translates it to PTX. An error names what
/// the module lacks: a function that no GPU has.
llvm::Expected<std::string> translateToPTX(llvm::Module &module,
                                           llvm::StringRef chip);

/// What the assembler tells of a kernel; sizes in bytes.
struct KernelUse {
  std::string name;
  int64_t registers = 0, spillStores = 0, spillLoads = 0, stack = 0,
          sharedBytes = 0;
};

struct Assembly {
  std::string cubin;
  llvm::SmallVector<KernelUse> kernels;
};

/// Where `ptxas` is: `given`, or else $CUDA_HOME/bin,
/// /usr/local/cuda/bin, PATH; none where it is nowhere.
std::optional<std::string> findAssembler(llvm::StringRef given);

/// Runs it. An error has its messages.
llvm::Expected<Assembly> assemble(llvm::StringRef assembler,
                                  llvm::StringRef ptx, llvm::StringRef chip);

/// Reads what `ptxas -v` says.
llvm::SmallVector<KernelUse> parseAssemblerOutput(llvm::StringRef text);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_ASSEMBLE_GPUCODE_H
