//===- Sampler.h - which samples a rank sees at which step ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of samples is a function of (seed, step) alone: every rank works
// it out by itself, a resumed run continues where it stopped, and 1, 2 or 4
// ranks with the same global batch see the same samples at the same step.
//
// Epoch e visits a permutation of the samples made by Fisher and Yates' shuffle
// (Knuth, The Art of Computer Programming 2, algorithm 3.4.2 P) from the
// generator splitmix64 (Steele, Lea and Flood, OOPSLA 2014) with the seed
// `seed * 0x9E3779B97F4A7C15 + e`. Step s of the epoch takes G consecutive
// entries, rank r its r-th slice of them; a remainder of fewer than G samples
// is left out.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_SAMPLER_H
#define MPCOMM_RUN_DATA_SAMPLER_H

#include <cstdint>
#include <span>
#include <vector>

namespace mpcomm::run {

/// The generator splitmix64.
class SplitMix64 {
public:
  explicit SplitMix64(uint64_t seed) : state(seed) {}
  uint64_t next();

private:
  uint64_t state;
};

class Sampler {
public:
  /// `samples` in all, of which `ranks` ranks take `batch` each a step. All
  /// positive, and samples >= ranks * batch.
  Sampler(uint64_t samples, uint64_t batch, uint64_t ranks, uint64_t seed,
          bool shuffle);

  uint64_t stepsPerEpoch() const { return samples / (batch * ranks); }
  uint64_t epochOf(uint64_t step) const { return step / stepsPerEpoch(); }
  /// Samples that no epoch visits.
  uint64_t remainder() const { return samples % (batch * ranks); }

  /// The `batch` sample indices of `rank` at `step` (counted from 0 over all
  /// epochs). Valid until the next call. O(batch), and O(samples) where the
  /// epoch differs from that of the last call.
  std::span<const uint64_t> indices(uint64_t step, uint64_t rank);

private:
  uint64_t samples, batch, ranks, seed;
  bool shuffle;
  /// Epoch that `order` holds, plus one; zero for none.
  uint64_t shuffledEpoch = 0;
  std::vector<uint64_t> order;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_SAMPLER_H
