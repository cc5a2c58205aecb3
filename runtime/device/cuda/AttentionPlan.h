//===- AttentionPlan.h - attention as cuDNN wants it ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTIONPLAN_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTIONPLAN_H

#include "device/cuda/CudnnGraph.h"

namespace mprt::cuda {

/// The library's description of attention, or of its gradient, and plans for
/// it. What the operands' pointers are is told at each run.
class AttentionPlan {
public:
  explicit AttentionPlan(const Cudnn &library)
      : library(library), graph(library) {}

  /// Describes `desc`, with a mask of j <= i where `isCausal` and without one
  /// otherwise, and asks the library for at most `most` plans that repeat bit
  /// by bit and need at most `workspaceBytes`. Fails with MPRT_UNSUPPORTED
  /// where it has none.
  Error prepare(const mprt_attention_desc &desc, bool isCausal,
                DnnHandle handle, size_t most, uint64_t workspaceBytes);

  size_t count() const { return plans.size(); }
  /// What plan `i` needs.
  uint64_t workspaceBytes(size_t i) const {
    return plans[i].workspaceBytes + deltaBytes;
  }

  /// Whether the operands are where the library can read them.
  static bool isAligned(const mprt_attention_desc &desc, void *const *args);

  /// Enqueues plan `i` on the handle's stream.
  Error run(size_t i, DnnHandle handle, void *workspace, void *const *args);

private:
  void describeForward(const mprt_attention_desc &desc, bool isCausal);
  void describeGradient(const mprt_attention_desc &desc, bool isCausal);
  CudnnGraph::Tensor operand(const mprt_attention_desc &desc, uint32_t number,
                             int64_t positions, bool transposed = false);
  CudnnGraph::Tensor logsumexp(const mprt_attention_desc &desc,
                               uint32_t number);
  CudnnGraph::Tensor keepCausal(CudnnGraph::Tensor scores,
                                const DnnDims &sizes);

  const Cudnn &library;
  CudnnGraph graph;
  std::vector<CudnnGraph::Plan> plans;
  std::vector<uint32_t> operands; ///< numbers of those in the graph
  bool isMasked = false, isGradient = false;
  float scale = 1;
  /// Of gradients: a sum for each row, at the begin of the workspace.
  uint64_t deltaBytes = 0;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_ATTENTIONPLAN_H
