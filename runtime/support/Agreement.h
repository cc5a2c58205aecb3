//===- Agreement.h - whether all ranks go on ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_AGREEMENT_H
#define MPCOMM_RUNTIME_SUPPORT_AGREEMENT_H

#include "support/Error.h"

#include <cstdint>
#include <functional>

namespace mprt {

/// Every rank's `bytes` at `mine` to every rank's `all`, in order of rank.
using Gather =
    std::function<Error(const void *mine, void *all, uint64_t bytes)>;

/// How rank `index` of `size` agrees with the others on whether all came with a
/// success. Otherwise the first that came with a failure gets it back, others
/// theirs or who that is, as what is reported elsewhere.
Error agree(uint64_t index, uint64_t size, const Error &mine,
            const Gather &gather);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_AGREEMENT_H
