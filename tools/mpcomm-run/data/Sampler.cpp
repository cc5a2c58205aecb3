//===- Sampler.cpp - which samples a rank sees at which step --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Sampler.h.
//
//===----------------------------------------------------------------------===//

#include "data/Sampler.h"

#include "support/SplitMix64.h"

#include <bit>

using namespace mpcomm::run;

constexpr uint64_t golden = 0x9E3779B97F4A7C15u;

/// The finalizer of splitmix64.
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

const char *mpcomm::run::nameOf(LastBatch policy) {
  return policy == LastBatch::Drop ? "drop" : "wrap";
}

Permutation::Permutation(uint64_t count, uint64_t seed) : count(count) {
  half = (static_cast<uint64_t>(std::bit_width(count - 1)) + 1) / 2;
  SplitMix64 generator(seed);
  for (uint64_t &key : keys)
    key = generator.next();
}

uint64_t Permutation::operator()(uint64_t index) const {
  if (count < 2)
    return index;
  uint64_t mask = (uint64_t(1) << half) - 1;
  // What the network maps out of [0, count) it maps again: on the cycle of an
  // index in [0, count) there is one, if no other then itself.
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t key : keys) {
      uint64_t mixed = left ^ (mix(right + key) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

Sampler::Sampler(uint64_t samples, uint64_t batch, uint64_t ranks,
                 uint64_t seed, bool shuffle, LastBatch last)
    : samples(samples), batch(batch), ranks(ranks), seed(seed),
      shuffle(shuffle), last(last), taken(batch) {}

uint64_t Sampler::stepsPerEpoch() const {
  uint64_t global = batch * ranks;
  return samples / global + (last == LastBatch::Wrap && samples % global != 0);
}

std::span<const uint64_t> Sampler::indices(uint64_t step, uint64_t rank) {
  Permutation order(samples, seed * golden + epochOf(step));
  uint64_t first = (step % stepsPerEpoch() * ranks + rank) * batch;
  for (uint64_t i = 0; i < batch; ++i) {
    uint64_t index = (first + i) % samples;
    taken[i] = shuffle ? order(index) : index;
  }
  return taken;
}
