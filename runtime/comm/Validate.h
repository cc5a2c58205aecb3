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

#include "../core/Error.h"

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

/// Elements that a rank contributes: count, or count x size.
uint64_t sendElements(const mprt_collective &collective, unsigned size);
/// Elements that a rank receives.
uint64_t recvElements(const mprt_collective &collective, unsigned size);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_VALIDATE_H
