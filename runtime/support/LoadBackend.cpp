//===- LoadBackend.cpp - finds the shared object of a communicator --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/LoadBackend.h"

#include <dlfcn.h>
#include <unistd.h>

using namespace mprt;

/// The folder of the shared object that holds this function, with a slash.
static std::string ownFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return "";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

Expected<void *> mprt::loadBackend(const BackendLibrary &backend) {
  int mode = RTLD_NOW | (backend.global ? RTLD_GLOBAL : RTLD_LOCAL);
  std::string beside = ownFolder() + backend.file;
  void *library = dlopen(beside.c_str(), mode);
  // The reason why the one beside us does not load is the one to tell.
  std::string reason = library ? "" : dlerror();
  if (!library && access(beside.c_str(), F_OK) != 0) {
    library = dlopen(backend.file, mode);
    reason = library ? "" : dlerror();
  }
  if (!library)
    return makeError(MPRT_UNSUPPORTED, backend.complaint, ": ", reason, " (",
                     backend.advice, ")");
  void *symbol = dlsym(library, backend.symbol);
  if (!symbol)
    return makeError(MPRT_UNSUPPORTED, backend.file, " has no ",
                     backend.symbol);
  return symbol;
}
