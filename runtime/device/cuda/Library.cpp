//===- Library.cpp - libraries that a machine may lack --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Library.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace mprt;
using namespace mprt::cuda;

Expected<Library>
mprt::cuda::openLibrary(const char *what, const char *variable,
                        const std::vector<const char *> &names) {
  const char *wanted = getenv(variable);
  std::vector<const char *> files = names;
  if (wanted && *wanted)
    files = {wanted};
  std::string reason;
  for (const char *file : files) {
    if (void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL))
      return Library{handle, file};
    const char *message = dlerror();
    std::string text = message ? message : "cannot be loaded";
    // The loader mostly begins with the name.
    if (text.find(file) == std::string::npos)
      text = std::string(file) + ": " + text;
    if (reason.empty())
      reason = text;
  }
  return makeError(MPRT_UNSUPPORTED, what, " (", reason, ")",
                   wanted && *wanted ? ", as " : "; ", variable,
                   wanted && *wanted ? " names it"
                                     : " in the environment can name the file");
}

Error mprt::cuda::findSymbol(const Library &library, const char *symbol,
                             void **pointer) {
  *pointer = dlsym(library.handle, symbol);
  if (!*pointer)
    return makeError(MPRT_UNSUPPORTED, library.name, " has no ", symbol,
                     ", expected a newer version");
  return {};
}
