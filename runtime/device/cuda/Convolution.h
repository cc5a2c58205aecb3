//===- Convolution.h - convolutions on a CUDA device ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Convolutions are cuDNN's, loaded when the first one comes
// (MPRT_CUDNN_LIBRARY names another file). What is chosen for a descriptor is
// kept by its address, which outlives the device. Pools are refused: cuDNN has
// other rules for NaNs and for equal elements, a program brings its own
// kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTION_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTION_H

#include "device/cuda/Driver.h"
#include "device/cuda/Gemm.h"

#include <memory>
#include <string>

namespace mprt::cuda {

class Convolution {
public:
  /// The device's context is current wherever this is called.
  /// `products` computes convolutions of 1 x 1 where that is faster.
  Convolution(const Driver &driver, Gemm &products);
  ~Convolution();

  /// Enqueues what `desc` describes. Fails with MPRT_INVALID_ARGUMENT where the
  /// descriptor contradicts itself, and with MPRT_UNSUPPORTED for types that
  /// mprt_window_desc does not list. While `stream` is captured nothing is
  /// allocated, timed or waited for.
  Error run(const mprt_window_desc &desc, CUstream stream, const void *a,
            const void *b, void *c);

  /// How `desc` is computed, for reports.
  Expected<std::string> describePlan(const mprt_window_desc &desc);

  /// Memory of the device taken for scratch.
  uint64_t deviceBytes() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CONVOLUTION_H
