//===- Library.h - libraries that a machine may lack ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver and NVIDIA's libraries are opened when they are asked for. An
// environment variable names another file for each: a library of another
// version, or a test double.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_LIBRARY_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_LIBRARY_H

#include "support/Error.h"

#include <string>
#include <vector>

namespace mprt::cuda {

struct Library {
  void *handle = nullptr;
  std::string name;
};

/// Opens the file that the environment variable `variable` names, else the
/// first of `names` that the loader finds. It stays loaded. The message of a
/// failure is `what (libx.so.1: the loader's reason)`, with the reason for the
/// first of them.
Expected<Library> openLibrary(const char *what, const char *variable,
                              const std::vector<const char *> &names);

/// Stores the address of `symbol` in `pointer`.
Error findSymbol(const Library &library, const char *symbol, void **pointer);

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_LIBRARY_H
