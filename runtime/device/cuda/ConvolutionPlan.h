//===- ConvolutionPlan.h - a convolution as cuDNN wants it ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTIONPLAN_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTIONPLAN_H

#include "device/cuda/Cudnn.h"

#include <optional>
#include <vector>

namespace mprt::cuda {

/// The library's descriptions of one convolution or gradient.
class ConvolutionPlan {
public:
  struct Choice {
    int algorithm = 0;
    int mathType = CUDNN_DEFAULT_MATH;
    uint64_t workspaceBytes = 0;
    /// The plan's product takes the library's place.
    bool isProduct = false;
  };

  explicit ConvolutionPlan(const Cudnn &library) : library(library) {}
  ~ConvolutionPlan();
  ConvolutionPlan(const ConvolutionPlan &) = delete;
  ConvolutionPlan &operator=(const ConvolutionPlan &) = delete;

  /// Describes `desc`, which check() has found good. Fails with
  /// MPRT_UNSUPPORTED for layouts and paddings that the library does not have.
  Error describe(const mprt_window_desc &desc);

  /// Algorithms that sum as the descriptor says and fit into `workspaceBytes`,
  /// best first by the library's estimate; those that give the same bits each
  /// time where there are such.
  Expected<std::vector<Choice>> list(DnnHandle handle, uint64_t workspaceBytes);

  /// Enqueues it on the handle's stream.
  Error run(DnnHandle handle, const Choice &choice, void *workspace,
            const void *a, const void *b, void *c);

  mprt_window_desc desc = {};
  /// The same as a product: windows of one element, strides of 1, no padding,
  /// dense images with the channels last.
  std::optional<mprt_gemm_desc> product;
  Choice choice;
  bool settled = false; // false: the first guess, taken during a capture

private:
  Error describeTensor(DnnTensor &tensor, int operand);
  Error describeFilter(int operand);
  /// Makes the layout of the filter that of the images, by way of a copy.
  Error describeFilterCopy(int operand, const int (&order)[4]);
  Error describeConvolution();
  /// Fills in what the algorithm needs with the math type it will have.
  Error measureWorkspace(DnnHandle handle, Choice &of);

  const Cudnn &library;
  DnnTensor x = nullptr, y = nullptr;
  DnnFilter w = nullptr;
  /// The filter as it is, and as the library gets it; bytes of the latter.
  DnnTensor given = nullptr, copied = nullptr;
  uint64_t copyBytes = 0;
  DnnConvolution convolution = nullptr;
  bool channelsLast = false; // where a layout can be read either way
  int mathType = CUDNN_DEFAULT_MATH;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTIONPLAN_H
