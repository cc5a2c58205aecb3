//===- HostDevice.cpp - the processor and its memory ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/HostDevice.h"

#include "support/Trace.h"

#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace mprt;

std::string HostDevice::describe() const {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

uint64_t HostDevice::memoryBytes() const {
  return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
}

Expected<void *> HostDevice::allocate(uint64_t bytes) {
  Expected<Pages> pages = Pages::make(bytes);
  if (pages.failed())
    return pages.error();
  std::lock_guard<std::mutex> guard(mutex);
  return allocations.emplace_back(pages.take()).data();
}

Error HostDevice::launch(uint32_t, const mprt_kernel &kernel,
                         void *const *args) {
  if (!kernel.fn)
    return Error(MPRT_INVALID_ARGUMENT, "it is no kernel for the host");
  kernel.fn(args);
  return {};
}

Error HostDevice::gemm(uint32_t, const mprt_gemm_desc &desc, const void *a,
                       const void *b, void *c) {
  return products.run(desc, a, b, c);
}

Error HostDevice::convolveOrPool(uint32_t, const mprt_window_desc &desc,
                                 const void *a, const void *b, void *c) {
  return convolutionAndPool.run(desc, a, b, c);
}

Error HostDevice::copy(uint32_t, void *target, const void *source,
                       uint64_t bytes, CopyKind) {
  if (bytes)
    memcpy(target, source, bytes);
  return {};
}

Error HostDevice::zero(uint32_t, void *target, uint64_t bytes) {
  if (bytes)
    memset(target, 0, bytes);
  return {};
}

Expected<uint64_t> HostDevice::mark(uint32_t) { return nowNanoseconds(); }
