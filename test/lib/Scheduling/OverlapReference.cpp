//===- OverlapReference.cpp - the best order by trying all ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The twin of scheduleExact(). It shares the simulation of one order with it.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapImpl.h"
#include "References.h"

using namespace mpcomm;
using namespace mpcomm::overlap;

/// All orders, by extending `prefix`; keeps the first of the fastest.
static void visitOrders(const StepGraph &graph,
                        std::vector<OverlapStep> &prefix,
                        std::vector<char> &done, OverlapSchedule &best,
                        bool &found) {
  if (prefix.size() == graph.steps) {
    if (!checkOrder(graph, prefix).empty() ||
        !checkConflicts(graph, prefix).empty() ||
        peakBytes(graph, prefix) > graph.problem.memoryBound)
      return;
    double seconds = simulateSteps(graph, prefix);
    if (found && seconds >= best.seconds)
      return;
    found = true;
    best.seconds = seconds;
    best.steps = prefix;
    return;
  }
  for (const OverlapStep &step : graph.input) {
    int number = graph.numberOf(step);
    if (done[number])
      continue;
    bool ready = true;
    if (step.kind == RankInstruction::Await)
      ready = done[beginOf(step.node)];
    else
      for (int before : graph.predecessors[step.node])
        ready &= bool(done[graph.endOf(before)]);
    if (!ready)
      continue;
    done[number] = true;
    prefix.push_back(step);
    visitOrders(graph, prefix, done, best, found);
    prefix.pop_back();
    done[number] = false;
  }
}

OverlapSchedule mpcomm::scheduleReference(const OverlapProblem &problem) {
  StepGraph graph(problem);
  OverlapSchedule best = scheduleInput(graph);
  std::vector<OverlapStep> prefix;
  std::vector<char> done(2 * problem.nodes.size(), false);
  bool found = false;
  visitOrders(graph, prefix, done, best, found);
  best.error = found ? ""
                     : "no order keeps the bound of " +
                           std::to_string(problem.memoryBound) + " bytes";
  if (found)
    best.peakBytes = peakBytes(graph, best.steps);
  best.unboundedSeconds = best.seconds;
  best.unboundedPeakBytes = best.peakBytes;
  return best;
}
