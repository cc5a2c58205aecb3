//===- SplitMix64.h - a generator of random numbers -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA
// 2014.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_SPLITMIX64_H
#define MPCOMM_RUNTIME_SUPPORT_SPLITMIX64_H

#include <cstdint>

namespace mprt {

class SplitMix64 {
public:
  explicit SplitMix64(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t mixed = (state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }

private:
  uint64_t state;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_SPLITMIX64_H
