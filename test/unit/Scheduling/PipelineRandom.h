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

#include "mpcomm/Scheduling/PipelineSchedule/PipelineScheduling.h"
#include <algorithm>
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
  PipelineCandidate candidate(int p, int m, const PipelinePlacement &placement,
                              bool tight = false) {
    PipelineCandidate made;
    made.microbatches = m;
    made.placement = placement;
    int most = oneIn(3) ? 3 : 9, stages = int(placement.size());
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
      for (const std::vector<int> &own : made.shape(p).stagesByRank()) {
        int64_t one = 0;
        for (int stage : own)
          one += memory.activation(stage);
        memory.fixed.push_back(upTo(3));
        memory.limits.push_back(memory.fixed.back() + one +
                                upTo(tight ? 1 : int(one) * (p + 1)));
      }
    }
    return made;
  }

  /// A stage for each of p ranks, and `more` anywhere, in any order.
  PipelinePlacement placement(int p, int more) {
    PipelinePlacement made = makeLoopPlacement(p, 1);
    for (; more > 0; --more)
      made.push_back(upTo(p - 1));
    std::shuffle(made.begin(), made.end(), engine);
    return made;
  }

  /// 2 to 5 ranks, up to 8 micro-batches, one or two stages a rank in the usual
  /// places, or up to p more stages than ranks in any.
  PipelineProblem problem() {
    PipelineProblem made;
    made.stages = 2 + upTo(3);
    int microbatches = 1 + upTo(7), chunks = 1 + upTo(1);
    PipelinePlacement stages;
    switch (upTo(2)) {
    case 0:
      stages = makeVPlacement(made.stages, chunks);
      break;
    case 1:
      stages = makeLoopPlacement(made.stages, chunks);
      break;
    default:
      stages = placement(made.stages, upTo(made.stages));
    }
    made.candidates = {candidate(made.stages, microbatches, stages)};
    return made;
  }

private:
  std::mt19937 engine;
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_PIPELINERANDOM_H
