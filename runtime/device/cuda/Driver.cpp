//===- Driver.cpp - the CUDA driver API as a table of symbols -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Driver.h"

#include "device/cuda/Library.h"

using namespace mprt;
using namespace mprt::cuda;

static constexpr int oldestVersion = 12000;

Error Driver::check(CUresult result, const char *call) const {
  if (result == CUDA_SUCCESS)
    return {};
  const char *name = nullptr, *text = nullptr;
  if (!cuGetErrorName || cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = nullptr;
  if (!cuGetErrorString || cuGetErrorString(result, &text) != CUDA_SUCCESS)
    text = nullptr;
  mprt_status status =
      result == CUDA_ERROR_OUT_OF_MEMORY ? MPRT_OUT_OF_MEMORY : MPRT_INTERNAL;
  return makeError(status, call, ": ",
                   name ? std::string(name)
                        : "error " + std::to_string(result) + " of the driver",
                   text ? ", " : "", text ? text : "");
}

/// Fills the table and starts the driver.
static Error loadInto(Driver &driver) {
  Expected<Library> library =
      openLibrary("no CUDA driver", "MPRT_CUDA_LIBRARY", {"libcuda.so.1"});
  if (!library)
    return library.error();
  // The version first: what lacks a symbol is mostly just old.
  struct Symbol {
    const char *name;
    void **pointer;
  };
  const Symbol symbols[] = {
#define MPRT_CUDA_SYMBOL(member, symbol, parameters)                           \
  {#symbol, reinterpret_cast<void **>(&driver.member)},
      MPRT_CUDA_SYMBOLS(MPRT_CUDA_SYMBOL)
#undef MPRT_CUDA_SYMBOL
  };
  Error lacking;
  for (const Symbol &symbol : symbols)
    if (Error error = findSymbol(*library, symbol.name, symbol.pointer);
        error && !lacking)
      lacking = error;
  if (driver.cuDriverGetVersion &&
      driver.cuDriverGetVersion(&driver.version) == CUDA_SUCCESS &&
      driver.version < oldestVersion)
    return makeError(MPRT_UNSUPPORTED, "the CUDA driver is too old: it is of ",
                     "CUDA ", driver.version / 1000, ".",
                     driver.version % 1000 / 10, ", expected 12.0 or newer");
  if (lacking)
    return lacking;
  if (CUresult result = driver.cuInit(0); result == CUDA_ERROR_NO_DEVICE)
    return Error(MPRT_UNSUPPORTED, "no CUDA device: the driver finds none (" +
                                       library->name +
                                       "); CUDA_VISIBLE_DEVICES may hide it");
  else if (Error error = driver.check(result, "cuInit"))
    return Error(MPRT_UNSUPPORTED,
                 "the CUDA driver does not start: " + error.message());
  int count = 0;
  if (Error error =
          driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"))
    return error;
  if (count == 0)
    return Error(MPRT_UNSUPPORTED, "no CUDA device: the driver finds none (" +
                                       library->name +
                                       "); CUDA_VISIBLE_DEVICES may hide it");
  return {};
}

Expected<const Driver *> Driver::load() {
  static Driver driver;
  static const Error failure = loadInto(driver);
  if (failure)
    return failure;
  return static_cast<const Driver *>(&driver);
}
