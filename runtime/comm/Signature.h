//===- Signature.h - what ranks must agree on -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a rank calls, as it tells the others before any data is touched, and the
// words of the error where they call something else. Both are plain bytes of
// the same layout in all processes, for shared memory and for messages.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_SIGNATURE_H
#define MPCOMM_RUNTIME_COMM_SIGNATURE_H

#include "support/Error.h"

#include <cstdint>
#include <string>

namespace mprt {

struct Signature {
  uint64_t count = 0;
  uint32_t id = 0;
  int32_t peer = -1; ///< the root
  uint8_t kind = 0, reduction = 0, type = 0, accumulate = 0;
  uint32_t targets = 0; ///< a hash of those of a permute

  Signature() = default;
  /// What a kind has no use for is left out.
  explicit Signature(const mprt_collective &call);

  /// Whether ranks that call these run one collective.
  bool operator==(const Signature &other) const = default;
  /// Whether what one sends is what the other receives: they differ in kind,
  /// and may in id.
  bool carriesSame(const Signature &other) const {
    return count == other.count && type == other.type;
  }
  /// `all_reduce(sum, 1000 x f32, id 3)`: what is compared.
  std::string describe() const;
};

/// How a call is named in messages; longer words are cut.
struct CallWords {
  char name[96] = {};
  char location[160] = {};

  CallWords() = default;
  explicit CallWords(const mprt_collective &call);
};

/// `all_reduce "grads" at gpt.py:12`. `words` may come from another process,
/// which may be writing them.
std::string describe(const Signature &signature, CallWords words);

/// The error on `rank`, which calls `call`, where `peer` calls something else.
/// Ranks are those of the world.
Error makeMismatch(const mprt_collective &call, unsigned rank, unsigned peer,
                   const Signature &theirs, const CallWords &words);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_SIGNATURE_H
