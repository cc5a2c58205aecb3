//===- Registry.cpp - the ways by which ranks communicate -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Registry.h"

using namespace mprt;

namespace mprt {
extern const Backend shmBackend, mpiBackend, glooBackend, ncclBackend;
}

static const Backend *const all[] = {&shmBackend, &mpiBackend, &glooBackend,
                                     &ncclBackend};

std::span<const Backend *const> mprt::backends() { return all; }

const Backend *mprt::findBackend(std::string_view name) {
  for (const Backend *backend : all)
    if (name == backend->name)
      return backend;
  return nullptr;
}
