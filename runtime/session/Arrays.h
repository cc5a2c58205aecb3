//===- Arrays.h - arrays that callers give --------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between an array as a caller has it (any type, strides) and a tensor as a
// program wants it: dense, in its own type. A conversion that could change what
// a value means is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ARRAYS_H
#define MPCOMM_RUNTIME_SESSION_ARRAYS_H

#include "files/Manifest.h"

#include "mpcomm/Runtime/Session.h"

namespace mprt {

/// Whether `array` can become `tensor`, of this shape: both are named in the
/// failure.
Error checkArray(const mpcomm_array &array, const ManifestTensor &tensor);

/// Whether it is one already, dense and at an address that programs can take.
bool isUsableInPlace(const mpcomm_array &array, const ManifestTensor &tensor);

/// Stores an array that `checkArray` has accepted at `target`. Fails where an
/// integer does not fit the tensor's type. Linear.
Error storeArray(const mpcomm_array &array, const ManifestTensor &tensor,
                 void *target);

/// Fails where an element of the integer tensor at `data` is not in [first,
/// second). Linear.
Error checkValues(const ManifestTensor &tensor, const void *data,
                  const std::pair<int64_t, int64_t> &range);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ARRAYS_H
