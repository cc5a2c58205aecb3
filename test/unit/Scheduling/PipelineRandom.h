//===- PipelineRandom.h - random pipelines ----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instances by seed. Times are small whole numbers, so sums are exact and ties
// are many.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_PIPELINERANDOM_H
#define MPCOMM_TEST_UNIT_SCHEDULING_PIPELINERANDOM_H

#include "mpcomm/Scheduling/PipelineScheduling.h"
#include <random>

namespace mpcomm::test {

class PipelineRandom {
public:
  explicit PipelineRandom(unsigned seed) : engine(seed) {}
  int upTo(int most) { return int(engine() % unsigned(most + 1)); }
  bool oneIn(int n) { return upTo(n - 1) == 0; }

  /// Costs of every stage drawn alone; transfers in half, ends in a quarter and
  /// memory limits in half of them; `tight` ones in all if asked for. One
  /// micro-batch always fits.
  PipelineCandidate candidate(int p, int m, int chunks,
                              PipelinePlacement placement, bool tight = false) {
    PipelineCandidate made;
    made.microbatches = m;
    made.chunks = chunks;
    made.placement = placement;
    int most = oneIn(3) ? 3 : 9, stages = p * chunks;
    for (int s = 0; s < stages; ++s)
      made.costs.stages.push_back(
          {double(1 + upTo(most)), double(1 + upTo(most)), double(upTo(most))});
    if (oneIn(2))
      for (int e = 0; e + 1 < stages; ++e) {
        made.costs.forwardTransfer.push_back(upTo(most));
        made.costs.backwardTransfer.push_back(upTo(most));
      }
    if (oneIn(4))
      for (int r = 0; r < p; ++r)
        made.costs.after.push_back(upTo(2 * most));
    if (tight || oneIn(2)) {
      PipelineMemory &memory = made.memory;
      for (int s = 0; s < stages; ++s) {
        memory.activations.push_back(1 + upTo(4));
        memory.held.push_back(upTo(int(memory.activations.back())));
      }
      PipelineSchedule shape = made.shape(p);
      for (int r = 0; r < p; ++r) {
        int64_t one = 0;
        for (int chunk = 0; chunk < chunks; ++chunk)
          one += memory.activation(shape.stageOf(r, chunk));
        memory.fixed.push_back(upTo(3));
        memory.limits.push_back(memory.fixed.back() + one +
                                upTo(tight ? 1 : int(one) * (p + 1)));
      }
    }
    return made;
  }

  /// 2 to 5 ranks, up to 8 micro-batches, one or two stages a rank.
  PipelineProblem problem() {
    PipelineProblem made;
    made.stages = 2 + upTo(3);
    int microbatches = 1 + upTo(7), chunks = 1 + upTo(1);
    made.candidates = {
        candidate(made.stages, microbatches, chunks,
                  oneIn(2) ? PipelinePlacement::V : PipelinePlacement::Loop)};
    return made;
  }

private:
  std::mt19937 engine;
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_PIPELINERANDOM_H
