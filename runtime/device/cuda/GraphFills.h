//===- GraphFills.h - fills of a graph as kernels -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver launches a chain of kernels in a time that hardly depends on how
// many there are, but hands over each fill on its own. cuBLASLt sets 4 bytes to
// zero before most products on sm_90.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H

#include "device/cuda/Driver.h"

#include <vector>

namespace mprt::cuda {

class GraphFills {
public:
  explicit GraphFills(const Driver &driver) : driver(driver) {}
  ~GraphFills();
  GraphFills(const GraphFills &) = delete;
  GraphFills &operator=(const GraphFills &) = delete;

  /// Puts a kernel in the place of each node of `graph`, which is not yet
  /// instantiated, that sets whole words of 4 bytes to zero. Other fills stay,
  /// as do all where the driver cannot compile the kernels. After an error the
  /// graph must not be used.
  Error replace(CUgraph graph);

private:
  Error replaceOne(CUgraph graph, CUgraphNode fill);

  const Driver &driver;
  CUmodule module = nullptr;
  CUfunction words = nullptr, vectors = nullptr;
  bool isTried = false;
};

/// All nodes of a graph.
Expected<std::vector<CUgraphNode>> nodesOf(const Driver &driver, CUgraph graph);

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H
