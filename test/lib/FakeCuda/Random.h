//===- Random.h - random choices that can be repeated ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_RANDOM_H
#define MPCOMM_TEST_LIB_FAKECUDA_RANDOM_H

#include <stdint.h>

#include <utility>
#include <vector>

namespace fake {

/// SplitMix64 (Steele, Lea and Flood, 2014).
class Random {
public:
  void seed(uint64_t value) { state = value; }

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// One of 0 .. count - 1.
  uint64_t below(uint64_t count) { return (next() >> 11) % count; }
  /// True once in `count` times.
  bool once(uint64_t count) { return below(count) == 0; }

  template <typename T> void shuffle(std::vector<T> &values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(i)]);
  }

private:
  uint64_t state = 1;
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_RANDOM_H
