//===- Mesh.h - which ranks make up a communicator ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks are laid out row-major over the axes of a mesh: the last axis varies
// fastest. A communicator that spans some axes has one group for each
// coordinate in the other axes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_MESH_H
#define MPCOMM_RUNTIME_SESSION_MESH_H

#include <vector>

namespace mprt {

/// The ranks that differ from `rank` only in the axes `spanned` (indices into
/// `axisSizes`), `rank` among them, ascending. E.g. sizes [2, 4], spanned [1],
/// rank 5: 4 5 6 7.
std::vector<unsigned> groupOf(const std::vector<unsigned> &axisSizes,
                              const std::vector<unsigned> &spanned,
                              unsigned rank);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_MESH_H
