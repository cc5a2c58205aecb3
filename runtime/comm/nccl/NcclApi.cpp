//===- NcclApi.cpp - NCCL as a table of symbols ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/NcclApi.h"

#include "device/cuda/Library.h"

#include <dlfcn.h>

using namespace mprt;
using namespace mprt::nccl;

static constexpr int oldestVersion = 21800;

std::string mprt::nccl::describeVersion(int version) {
  // 2.8 and older had one digit fewer for the minor version.
  int major = version < 10000 ? version / 1000 : version / 10000;
  int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(version % 100);
}

Error Api::failure(ncclResult_t result, const std::string &what,
                   ncclComm_t comm) const {
  mprt_status status = MPRT_INTERNAL;
  if (result == ncclInvalidArgument || result == ncclInvalidUsage)
    status = MPRT_INVALID_ARGUMENT;
  else if (result == ncclSystemError || result == ncclRemoteError)
    status = MPRT_IO_ERROR;
  const char *words = ncclGetErrorString ? ncclGetErrorString(result) : nullptr;
  const char *last = ncclGetLastError ? ncclGetLastError(comm) : nullptr;
  std::string text = words ? words : "error " + std::to_string(result);
  // Its last words are several lines, and come with a time now and then.
  std::string more = last ? last : "";
  for (char &c : more)
    c = c == '\n' || c == '\r' ? ' ' : c;
  while (!more.empty() && more.back() == ' ')
    more.pop_back();
  return makeError(status, what, ": NCCL says: ", text,
                   more.empty() ? "" : "; ", more);
}

/// Fills the table.
static Error loadInto(Api &api) {
  Expected<cuda::Library> library =
      cuda::openLibrary("no NCCL", "MPRT_NCCL_LIBRARY", {"libnccl.so.2"});
  if (!library)
    return library.error();
  int (*getVersion)(int *) = nullptr;
  if (Error error = cuda::findSymbol(*library, "ncclGetVersion",
                                     reinterpret_cast<void **>(&getVersion)))
    return error;
  if (getVersion(&api.version) != ncclSuccess)
    return Error(MPRT_UNSUPPORTED,
                 library->name + " does not tell its version");
  if (api.version < oldestVersion)
    return makeError(MPRT_UNSUPPORTED, "NCCL ", describeVersion(api.version),
                     " is too old (", library->name,
                     "), expected 2.18 or newer");
#define MPRT_NCCL_FIND(result, name, parameters)                               \
  if (Error error = cuda::findSymbol(*library, #name,                          \
                                     reinterpret_cast<void **>(&api.name)))    \
    return error;
  MPRT_NCCL_SYMBOLS(MPRT_NCCL_FIND)
#undef MPRT_NCCL_FIND
#define MPRT_NCCL_LOOK(result, name, parameters)                               \
  api.name =                                                                   \
      reinterpret_cast<decltype(api.name)>(dlsym(library->handle, #name));
  MPRT_NCCL_OPTIONAL_SYMBOLS(MPRT_NCCL_LOOK)
#undef MPRT_NCCL_LOOK
  return {};
}

Expected<const Api *> Api::load() {
  static Api api;
  static const Error failure = loadInto(api);
  if (failure)
    return failure;
  return static_cast<const Api *>(&api);
}
