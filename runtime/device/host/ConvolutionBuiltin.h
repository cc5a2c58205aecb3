//===- ConvolutionBuiltin.h - convolutions without a library --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONBUILTIN_H
#define MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONBUILTIN_H

#include "device/host/GemmBuiltin.h"
#include "mpcomm/Runtime/mprt.h"

namespace mprt::host {

/// A convolution or one of its gradients on dense operands, whatever the
/// descriptor's strides say: activations [N, C, H, W].
struct BuiltinConvolution {
  const mprt_window_desc *desc;
  const void *a, *b;
  void *c;
  /// convolutionScratchElements(desc) elements of the operands' type.
  void *scratch;
  /// builtinWorkspaceBytes, as of the product.
  void *workspace;
};

/// The gathered windows of one group of one sample, and their product.
inline size_t convolutionScratchElements(const mprt_window_desc &desc) {
  size_t taps = size_t(desc.input[1] / desc.groups) * size_t(desc.window[0]) *
                size_t(desc.window[1]);
  return size_t(desc.output[2]) * size_t(desc.output[3]) * taps;
}

void builtinConvolutionF32(const BuiltinConvolution &convolution);
void builtinConvolutionF64(const BuiltinConvolution &convolution);

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONBUILTIN_H
