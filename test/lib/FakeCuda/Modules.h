//===- Modules.h - images and their kernels -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An image for the fake device is a shared object of the host. A kernel in it
// is a function `void name(void *const *operands)` that is called once a thread
// of the grid; `const int32_t mpemu_operands_<name>` says how many operands
// there are, and `mpemu_shared_<name>`, if there, how many bytes of static
// shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_MODULES_H
#define MPCOMM_TEST_LIB_FAKECUDA_MODULES_H

#include "Emulator.h"

#include <memory>
#include <string>

namespace fake {

struct Context;
struct Work;

/// A loaded image.
struct Module {
  Context *context;
  void *library = nullptr;
  int file = -1;

  explicit Module(Context *context) : context(context) {}
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  ~Module();
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  EmulatedKernel kernel;
  int operands;
  int staticShared;
  int mostDynamicShared; // what a launch may ask for
};

/// Shared memory of a multiprocessor; a block can have 1 KiB less.
int sharedBytesOfSm();

/// The work of a launch, or the error of one that the driver would not take.
CUresult makeLaunch(const std::shared_ptr<Function> &function,
                    const unsigned (&grid)[3], const unsigned (&block)[3],
                    unsigned sharedBytes, void *const *operands, void **extra,
                    Work &work);

void forgetModules(const Context &context);

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_MODULES_H
