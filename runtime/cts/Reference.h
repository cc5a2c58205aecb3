//===- Reference.h - what a collective should give ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are a function of rank and index alone, so that each rank can compute
// all ranks' inputs. Floating point results are compared with sums in long
// double, integers exactly.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_CTS_REFERENCE_H
#define MPCOMM_RUNTIME_CTS_REFERENCE_H

#include "mpcomm/Runtime/mprt.h"

#include <cstdint>
#include <string>

namespace mprt::cts {

/// Writes element `index` of the input of `rank` to `element`. `seed` tells one
/// case from another. Values fit the reduction: factors near 1.
void writeInput(mprt_dtype type, mprt_reduction reduction, uint64_t seed,
                unsigned rank, uint64_t index, void *element);

/// Whether `element` is the reduction of element `index` over ranks 0 ... size
/// - 1, within the error that `size` operations in the accumulation type and
/// one rounding to `type` can make; otherwise says in `why` what was expected.
bool isReduced(mprt_dtype type, mprt_dtype accumulate, mprt_reduction reduction,
               uint64_t seed, unsigned size, uint64_t index,
               const void *element, std::string &why);

/// Whether `element` is the input of `rank`, bit for bit.
bool isInput(mprt_dtype type, uint64_t seed, unsigned rank, uint64_t index,
             const void *element, std::string &why);

} // namespace mprt::cts

#endif // MPCOMM_RUNTIME_CTS_REFERENCE_H
