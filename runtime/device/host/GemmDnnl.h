//===- GemmDnnl.h - matrix products by oneDNN -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only file that sees oneDNN is GemmDnnl.cpp. Without the library none of
// this exists.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_GEMMDNNL_H
#define MPCOMM_RUNTIME_DEVICE_HOST_GEMMDNNL_H

#include "support/Error.h"

#include <memory>

namespace mprt::host {

class DnnlGemm {
public:
  /// Makes oneDNN use the calling thread alone: ranks share a machine.
  DnnlGemm();
  virtual ~DnnlGemm();

  /// "oneDNN 2.6.3".
  static const char *version();

  /// Runs the product, a valid one without a zero among its sizes, if oneDNN
  /// has a fast routine for it. `way` becomes "sgemm" or "matmul", or stays
  /// null where it has none.
  virtual Error run(const mprt_gemm_desc &desc, const void *a, const void *b,
                    void *c, const char *&way);

  /// What `run` would do.
  virtual Error plan(const mprt_gemm_desc &desc, const char *&way);

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_GEMMDNNL_H
