//===- Gemm.h - matrix products on a CUDA device --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products are cuBLASLt's, loaded when the first one comes
// (MPRT_CUBLASLT_LIBRARY names another file). What is chosen for a descriptor
// is kept by its address, which outlives the device.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_GEMM_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_GEMM_H

#include "device/Descriptors.h"
#include "device/cuda/Driver.h"

#include <memory>
#include <string>

namespace mprt::cuda {

class Gemm {
public:
  /// The device's context is current wherever this is called.
  explicit Gemm(const Driver &driver);
  ~Gemm();

  /// Enqueues the product that `desc` describes. Fails with
  /// MPRT_INVALID_ARGUMENT where the descriptor contradicts itself, and with
  /// MPRT_UNSUPPORTED for types that mprt_gemm_desc does not list. While
  /// `stream` is captured nothing is allocated, timed or waited for.
  Error run(const mprt_gemm_desc &desc, CUstream stream, const void *a,
            const void *b, void *c);

  /// The same with an epilogue; false, with nothing done, where the library
  /// has no algorithm for both.
  Expected<bool> runWithEpilogue(const mprt_gemm_desc &desc, CUstream stream,
                                 const void *a, const void *b, void *c,
                                 const GemmEpilogue &epilogue);

  /// How `desc` is computed, for reports.
  Expected<std::string> describePlan(const mprt_gemm_desc &desc);

  /// Memory of the device taken for scratch.
  uint64_t deviceBytes() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_GEMM_H
