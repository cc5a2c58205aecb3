//===- Validate.h - is this a collective that can be run? -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all backends require of a collective, checked once when it is enqueued,
// and the words in which messages speak of it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_VALIDATE_H
#define MPCOMM_RUNTIME_COMM_VALIDATE_H

#include "support/Error.h"

#include <optional>
#include <string>

namespace mprt {

/// Checks kinds, types, peers, sizes and buffers of a collective in a group of
/// `size` ranks in which this process is `rank`.
Error validateCollective(const mprt_collective &collective, unsigned size,
                         unsigned rank, const void *send, const void *recv);

/// `all_reduce "grads" at gpt.py:12`; the parts that are known.
std::string describe(const mprt_collective &collective);
std::string describe(mprt_collective_kind kind, const char *name,
                     const char *location);

/// Elements of a rank's buffer to send, where it sends: count, or count x size.
uint64_t sendElements(const mprt_collective &collective, unsigned size);
/// Elements of a rank's buffer to receive in.
uint64_t recvElements(const mprt_collective &collective, unsigned size);

/// Whether the kind combines elements.
bool reduces(const mprt_collective &collective);
/// Whether `peer` is the root of a collective of the whole group.
bool hasRoot(const mprt_collective &collective);

/// A block of `count` elements on its way, by its number in the sender's and in
/// the receiver's buffer.
struct Block {
  unsigned sent, received;
};
/// The block that a collective of the group takes from rank `from` to rank
/// `to`, of a reduction as one of its inputs; nothing where there is none.
std::optional<Block> blockBetween(const mprt_collective &collective,
                                  unsigned from, unsigned to);
/// Whether a block comes from `rank`, and whether one comes to it.
bool isSource(const mprt_collective &collective, unsigned rank);
bool isTarget(const mprt_collective &collective, unsigned rank);

/// Fills the buffer to receive in with zeros where nothing comes to `rank`.
void clearUnreached(const mprt_collective &collective, unsigned size,
                    unsigned rank, void *recv);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_VALIDATE_H
