//===- Deferral.h - reductions that end in the next step --------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which gradients are reduced at the start of the next step, before their
// parameters are read, rather than in the step that made them.
//
// The model: one link that carries one reduction at a time; compute that takes
// its time in one order. At the start of a step the link carries what was
// deferred, in the order in which it is needed, and compute waits for each
// where it is needed; then the rest, in the order in which it is made. The step
// ends with the last of both.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_DEFERRAL_DEFERRAL_H
#define MPCOMM_SCHEDULING_DEFERRAL_DEFERRAL_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpcomm {

/// A gradient and its parameter. Times are seconds of compute since the start
/// of a step.
struct DeferralItem {
  double ready = 0;   ///< the gradient is there
  double needed = 0;  ///< the parameter is read first
  double seconds = 0; ///< on the link
  int64_t bytes = 0;
};

struct DeferralChoice {
  std::vector<size_t> items; ///< deferred, in the order in which needed
  double before = 0;         ///< seconds of a step that defers nothing
  double after = 0;          ///< seconds of the step that was chosen
};

/// Seconds of a step that defers those of `items` for which `isDeferred` is
/// set. Time: O(n log n).
double simulateDeferral(const std::vector<DeferralItem> &items,
                        const std::vector<bool> &isDeferred, double compute);

/// The best of deferring the first k and the last m in the order in which they
/// are needed, for all k and m; of equals, that with the fewest bytes. On a
/// link that is busier than compute the first pay: what is made last is needed
/// first. The last fill the link while the forward pass computes. Sets with
/// gaps would gain more in this model, but not where reductions travel in
/// buckets. Time: O(n) for each pair; above 32 items, 32 values of k and of m
/// are tried.
DeferralChoice chooseDeferral(const std::vector<DeferralItem> &items,
                              double compute);

/// The first in the order in which they are needed, until `bytes` are reached.
DeferralChoice takeDeferral(const std::vector<DeferralItem> &items,
                            double compute, int64_t bytes);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_DEFERRAL_DEFERRAL_H
