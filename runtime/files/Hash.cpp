//===- Hash.cpp - checksums of tensors and texts --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Hash.h. Four lanes take eight bytes each of a stripe; the names of the
// constants are the specification's.
//
//===----------------------------------------------------------------------===//

#include "files/Hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace mprt;

namespace {

constexpr uint64_t prime1 = 0x9e3779b185ebca87u, prime2 = 0xc2b2ae3d27d4eb4fu,
                   prime3 = 0x165667b19e3779f9u, prime4 = 0x85ebca77c2b2ae63u,
                   prime5 = 0x27d4eb2f165667c5u;

template <typename T> T load(const unsigned char *at) {
  T word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * prime2, 31) * prime1;
}

const unsigned char *addStripes(uint64_t (&lanes)[4], const unsigned char *at,
                                uint64_t count) {
  for (; count; --count, at += 32)
    for (size_t i = 0; i < 4; ++i)
      lanes[i] = round(lanes[i], load<uint64_t>(at + 8 * i));
  return at;
}

} // namespace

Hash::Hash() : lanes{prime1 + prime2, prime2, 0, 0 - prime1} {}

void Hash::add(const void *data, uint64_t bytes) {
  const auto *at = static_cast<const unsigned char *>(data);
  size_t held = total % stripeBytes;
  total += bytes;
  if (held) {
    size_t taken = std::min<uint64_t>(bytes, stripeBytes - held);
    std::copy_n(at, taken, pending + held);
    at += taken;
    bytes -= taken;
    if (held + taken < stripeBytes)
      return;
    addStripes(lanes, pending, 1);
  }
  at = addStripes(lanes, at, bytes / stripeBytes);
  std::copy_n(at, bytes % stripeBytes, pending);
}

uint64_t Hash::value() const {
  uint64_t hash = prime5;
  if (total >= stripeBytes) {
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) +
           std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = (hash ^ round(0, lane)) * prime1 + prime4;
  }
  hash += total;
  const unsigned char *at = pending, *end = pending + total % stripeBytes;
  for (; end - at >= 8; at += 8)
    hash = std::rotl(hash ^ round(0, load<uint64_t>(at)), 27) * prime1 + prime4;
  for (; end - at >= 4; at += 4)
    hash = std::rotl(hash ^ load<uint32_t>(at) * prime1, 23) * prime2 + prime3;
  for (; at != end; ++at)
    hash = std::rotl(hash ^ *at * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

uint64_t mprt::hashOf(const void *data, uint64_t bytes) {
  Hash hash;
  hash.add(data, bytes);
  return hash.value();
}

std::string mprt::hexOf(uint64_t hash) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4)
    text[i] = "0123456789abcdef"[hash & 15];
  return text;
}
