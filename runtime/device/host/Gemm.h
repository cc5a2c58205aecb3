//===- Gemm.h - matrix products on the host -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products are oneDNN's where the runtime was built with it, and the built-in
// kernel's otherwise and for types and layouts that the library does not have.
// Which way is taken is a function of shapes, types, strides and the processor,
// never of a measurement in the run, so that results repeat bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_GEMM_H
#define MPCOMM_RUNTIME_DEVICE_HOST_GEMM_H

#include "support/Error.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mprt::host {

class DnnlGemm;

/// Computes products and keeps what it prepared for them. One a context; the
/// thread that makes it is the one that uses it.
class Gemm {
public:
  Gemm();
  ~Gemm();

  /// Computes the product that `desc` describes, on the calling thread. Fails
  /// with MPRT_INVALID_ARGUMENT where the descriptor contradicts itself, and
  /// with MPRT_UNSUPPORTED for types that mprt_gemm_desc does not list.
  Error run(const mprt_gemm_desc &desc, const void *a, const void *b, void *c);

  /// How `desc` is computed: "sgemm", "matmul", "built-in", "converted"
  /// (operands of 16 or 8 bits widened first), "nothing to do".
  Expected<const char *> describePlan(const mprt_gemm_desc &desc);

  /// "oneDNN 2.6.3" or "built-in".
  static const char *library();

private:
  void runBuiltin(const mprt_gemm_desc &desc, const void *a, const void *b,
                  void *c);
  Error runConverted(const mprt_gemm_desc &desc, const void *a, const void *b,
                     void *c);

  /// oneDNN's; null where it is not.
  DnnlGemm *fast();

  std::unique_ptr<DnnlGemm> dnnl;
  std::unique_ptr<void, void (*)(void *)> workspace;
  /// Widened A, B and C. They grow to the greatest need and stay.
  std::vector<float> widened[3];
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_GEMM_H
