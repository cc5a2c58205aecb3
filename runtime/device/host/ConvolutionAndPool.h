//===- ConvolutionAndPool.h - convolutions and pools on the host ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Convolutions with many channels for their positions are one matrix product;
// others are oneDNN's where the runtime was built with it, and products sample
// by sample otherwise and for types that the library does not have.
// Pools are loops over channels. Which way is taken is a function of the
// descriptor and the processor alone, so that results repeat bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONANDPOOL_H
#define MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONANDPOOL_H

#include "device/host/ConvolutionProduct.h"
#include "support/Error.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mprt::host {

class DnnlConvolution;

/// Computes convolutions and pools and keeps what it prepared for them. One a
/// context; the thread that makes it is the one that uses it.
class ConvolutionAndPool {
public:
  ConvolutionAndPool();
  ~ConvolutionAndPool();

  /// Computes what `desc` describes, on the calling thread. Fails with
  /// MPRT_INVALID_ARGUMENT where the descriptor contradicts itself, and with
  /// MPRT_UNSUPPORTED for types that mprt_window_desc does not list.
  Error run(const mprt_window_desc &desc, const void *a, const void *b,
            void *c);

  /// How `desc` is computed: "product" (of gathered windows), "oneDNN",
  /// "built-in", "converted" (16-bit operands widened first), "nothing to do".
  Expected<const char *> describePlan(const mprt_window_desc &desc);

  /// Floating-point operations of `desc`.
  static uint64_t countFlops(const mprt_window_desc &desc);
  /// Bytes of its operands and its result, each once.
  static uint64_t countBytes(const mprt_window_desc &desc);

private:
  Error runConverted(const mprt_window_desc &desc, const void *a, const void *b,
                     void *c);
  template <typename T>
  Error runBuiltin(const mprt_window_desc &desc, const T *a, const T *b, T *c);

  ConvolutionProduct product;
  /// oneDNN's; null where it is not.
  DnnlConvolution *fast();

  std::unique_ptr<DnnlConvolution> dnnl;
  /// Scratch for each of the operands, for gathered windows and for products.
  /// They grow to the greatest need and stay.
  std::vector<double> scratch[4];
  std::vector<float> widened[3];
  std::unique_ptr<void, void (*)(void *)> workspace;
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONANDPOOL_H
