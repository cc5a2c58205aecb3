//===- CommunicationProofMutation.h - one op goes wrong ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What turns programs that are right into wrong ones: one op is dropped, or
// changes places, time, type or size, for all ranks of a class or for one.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFMUTATION_H
#define MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFMUTATION_H

#include "mpcomm/Scheduling/CommunicationProof/CommunicationProof.h"
#include <algorithm>
#include <random>

namespace mpcomm::test {

class Mutator {
public:
  explicit Mutator(uint32_t seed) : random(seed) {}

  enum Mutation { Drop, Swap, Reorder, Retype, Resize };
  static constexpr int mutations = 5;
  static const char *nameOf(int mutation) {
    const char *names[] = {"drop", "swap", "reorder", "retype", "resize"};
    return names[mutation];
  }

  /// Changes one op of a class, or of one rank of it, which is then a class of
  /// its own. Returns false if there was nothing to change.
  bool mutate(ProofProblem &problem, int mutation) {
    int c = below(int(problem.classes.size()));
    if (below(2))
      c = splitRank(problem, c);
    ProofProgram &program = problem.classes[c].program;
    if (program.collectives.empty())
      return false;
    int size = int(program.collectives.size()), k = below(size);
    auto &instructions = program.instructions;
    auto place = [&](RankInstruction::Kind kind) {
      for (size_t i = 0; i < instructions.size(); ++i)
        if (instructions[i].collective == k && instructions[i].kind == kind)
          return int(i);
      return int(instructions.size());
    };
    int start = place(RankInstruction::Start);
    int await = place(RankInstruction::Await);
    ProofOp &changed = program.collectives[k];
    bool barrier = changed.kind == ProofKind::Barrier;
    switch (mutation) {
    case Drop:
      instructions.erase(
          std::remove_if(instructions.begin(), instructions.end(),
                         [&](const auto &i) { return i.collective == k; }),
          instructions.end());
      return true;
    case Swap: {
      int other = below(size);
      std::swap(changed, program.collectives[other]);
      return other != k;
    }
    case Reorder: {
      // The start to an earlier or later place before its await, or the await.
      bool starts = await == int(instructions.size()) || below(2);
      int from = starts ? start : await;
      int low = starts ? 0 : start + 1;
      int high = starts ? await : int(instructions.size());
      int to = low + below(high - low);
      RankInstruction moved = instructions[from];
      instructions.erase(instructions.begin() + from);
      instructions.insert(instructions.begin() + to, moved);
      return to != from;
    }
    case Retype: {
      if (barrier)
        return false;
      bool isReduction = !changed.reduction.empty();
      switch (below(isReduction ? 4 : 2)) {
      case 0:
        changed.type = "bf16";
        break;
      case 1:
        changed.wire = "bf16";
        break;
      case 2:
        changed.reduction = "sum";
        break;
      default:
        changed.accumulate = "f64";
      }
      return true;
    }
    default:
      changed.count += 1;
      return !barrier;
    }
  }

  /// Gives the ranks of a class to another one.
  void merge(ProofProblem &problem) {
    int from = below(int(problem.classes.size()));
    int to = below(int(problem.classes.size()));
    if (from == to)
      return;
    std::vector<ProofBox> &boxes = problem.classes[to].boxes;
    for (const ProofBox &box : problem.classes[from].boxes)
      boxes.push_back(box);
    problem.classes.erase(problem.classes.begin() + from);
  }

private:
  int below(int n) { return int(random() % uint32_t(n)); }

  /// Makes a class of one rank of class `c`, if it has more.
  int splitRank(ProofProblem &problem, int c) {
    std::vector<ProofBox> &boxes = problem.classes[c].boxes;
    int b = below(int(boxes.size()));
    ProofBox box = boxes[b];
    std::vector<ProofBox> rest;
    for (size_t a = 0; a < box.begin.size(); ++a) {
      int64_t x = box.begin[a] + below(int(box.end[a] - box.begin[a]));
      ProofBox before = box, after = box;
      before.end[a] = x;
      after.begin[a] = x + 1;
      if (before.begin[a] < before.end[a])
        rest.push_back(before);
      if (after.begin[a] < after.end[a])
        rest.push_back(after);
      box.begin[a] = x;
      box.end[a] = x + 1;
    }
    if (rest.empty() && boxes.size() == 1)
      return c;
    boxes.erase(boxes.begin() + b);
    boxes.insert(boxes.end(), rest.begin(), rest.end());
    ProofClass alone = problem.classes[c];
    alone.name += ", one rank";
    alone.boxes = {box};
    problem.classes.push_back(alone);
    return int(problem.classes.size()) - 1;
  }

  std::mt19937 random;
};

} // namespace mpcomm::test

#endif // MPCOMM_TEST_UNIT_SCHEDULING_COMMUNICATIONPROOFMUTATION_H
