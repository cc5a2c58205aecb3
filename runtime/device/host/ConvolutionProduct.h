//===- ConvolutionProduct.h - convolutions as one matrix product ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the channels last, an output is a matrix [positions, channels], and a
// filter [channels, taps] as it lies in memory. Of the input, a matrix
// [positions, taps] is gathered. That copies the input once for each element of
// the window, where a library's convolution copies the filter into a layout of
// its own: deep in a network there are few positions and many channels.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONPRODUCT_H
#define MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONPRODUCT_H

#include "device/host/Gemm.h"

namespace mprt::host {

class ConvolutionProduct {
public:
  /// Whether the convolution, a valid one, is to be computed this way.
  static bool prefers(const mprt_window_desc &desc);

  Error run(const mprt_window_desc &desc, const void *a, const void *b,
            void *c);

private:
  template <typename T>
  Error runAs(const mprt_window_desc &desc, const void *a, const void *b,
              void *c);

  Gemm gemm;
  /// Gathered windows, and gradients of a 16-bit input before they are
  /// narrowed. They grow to the greatest need and stay.
  std::vector<double> columns, sums;
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONPRODUCT_H
