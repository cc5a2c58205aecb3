//===- ConvolutionDnnl.h - convolutions by oneDNN -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONDNNL_H
#define MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONDNNL_H

#include "support/Error.h"

#include <memory>

namespace mprt::host {

class DnnlConvolution {
public:
  DnnlConvolution();
  virtual ~DnnlConvolution();

  /// Runs the convolution, a valid one, if oneDNN has a fast routine for it;
  /// `done` says whether. Without `c`, only says what it would do.
  virtual Error run(const mprt_window_desc &desc, const void *a, const void *b,
                    void *c, bool &done);

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace mprt::host

#endif // MPCOMM_RUNTIME_DEVICE_HOST_CONVOLUTIONDNNL_H
