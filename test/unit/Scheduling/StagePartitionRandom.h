//===- StagePartitionRandom.h - graphs to cut into stages -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small random problems, and a large one of GPT-3's shape.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_STAGEPARTITIONRANDOM_H
#define MPCOMM_TEST_UNIT_SCHEDULING_STAGEPARTITIONRANDOM_H

#include "mpcomm/Scheduling/StagePartition/StagePartition.h"
#include <algorithm>
#include <random>

namespace mpcomm {

/// `value` as one that `op` reads and, with `keeps`, keeps.
inline void readValue(StagePartitionProblem &problem, int value, int op,
                      bool keeps = false) {
  problem.values[value].consumers.push_back(op);
  if (keeps)
    problem.values[value].keepers.push_back(op);
}

/// Up to `maxOps` ops; figures are small, so that ties are frequent, and each
/// kind of bound is there in some.
inline StagePartitionProblem makeRandomStages(unsigned seed, int maxOps = 9) {
  std::mt19937 engine(seed);
  auto upTo = [&](int most) { return int(engine() % unsigned(most + 1)); };
  auto oneIn = [&](int n) { return upTo(n - 1) == 0; };
  StagePartitionProblem problem;
  int n = 1 + upTo(maxOps - 1), p = 1 + upTo(std::min(n, 5) - 1);
  int mostSeconds = oneIn(3) ? 2 : 12, mostBytes = oneIn(3) ? 2 : 9;
  problem.stages.resize(p);
  problem.ops.resize(n);
  for (StagePartitionProblem::Op &op : problem.ops) {
    op.forward = upTo(mostSeconds);
    op.backwardInput = upTo(mostSeconds);
    op.backwardWeight = oneIn(2) ? upTo(mostSeconds) : 0;
    if (oneIn(50)) // not a whole number
      op.forward += 1e-3 * upTo(999);
  }
  for (int v = upTo(2 * n); v >= 0; --v) {
    StagePartitionProblem::Value value;
    value.producer = upTo(n) - 1;
    value.bytes = upTo(mostBytes);
    value.gradientBytes = oneIn(2) ? value.bytes : upTo(3);
    value.isBatch = value.producer < 0 && oneIn(2);
    for (int k = upTo(3); k > 0 && value.producer + 1 < n; --k)
      value.consumers.push_back(value.producer + 1 +
                                upTo(n - value.producer - 2));
    for (int k = upTo(3); k > 0; --k) {
      int begin = std::max(value.producer, 0);
      value.keepers.push_back(begin + upTo(n - 1 - begin));
    }
    problem.values.push_back(value);
  }
  for (int k = upTo(n); k > 0; --k) {
    StagePartitionProblem::Parameter parameter;
    parameter.bytes = upTo(mostBytes);
    parameter.reductionSeconds = oneIn(2) ? upTo(4) : 0;
    for (int u = oneIn(2) ? 0 : upTo(3); u >= 0; --u)
      parameter.users.push_back(upTo(n - 1));
    problem.parameters.push_back(parameter);
  }
  problem.linkLatency = oneIn(2) ? upTo(2) : 0;
  problem.linkSecondsPerByte = oneIn(3) ? 0 : 0.5 * upTo(4);
  problem.linkDuplex = !oneIn(3);
  problem.exposedShare = 0.25 * upTo(4);
  problem.boundaryBuffers = upTo(2);
  bool isBounded = oneIn(2), isEven = oneIn(2);
  for (int s = 0; s < p; ++s) {
    problem.stages[s].inFlight = isEven ? 1 : p - s;
    if (isBounded)
      problem.stages[s].memoryBytes = upTo(2 * mostBytes * n);
  }
  if (oneIn(3)) // mostly not contradictory
    for (int i = 0, s = 0; i < n; ++i) {
      s = std::min(p - 1, s + upTo(1));
      if (oneIn(4))
        problem.ops[i].stage = oneIn(20) ? upTo(p - 1) : s;
    }
  return problem;
}

/// A decoder of `numLayers` layers as GPT-3 175B has them, attention head by
/// head: 96 layers of it are 100k ops. Embedding and head share a parameter.
/// Sequence 2048, hidden 12288, 96 heads, vocabulary 50257, micro-batch 1, on
/// 2e14 flop/s and 2e12 byte/s; 2-byte values, 18 bytes a parameter in all.
inline StagePartitionProblem makeGPT(int numLayers, int numStages,
                                     int numHeads = 96) {
  constexpr double sequence = 2048, hidden = 12288, vocabulary = 50257;
  double width = hidden / numHeads;
  StagePartitionProblem problem;
  problem.stages.resize(numStages);
  auto addOp = [&](double flops, double bytes, bool hasWeight = false) {
    double seconds = std::max(flops / 2e14, bytes / 2e12) + 2e-6;
    problem.ops.push_back({seconds, seconds, hasWeight ? seconds : 0, -1});
    return int(problem.ops.size()) - 1;
  };
  auto addValue = [&](int producer, double elements, bool hasGradient = true) {
    StagePartitionProblem::Value value;
    value.bytes = int64_t(2 * elements);
    value.gradientBytes = hasGradient ? value.bytes : 0;
    value.producer = producer;
    problem.values.push_back(value);
    return int(problem.values.size()) - 1;
  };
  auto addParameter = [&](int user, double elements) {
    problem.parameters.push_back({int64_t(18 * elements), 0, {user}});
    return int(problem.parameters.size()) - 1;
  };
  double rows = sequence * hidden, scores = sequence * sequence;
  auto elementwise = [&](std::vector<int> operands, double elements,
                         bool keeps = true) {
    int op = addOp(0, 4 * elements);
    for (int value : operands)
      readValue(problem, value, op, keeps);
    return addValue(op, elements);
  };
  auto multiply = [&](int x, double inner, double outer) {
    int op = addOp(2 * sequence * inner * outer, 0, true);
    readValue(problem, x, op, true);
    addParameter(op, inner * outer);
    return addValue(op, sequence * outer);
  };
  int tokens = addValue(-1, 4 * sequence, false);
  problem.values[tokens].isBatch = true;
  int embed = addOp(0, 4 * rows);
  readValue(problem, tokens, embed, true);
  int tied = addParameter(embed, vocabulary * hidden);
  problem.parameters[tied].reductionSeconds = 2e-3;
  int positions = addOp(0, 4 * rows);
  addParameter(positions, rows);
  int x = elementwise({addValue(embed, rows), addValue(positions, rows)}, rows);
  int mask = addValue(-1, scores, false);
  for (int layer = 0; layer < numLayers; ++layer) {
    int y = elementwise({x}, rows);
    int query = multiply(y, hidden, hidden), key = multiply(y, hidden, hidden);
    int value = multiply(y, hidden, hidden);
    std::vector<int> heads;
    for (int head = 0; head < numHeads; ++head) {
      double part = sequence * width;
      int q = elementwise({query}, part, false);
      int k = elementwise({key}, part, false);
      int v = elementwise({value}, part, false);
      auto product = [&](int a, int b, double elements) {
        int op = addOp(2 * scores * width, 2 * elements);
        readValue(problem, a, op, true);
        readValue(problem, b, op, true);
        return addValue(op, elements);
      };
      int kt = elementwise({k}, part, false);
      int s = product(q, kt, scores);
      s = elementwise({s}, scores, false);
      s = elementwise({s, mask}, scores, false);
      s = elementwise({s}, scores);
      s = elementwise({s}, scores);
      int c = product(s, v, part);
      heads.push_back(elementwise({c}, part, false));
    }
    int context = elementwise(heads, rows, false);
    x = elementwise({x, multiply(context, hidden, hidden)}, rows, false);
    y = multiply(elementwise({x}, rows), hidden, 4 * hidden);
    y = multiply(elementwise({y}, 4 * rows), 4 * hidden, hidden);
    x = elementwise({x, y}, rows, false);
  }
  int last = elementwise({x}, rows);
  int logits = addOp(2 * rows * vocabulary, 0, true);
  readValue(problem, last, logits, true);
  problem.parameters[tied].users.push_back(logits);
  int scored = addValue(logits, sequence * vocabulary);
  addValue(addOp(0, 2 * sequence * vocabulary), 1);
  readValue(problem, scored, logits + 1, true);
  return problem;
}

} // namespace mpcomm

#endif // MPCOMM_TEST_UNIT_SCHEDULING_STAGEPARTITIONRANDOM_H
