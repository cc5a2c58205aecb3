//===- GraphFills.h - fills of a graph as kernels -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The launch of a graph takes longer with each fill in it, and cuBLASLt clears
// 4 bytes before most products on sm_90.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H

#include "device/cuda/Driver.h"

namespace mprt::cuda {

class GraphFills {
public:
  explicit GraphFills(const Driver &driver) : driver(driver) {}
  ~GraphFills();
  GraphFills(const GraphFills &) = delete;
  GraphFills &operator=(const GraphFills &) = delete;

  /// Puts a kernel in the place of each node of `graph`, which is not yet
  /// instantiated, that sets whole words of 4 bytes to zero. Other fills stay,
  /// as do those for which the driver refuses that. An error leaves a graph
  /// that must not be used.
  Error replace(CUgraph graph);

private:
  Error replaceOne(CUgraph graph, CUgraphNode fill);
  /// Whether the kernels are there.
  bool load();

  const Driver &driver;
  CUmodule module = nullptr;
  CUfunction words = nullptr, vectors = nullptr;
  bool isTried = false;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_GRAPHFILLS_H
