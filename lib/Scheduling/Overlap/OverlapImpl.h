//===- OverlapImpl.h - steps, their dependencies and memory -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The overlap problem as its algorithms see it: steps with edges between them,
// and values that are born at a step and die after the last of some steps.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPIMPL_H
#define MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPIMPL_H

#include "mpcomm/Scheduling/Overlap/Overlap.h"

namespace mpcomm::overlap {

/// Steps have numbers: 2 n runs or starts node n, 2 n + 1 awaits it.
inline int beginOf(int node) { return 2 * node; }
inline int nodeOf(int step) { return step / 2; }

struct StepGraph {
  explicit StepGraph(const OverlapProblem &problem);

  bool isCollective(int node) const { return problem.nodes[node].stream >= 0; }
  int endOf(int node) const { return 2 * node + isCollective(node); }
  int numberOf(const OverlapStep &step) const {
    return 2 * step.node + (step.kind == RankInstruction::Await);
  }
  OverlapStep stepOf(int number) const {
    return {number % 2                 ? RankInstruction::Await
            : isCollective(number / 2) ? RankInstruction::Start
                                       : RankInstruction::Compute,
            number / 2};
  }
  double secondsOf(int node) const {
    const OverlapProblem::Node &n = problem.nodes[node];
    return isCollective(node) ? n.latency + n.transfer : n.seconds;
  }

  const OverlapProblem &problem;
  std::vector<OverlapStep> input; // spelled out
  size_t steps = 0;               // how many there are (numbers leave gaps)

  /// Between nodes: what the values and `after` say; each pair once.
  std::vector<std::vector<int>> predecessors, successors;
  /// Of a collective: the one that must start before and the one after it on
  /// a stream that keeps its order; -1: none.
  std::vector<int> startsAfter, startsBefore;

  struct Life {
    int64_t bytes;
    int birth;               // step; -1: before the first
    std::vector<int> deaths; // it dies after the last of them; empty: never
  };
  std::vector<Life> values;
  std::vector<std::vector<int>> births, deaths; // values, by step
  std::vector<std::vector<int>> conflicts;      // streams, by stream
  int64_t staticBytes = 0; // and of the values that are there at first
};

/// Empty if each step occurs once and after what it depends on (and, on the
/// streams that keep their order, as in the input), else what is wrong.
std::string checkOrder(const StepGraph &graph,
                       const std::vector<OverlapStep> &steps);
/// Empty if no two collectives of conflicting streams are in flight.
std::string checkConflicts(const StepGraph &graph,
                           const std::vector<OverlapStep> &steps);
int64_t peakBytes(const StepGraph &graph,
                  const std::vector<OverlapStep> &steps);
double simulateSteps(const StepGraph &graph,
                     const std::vector<OverlapStep> &steps);

/// Seconds that must pass before a node begins, and after it ended.
struct HeadsAndTails {
  explicit HeadsAndTails(const StepGraph &graph);
  std::vector<double> head, tail;
};

/// Computation that comes before (after) `node`: of all nodes it depends on
/// (that depend on it).
double computeAround(const StepGraph &graph, int node, bool before);

/// A schedule with what is known of its input filled in; `error` is set where
/// the input and its synchronous form break the bound or a conflict, else
/// `steps` are the better of those that do not.
OverlapSchedule scheduleInput(const StepGraph &graph);

} // namespace mpcomm::overlap

#endif // MPCOMM_LIB_SCHEDULING_OVERLAP_OVERLAPIMPL_H
