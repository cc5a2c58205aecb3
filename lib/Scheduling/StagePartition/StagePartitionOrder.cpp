//===- StagePartitionOrder.cpp - an order to cut stages from --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op that does not depend on the batch floats to its first consumer, with
// what it alone reads, where what they read besides has no more bytes than what
// it makes: bytes that are then needed for longer replace those that are needed
// for less long. Proof: docs/Design/StagePartition.md
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/StagePartition/StagePartition.h"
#include <algorithm>

using namespace mpcomm;

using Value = StagePartitionProblem::Value;

namespace {

/// Bytes of values, and of their gradients.
struct Bytes {
  int64_t forward = 0, gradient = 0;
  Bytes &operator+=(const Bytes &other) {
    forward += other.forward;
    gradient += other.gradient;
    return *this;
  }
};

/// Who reads whose values. What an op itself makes and keeps is left out.
class Readers {
public:
  explicit Readers(const StagePartitionProblem &problem)
      : problem(problem), operands(problem.ops.size()),
        soleReader(problem.ops.size(), nobody), made(problem.ops.size()),
        readsBatch(problem.ops.size(), false) {
    for (size_t v = 0; v < problem.values.size(); ++v)
      add(int(v));
  }

  /// Which ops float.
  std::vector<bool> findFloats() const {
    size_t n = problem.ops.size();
    std::vector<bool> floats(n, false);
    // Bytes of what an op and those that it alone reads need besides.
    std::vector<Bytes> needs(n);
    std::vector<int> alone;
    for (size_t op = 0; op < n; ++op) {
      floats[op] = !readsBatch[op] && soleReader[op] != nobody &&
                   problem.ops[op].stage < 0;
      alone.clear();
      for (int v : operands[op]) {
        const Value &value = problem.values[v];
        floats[op] = floats[op] && floats[value.producer];
        if (soleReader[value.producer] == int(op))
          alone.push_back(value.producer);
        else
          needs[op] += {value.bytes, value.gradientBytes};
      }
      std::sort(alone.begin(), alone.end());
      alone.erase(std::unique(alone.begin(), alone.end()), alone.end());
      for (int producer : alone)
        needs[op] += needs[producer];
      floats[op] = floats[op] && needs[op].forward <= made[op].forward &&
                   needs[op].gradient <= made[op].gradient;
    }
    return floats;
  }

  /// The values of other ops that `op` reads, each once.
  const std::vector<int> &operandsOf(int op) const { return operands[op]; }

private:
  static constexpr int nobody = -1, several = -2;

  void add(int v) {
    const Value &value = problem.values[v];
    std::vector<int> readers = value.consumers;
    readers.insert(readers.end(), value.keepers.begin(), value.keepers.end());
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    std::erase(readers, value.producer);
    for (int op : readers) {
      if (value.isBatch)
        readsBatch[op] = true;
      if (value.producer < 0)
        continue;
      operands[op].push_back(v);
      int &reader = soleReader[value.producer];
      reader = reader == nobody || reader == op ? op : several;
    }
    if (value.producer >= 0 && !readers.empty())
      made[value.producer] += {value.bytes, value.gradientBytes};
  }

  const StagePartitionProblem &problem;
  std::vector<std::vector<int>> operands;
  /// By op: the only op that reads its values.
  std::vector<int> soleReader;
  /// Of what others read.
  std::vector<Bytes> made;
  std::vector<bool> readsBatch;
};

} // namespace

std::vector<int>
mpcomm::arrangeForStages(const StagePartitionProblem &problem) {
  int n = int(problem.ops.size());
  Readers readers(problem);
  std::vector<bool> floats = readers.findFloats();
  // Each op that stays, after the floats that it needs and that have no place
  // yet.
  std::vector<int> order, stack;
  std::vector<bool> placed(n, false);
  std::vector<size_t> next(n, 0);
  for (int op = 0; op < n; ++op) {
    if (floats[op])
      continue;
    stack.push_back(op);
    while (!stack.empty()) {
      int top = stack.back();
      size_t height = stack.size();
      const std::vector<int> &operands = readers.operandsOf(top);
      while (next[top] < operands.size() && stack.size() == height) {
        int producer = problem.values[operands[next[top]++]].producer;
        if (!placed[producer])
          stack.push_back(producer);
      }
      if (stack.size() > height)
        continue;
      stack.pop_back();
      if (!placed[top])
        order.push_back(top);
      placed[top] = true;
    }
  }
  return order;
}

StagePartitionProblem mpcomm::reorder(const StagePartitionProblem &problem,
                                      const std::vector<int> &order) {
  StagePartitionProblem result = problem;
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = int(i);
    result.ops[i] = problem.ops[order[i]];
  }
  auto move = [&](std::vector<int> &ops) {
    for (int &op : ops)
      op = place[op];
  };
  for (Value &value : result.values) {
    if (value.producer >= 0)
      value.producer = place[value.producer];
    move(value.consumers);
    move(value.keepers);
  }
  for (StagePartitionProblem::Parameter &parameter : result.parameters)
    move(parameter.users);
  return result;
}
