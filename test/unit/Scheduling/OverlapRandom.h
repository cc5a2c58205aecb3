//===- OverlapRandom.h - random overlap problems ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_OVERLAPRANDOM_H
#define MPCOMM_TEST_UNIT_SCHEDULING_OVERLAPRANDOM_H

#include "mpcomm/Scheduling/Overlap/Overlap.h"
#include <random>

namespace mpcomm::test {

inline int below(std::mt19937 &random, int n) { return int(random() % n); }

inline OverlapProblem::Node compute(double seconds) {
  OverlapProblem::Node node;
  node.seconds = seconds;
  return node;
}

inline OverlapProblem::Node collective(int stream, double latency,
                                       double transfer,
                                       int64_t stagingBytes = 0) {
  OverlapProblem::Node node;
  node.stream = stream;
  node.latency = latency;
  node.transfer = transfer;
  node.link = 0;
  node.stagingBytes = stagingBytes;
  return node;
}

/// A bound between what the input takes and a little less than what it takes
/// with every await delayed; or none.
inline void randomBound(std::mt19937 &random, OverlapProblem &problem) {
  if (below(random, 2) == 0)
    return;
  problem.memoryBound =
      problem.peakBytes(problem.inputSteps()) + below(random, 4);
}

/// Any graph: `computes` pieces of computation, `collectives` among them.
inline OverlapProblem randomProblem(std::mt19937 &random, int computes,
                                    int collectives, bool slows) {
  OverlapProblem problem;
  problem.links = {{slows}};
  int streams = 1 + below(random, 2);
  for (int s = 0; s < streams; ++s)
    problem.streams.push_back({below(random, 4) == 0});
  if (streams == 2 && below(random, 3) == 0)
    problem.conflicts = {{0, 1}};
  if (slows && below(random, 2))
    problem.computeRateUnderComm = 0.75;
  if (slows && below(random, 2))
    problem.commRateUnderCompute = 0.5;
  int size = computes + collectives;
  for (int n = 0; n < size; ++n) {
    bool communicates = below(random, size - n) < collectives;
    collectives -= communicates;
    problem.nodes.push_back(
        communicates ? collective(below(random, streams), below(random, 2),
                                  below(random, 8), below(random, 4))
                     : compute(below(random, 6)));
    for (int p = 0; p < n; ++p)
      if (below(random, 6) == 0)
        problem.nodes.back().after.push_back(p);
    OverlapProblem::Value value;
    value.producer = n;
    value.bytes = below(random, 5);
    value.output = below(random, 6) == 0;
    problem.values.push_back(value);
    for (int uses = below(random, 3); uses > 0 && n > 0; --uses)
      problem.values[below(random, n)].users.push_back(n);
  }
  problem.values.push_back({below(random, 5), -1, {below(random, size)}});
  randomBound(random, problem);
  return problem;
}

/// A backward pass as automatic differentiation writes it: of each layer the
/// gradient of its input, then that of its weights, an all_reduce of that and
/// the optimizer's step after all of it.
inline OverlapProblem backward(std::mt19937 &random, int layers) {
  OverlapProblem problem;
  problem.links = {{true}};
  problem.streams = {{false}};
  auto add = [&](OverlapProblem::Node node, std::vector<int> operands,
                 int64_t bytes, bool output = false) {
    int n = int(problem.nodes.size());
    problem.nodes.push_back(node);
    problem.values.push_back({bytes, n, {}, output});
    for (int operand : operands)
      problem.values[operand].users.push_back(n);
    return n;
  };
  int gradient = add(compute(1 + below(random, 3)), {}, 2);
  std::vector<int> reduced;
  for (int l = 0; l < layers; ++l) {
    int input = add(compute(1 + below(random, 4)), {gradient}, 2);
    int weights =
        add(compute(1 + below(random, 4)), {gradient}, 1 + below(random, 6));
    reduced.push_back(add(collective(0, 0.5, 0.5 * below(random, 12)),
                          {weights}, problem.values[weights].bytes));
    gradient = input;
  }
  for (int sum : reduced)
    add(compute(0.25 * below(random, 4)), {sum}, 1, /*output=*/true);
  return problem;
}

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_OVERLAPRANDOM_H
