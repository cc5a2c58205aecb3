//===- LoadMpi.cpp - finds the MPI backend --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mpi.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

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

Expected<std::unique_ptr<Transport>> mprt::joinMpi(const MpiOptions &options) {
  // MPI libraries load plugins of their own that need their symbols.
  int mode = RTLD_NOW | RTLD_GLOBAL;
  void *library = dlopen((ownFolder() + "libmprt_mpi.so").c_str(), mode);
  if (!library)
    library = dlopen("libmprt_mpi.so", mode);
  if (!library)
    return makeError(MPRT_UNSUPPORTED, "no MPI: ", dlerror(),
                     " (the mpi communicator needs libmprt_mpi.so, which is "
                     "built where MPI's headers are, and MPI's libraries)");
  auto *join = reinterpret_cast<decltype(&mprt_mpi_join)>(
      dlsym(library, "mprt_mpi_join"));
  if (!join)
    return makeError(MPRT_UNSUPPORTED, "libmprt_mpi.so has no mprt_mpi_join");
  MpiOptions effective = options;
  if (const char *check = getenv("MPRT_CHECK"))
    effective.checkCollectives |= *check && strcmp(check, "0") != 0;
  Error error;
  Transport *transport = join(effective, error);
  if (!transport)
    return error ? error : Error(MPRT_INTERNAL, "MPI did not start");
  return std::unique_ptr<Transport>(transport);
}
