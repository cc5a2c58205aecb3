//===- Cudnn.cpp - cuDNN as a table of symbols ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Cudnn.h"

#include "device/cuda/Library.h"

using namespace mprt;
using namespace mprt::cuda;

static Expected<Cudnn> loadTable() {
  Expected<Library> library = openLibrary("no cuDNN", "MPRT_CUDNN_LIBRARY",
                                          {"libcudnn.so.9", "libcudnn.so.8"});
  if (!library)
    return library.error();
  Cudnn table;
#define MPRT_CUDNN_SYMBOL(symbol, result, parameters)                          \
  if (Error error = findSymbol(*library, #symbol,                              \
                               reinterpret_cast<void **>(&table.symbol)))      \
    return error;
  MPRT_CUDNN_SYMBOLS(MPRT_CUDNN_SYMBOL)
#undef MPRT_CUDNN_SYMBOL
  return table;
}

Expected<const Cudnn *> Cudnn::load() {
  static const Expected<Cudnn> table = loadTable();
  if (!table)
    return table.error();
  return &*table;
}

Error Cudnn::check(int status, const char *call) const {
  if (status == CUDNN_STATUS_SUCCESS)
    return {};
  // Numbers differ between versions, names less so.
  const char *text = cudnnGetErrorString(status);
  std::string name = text ? text : "an unknown status";
  mprt_status as = MPRT_INTERNAL;
  if (name.find("NOT_SUPPORTED") != std::string::npos)
    as = MPRT_UNSUPPORTED;
  if (name.find("ALLOC") != std::string::npos)
    as = MPRT_OUT_OF_MEMORY;
  return makeError(as, call, ": ", name);
}
