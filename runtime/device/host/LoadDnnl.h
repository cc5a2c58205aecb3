//===- LoadDnnl.h - oneDNN, where it is -------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libmprt_dnnl.so has all that calls oneDNN; it is loaded with the first
// product or convolution of the host. Where it is not, the built-in routines
// do: a machine that computes on GPUs needs no oneDNN.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_LOADDNNL_H
#define MPCOMM_RUNTIME_DEVICE_HOST_LOADDNNL_H

#include "device/host/ConvolutionDnnl.h"
#include "device/host/GemmDnnl.h"

namespace mprt::host {

/// What the library exports as mprt_dnnl.
struct DnnlLibrary {
  /// "oneDNN 2.6.3".
  const char *(*version)();
  DnnlGemm *(*createGemm)();
  DnnlConvolution *(*createConvolution)();
};

/// Null where it cannot be loaded; if it was built, a warning on standard error
/// says once why. Any thread may call it.
const DnnlLibrary *loadDnnl();

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_LOADDNNL_H
