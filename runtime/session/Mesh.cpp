//===- Mesh.cpp - which ranks make up a communicator ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Mesh.h"

#include <algorithm>

std::vector<unsigned> mprt::groupOf(const std::vector<unsigned> &axisSizes,
                                    const std::vector<unsigned> &spanned,
                                    unsigned rank) {
  std::vector<unsigned> group{rank};
  unsigned stride = 1;
  for (size_t axis = axisSizes.size(); axis-- > 0;) {
    unsigned size = axisSizes[axis];
    if (std::find(spanned.begin(), spanned.end(), axis) != spanned.end()) {
      // Replace this axis' coordinate by each of its values.
      std::vector<unsigned> grown;
      for (unsigned member : group) {
        unsigned origin = member - (member / stride % size) * stride;
        for (unsigned i = 0; i < size; ++i)
          grown.push_back(origin + i * stride);
      }
      group = std::move(grown);
    }
    stride *= size;
  }
  std::sort(group.begin(), group.end());
  return group;
}
