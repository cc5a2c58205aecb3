//===- Writers.h - who writes what of a checkpoint ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the ranks that hold a tensor one writes it, or several write a part each,
// so that all write about as many bytes. It follows from shapes and holders
// alone, and so comes before the survey, which hashes what each file will have.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_WRITERS_H
#define MPCOMM_RUNTIME_SESSION_WRITERS_H

#include "session/state/StateUnion.h"

namespace mprt {

/// A file of its own, and its sync, or a part, cost more than to write so
/// little.
inline constexpr uint64_t smallBytes = 1 << 16;

/// Chooses the writer of each tensor. Tensors of less than `smallBytes` stay
/// with their owner. The others are dealt out for each set of holders, small
/// sets first, and by falling size: to the holder that has least to write so
/// far, whole where that gives it no more than 9/8 of its fair share, which is
/// what holders of the set have so far and what is held by exactly them,
/// divided by their number. Else the tensor is cut by rows (of its first
/// dimension) into parts of at least `smallBytes`, which take the place of the
/// tensor in the list: they fill holders up to the fair share, one each.
///
/// Where all ranks hold everything, none writes more than the greatest of 9/8
/// of the fair share, the fair share with a row and 2 * `smallBytes`, and what
/// small tensors it owns. O(tensors * holders).
void assignWriters(std::vector<SharedTensor> &tensors);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_WRITERS_H
