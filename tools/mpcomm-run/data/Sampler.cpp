//===- Sampler.cpp - which samples a rank sees at which step --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Sampler.h. The permutation is made afresh once an epoch.
//
//===----------------------------------------------------------------------===//

#include "data/Sampler.h"

#include <numeric>
#include <utility>

using namespace mpcomm::run;

uint64_t SplitMix64::next() {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

Sampler::Sampler(uint64_t samples, uint64_t batch, uint64_t ranks,
                 uint64_t seed, bool shuffle)
    : samples(samples), batch(batch), ranks(ranks), seed(seed),
      shuffle(shuffle), order(samples) {
  std::iota(order.begin(), order.end(), uint64_t(0));
}

std::span<const uint64_t> Sampler::indices(uint64_t step, uint64_t rank) {
  uint64_t epoch = epochOf(step);
  if (shuffle && shuffledEpoch != epoch + 1) {
    std::iota(order.begin(), order.end(), uint64_t(0));
    SplitMix64 generator(seed * 0x9E3779B97F4A7C15u + epoch);
    for (uint64_t i = samples - 1; i > 0; --i)
      std::swap(order[i], order[generator.next() % (i + 1)]);
    shuffledEpoch = epoch + 1;
  }
  uint64_t first = (step % stepsPerEpoch()) * batch * ranks + rank * batch;
  return std::span(order).subspan(first, batch);
}
