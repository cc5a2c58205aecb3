//===- LoadDnnl.cpp - oneDNN, where it is ---------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/host/LoadDnnl.h"

#include "support/LoadBackend.h"

#include <cstdio>

using namespace mprt;
using namespace mprt::host;

const DnnlLibrary *mprt::host::loadDnnl() {
#ifdef MPRT_HAVE_DNNL
  static const DnnlLibrary *const library = [] {
    Expected<void *> symbol = loadBackend(
        {"libmprt_dnnl.so", "mprt_dnnl", /*global=*/false, "no oneDNN",
         "products and convolutions are computed by slower built-in routines"});
    if (!symbol) {
      std::fprintf(stderr, "mpcomm: warning: %s\n",
                   symbol.error().message().c_str());
      return static_cast<const DnnlLibrary *>(nullptr);
    }
    return static_cast<const DnnlLibrary *>(*symbol);
  }();
  return library;
#else
  return nullptr;
#endif
}
