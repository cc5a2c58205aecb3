//===- Sampler.h - which samples a rank sees at which step ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of samples is a function of (seed, step, global batch) alone: every
// rank works it out by itself, a resumed run continues where it stopped, and 1,
// 2 or 4 ranks with the same global batch see the same samples at the same
// step. It takes no memory: where a data set has 10^9 samples, a table of their
// order would be larger than the model.
//
// Epoch e visits a pseudorandom permutation of the S samples: a balanced
// Feistel network (Luby and Rackoff, SIAM J. Comput. 17, 1988) of six rounds on
// 2h bits, h the least with 4^h >= S, and cycle walking (Black and Rogaway,
// CT-RSA 2002, method 2) from its domain into [0, S). The keys of the rounds
// are the outputs of the generator splitmix64 (Steele, Lea and Flood, OOPSLA
// 2014) with the seed `seed * 0x9E3779B97F4A7C15 + e`; the round function is
// its finalizer. Step s of the epoch takes G consecutive entries, rank r its
// r-th slice of them. A remainder of fewer than G samples is left out, or
// filled up with the first samples of the same epoch.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_SAMPLER_H
#define MPCOMM_RUN_DATA_SAMPLER_H

#include "data/Runtime.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mpcomm::run {

/// What becomes of the samples of an epoch that do not fill a global batch.
enum class LastBatch : uint8_t { Drop, Wrap };

/// `drop` or `wrap`.
const char *nameOf(LastBatch policy);

/// A permutation of [0, count).
class Permutation {
public:
  Permutation(uint64_t count, uint64_t seed);
  /// The image of `index`; at most four turns through the network on average.
  uint64_t operator()(uint64_t index) const;

private:
  uint64_t count, half;
  std::array<uint64_t, 6> keys;
};

class Sampler {
public:
  /// `samples` in all, of which `ranks` ranks take `batch` each a step. All
  /// positive; samples >= ranks * batch where what is left is dropped.
  Sampler(uint64_t samples, uint64_t batch, uint64_t ranks, uint64_t seed,
          bool shuffle, LastBatch last = LastBatch::Drop);

  uint64_t stepsPerEpoch() const;
  uint64_t epochOf(uint64_t step) const { return step / stepsPerEpoch(); }
  /// Samples that no epoch visits.
  uint64_t dropped() const {
    return last == LastBatch::Drop ? samples % (batch * ranks) : 0;
  }

  /// The `batch` sample indices of `rank` at `step` (counted from 0 over all
  /// epochs). Valid until the next call. O(batch).
  std::span<const uint64_t> indices(uint64_t step, uint64_t rank);

private:
  uint64_t samples, batch, ranks, seed;
  bool shuffle;
  LastBatch last;
  std::vector<uint64_t> taken;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_SAMPLER_H
