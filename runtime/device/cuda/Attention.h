//===- Attention.h - attention by cuDNN or by kernels -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has kernels for its attention; cuDNN may be faster. The first call
// with a descriptor outside of a capture times both on the call's operands: the
// inputs are only read, and the outputs overwritten in any case. The two have
// other bits, so the library is taken only once `settle` says that all ranks
// want it; until then kernels run. Whatever the library does not have or cannot
// do, kernels do.
//
// The library is offered attention without a mask, or with a causal one. What a
// mask holds is read at the first call; that it stays so is the promise of
// mprt_attention_desc, and `checkUpload` guards it.
//
// MPRT_ATTENTION=kernels: never the library. MPRT_ATTENTION=cudnn: the library
// wherever it can, at once. MPRT_ATTENTION=auto: as above, the default. It is
// read once, and is to be the same on all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTION_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTION_H

#include "device/Device.h"
#include "device/cuda/Driver.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mprt::cuda {

class Attention {
public:
  /// The device's context is current wherever this is called.
  explicit Attention(const Driver &driver);
  ~Attention();

  /// Fails with MPRT_INVALID_ARGUMENT for an unknown MPRT_ATTENTION.
  Error checkMode() const;

  /// Enqueues what `desc` describes, if the library was chosen for it: whether
  /// it was. `kernels` enqueues the descriptor's kernels, for comparison. While
  /// `stream` is captured nothing is allocated, timed or waited for. Fails as
  /// `checkMode`.
  Expected<bool> run(const mprt_attention_desc &desc, CUstream stream,
                     void *const *args, const std::function<Error()> &kernels);

  /// See Device.
  std::string sharedSettings() const;
  std::vector<LibraryVote> unsettled() const;
  void settle(std::span<const LibraryVote> votes);
  std::string describeChoices() const;

  /// Fails with MPRT_UNSUPPORTED if `bytes` at `source`, which replace what is
  /// at `target`, change a mask that was read as causal for the library; one
  /// that kernels read is looked at again.
  Error checkUpload(const void *target, const void *source, uint64_t bytes);

  /// Memory of the device taken for scratch.
  uint64_t deviceBytes() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTION_H
