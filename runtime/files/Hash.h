//===- Hash.h - checksums of tensors and texts ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), with seed 0: several
// bytes a cycle, and `xxhsum -H64` and Python's xxhash give the same. It finds
// what was damaged or differs by mistake; it is no protection against intent.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_FILES_HASH_H
#define MPCOMM_RUNTIME_FILES_HASH_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mprt {

/// The hash of what `add` is given, piece by piece.
class Hash {
public:
  Hash();
  void add(const void *data, uint64_t bytes);
  /// Of all so far. More may be added.
  uint64_t value() const;

private:
  static constexpr size_t stripeBytes = 32;

  uint64_t lanes[4];
  /// Of the stripe that is not full yet.
  unsigned char pending[stripeBytes];
  uint64_t total = 0;
};

uint64_t hashOf(const void *data, uint64_t bytes);

/// `hash` as 16 hexadecimal digits.
std::string hexOf(uint64_t hash);

} // namespace mprt

#endif // MPCOMM_RUNTIME_FILES_HASH_H
