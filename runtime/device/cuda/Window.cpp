//===- Window.cpp - convolutions and pools on a CUDA device ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Window.h"

using namespace mprt;
using namespace mprt::cuda;

struct Window::State {};

Window::Window(const Driver &) {}

Window::~Window() = default;

Error Window::run(const mprt_window_desc &, CUstream, const void *,
                  const void *, void *) {
  return Error(MPRT_UNSUPPORTED,
               "convolutions and pools on a CUDA device need cuDNN");
}

Expected<std::string> Window::describePlan(const mprt_window_desc &) {
  return Error(MPRT_UNSUPPORTED,
               "convolutions and pools on a CUDA device need cuDNN");
}

uint64_t Window::deviceBytes() const { return 0; }
