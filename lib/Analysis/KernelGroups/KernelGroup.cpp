//===- KernelGroup.cpp - loop nests that one kernel runs ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One group at a time: whether it is a kernel, what it reads and writes, and
// two groups as one.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mpcomm;
using llvm::SmallVector;

int KernelProblem::stripViews(int value) const {
  for (;;) {
    int maker = values[value].maker;
    if (maker < 0 || ops[maker].kind != OpKind::View || ops[maker].source < 0)
      return value;
    value = ops[maker].source;
  }
}

LoopIndex KernelMember::map(const LoopIndex &index) const {
  LoopIndex mapped(index);
  for (int64_t &loop : mapped)
    if (loop >= 0)
      loop = loops[loop];
  return mapped;
}

KernelGroup KernelGroup::get(const KernelProblem &problem, int op) {
  KernelGroup group;
  group.space = problem.getNest(op).sizes;
  group.slot = op;
  group.members.push_back(
      {op, llvm::to_vector(llvm::seq<int64_t>(0, group.space.size()))});
  return group;
}

bool mpcomm::isAccumulated(const KernelProblem &problem,
                           const KernelGroup &group,
                           const KernelMember &member) {
  int64_t last = static_cast<int64_t>(group.space.size()) - 1;
  for (auto [loop, isReduction] :
       llvm::zip_equal(member.loops, problem.getNest(member.op).isReduction))
    if (isReduction && loop != last)
      return true;
  return false;
}

/// Whether the member runs over a leading part of the loops, in order.
static bool runsOverPrefix(const KernelMember &member) {
  return llvm::equal(member.loops, llvm::seq<int64_t>(0, member.loops.size()));
}

std::string mpcomm::checkGroup(const KernelProblem &problem,
                               const KernelGroup &group,
                               IsUsedOutside isUsedOutside) {
  struct Maker {
    const KernelMember *member;
    const LoopNest::Write *write;
  };
  llvm::SmallDenseMap<int, Maker> makers; // by value
  for (const KernelMember &member : group.members) {
    const LoopNest &nest = problem.getNest(member.op);
    for (const LoopNest::Read &read : nest.reads) {
      auto maker = makers.find(read.value);
      if (maker == makers.end())
        continue;
      if (isAccumulated(problem, group, *maker->second.member))
        return "reads a sum over rows that is not complete";
      if (member.map(read.index) !=
          maker->second.member->map(maker->second.write->index))
        return "reads a tensor of its own kernel in another order";
    }
    for (int captured : nest.captured)
      if (makers.contains(captured))
        return "extracts from a tensor of its own kernel";
    for (const LoopNest::Write &write : nest.writes)
      if (write.readsInit && makers.contains(write.init))
        return "starts from a tensor of its own kernel";
    auto isNeeded = [&](const LoopNest::Write &write) {
      return isUsedOutside(write.value);
    };
    if (!runsOverPrefix(member) &&
        (!nest.isCheap || llvm::any_of(nest.writes, isNeeded)))
      return "would be computed once per row";
    for (const LoopNest::Write &write : nest.writes)
      makers[write.value] = {&member, &write};
  }
  return "";
}

namespace {

/// Which loop of one space is which of another.
class Correspondence {
public:
  explicit Correspondence(size_t numFirst, size_t numSecond)
      : toSecond(numFirst, -1), toFirst(numSecond, -1) {}

  /// Notes that both indices touch the same element. False if they cannot.
  bool add(const LoopIndex &first, const LoopIndex &second) {
    if (first.size() != second.size())
      return false;
    for (auto [a, b] : llvm::zip_equal(first, second)) {
      if (a < 0 && b < 0 && a == b)
        continue;
      if (a < 0 || b < 0)
        return false;
      if (toSecond[a] < 0 && toFirst[b] < 0) {
        toSecond[a] = b;
        toFirst[b] = a;
      }
      if (toSecond[a] != b || toFirst[b] != a)
        return false;
    }
    return true;
  }
  /// The same for operands that need not be read in the same way.
  void suggest(const LoopIndex &first, const LoopIndex &second) {
    Correspondence copy = *this;
    if (copy.add(first, second))
      *this = std::move(copy);
  }

  SmallVector<int64_t> toSecond, toFirst;
};

/// Every access of a group to a tensor, by tensor.
struct Accesses {
  struct Access {
    LoopIndex index;
    bool isWrite;
  };
  llvm::MapVector<int, SmallVector<Access, 1>> byTensor;

  Accesses(const KernelProblem &problem, const KernelGroup &group) {
    for (const KernelMember &member : group.members) {
      const LoopNest &nest = problem.getNest(member.op);
      for (const LoopNest::Read &read : nest.reads)
        byTensor[read.value].push_back({member.map(read.index), false});
      for (const LoopNest::Write &write : nest.writes)
        byTensor[write.value].push_back({member.map(write.index), true});
    }
  }
};

} // namespace

/// The correspondence of loops, or nothing where an intermediate would be read
/// in another order than it is written in.
static std::optional<Correspondence> correspond(const KernelProblem &problem,
                                                const KernelGroup &first,
                                                const KernelGroup &second) {
  Accesses left(problem, first), right(problem, second);
  Correspondence loops(first.space.size(), second.space.size());
  auto isWrite = [](const Accesses::Access &access) { return access.isWrite; };
  for (bool intermediates : {true, false}) {
    for (auto &[tensor, accesses] : left.byTensor) {
      auto it = right.byTensor.find(tensor);
      if (it == right.byTensor.end())
        continue;
      bool isIntermediate =
          llvm::any_of(accesses, isWrite) || llvm::any_of(it->second, isWrite);
      if (isIntermediate != intermediates)
        continue;
      for (const auto &a : accesses)
        for (const auto &b : it->second) {
          if (!isIntermediate)
            loops.suggest(a.index, b.index);
          else if (!loops.add(a.index, b.index))
            return std::nullopt;
        }
    }
  }
  return loops;
}

std::optional<KernelGroup> mpcomm::unite(const KernelProblem &problem,
                                         const KernelGroup &first,
                                         const KernelGroup &second) {
  std::optional<Correspondence> loops = correspond(problem, first, second);
  if (!loops)
    return std::nullopt;
  bool firstIsLarger = first.space.size() >= second.space.size();
  const KernelGroup &large = firstIsLarger ? first : second;
  const KernelGroup &small = firstIsLarger ? second : first;
  SmallVector<int64_t> place = firstIsLarger ? loops->toFirst : loops->toSecond;
  bool sameRank = first.space.size() == second.space.size();
  for (auto [i, loop] : llvm::enumerate(place)) {
    if (loop < 0 && sameRank)
      loop = i;
    if (loop < 0 || large.space[loop] != small.space[i])
      return std::nullopt;
    if (sameRank && loop != static_cast<int64_t>(i))
      return std::nullopt;
  }
  KernelGroup united = large;
  united.slot = first.slot;
  for (KernelMember member : small.members) {
    for (int64_t &loop : member.loops)
      loop = place[loop];
    united.members.push_back(std::move(member));
  }
  llvm::sort(united.members, [](const KernelMember &a, const KernelMember &b) {
    return a.op < b.op;
  });
  return united;
}

int64_t KernelOperands::countBytes(const KernelProblem &problem) const {
  int64_t bytes = 0;
  for (int value : inputs)
    bytes += problem.values[value].bytes;
  for (int value : outputs)
    bytes += problem.values[value].bytes;
  return bytes;
}

KernelOperands mpcomm::getOperands(const KernelProblem &problem,
                                   const KernelGroup &group,
                                   IsUsedOutside isUsedOutside) {
  KernelOperands operands;
  llvm::SmallDenseSet<int> own;
  auto read = [&](int value) {
    if (!own.contains(value) && !problem.values[value].isUniform)
      operands.inputs.insert(value);
  };
  for (const KernelMember &member : group.members) {
    const LoopNest &nest = problem.getNest(member.op);
    for (const LoopNest::Read &input : nest.reads)
      read(input.value);
    for (const LoopNest::Write &write : nest.writes)
      if (write.readsInit)
        read(write.init);
    for (int captured : nest.captured)
      read(captured);
    for (const LoopNest::Write &write : nest.writes) {
      own.insert(write.value);
      if (write.readsInit || isUsedOutside(write.value))
        operands.outputs.insert(write.value);
    }
  }
  return operands;
}
