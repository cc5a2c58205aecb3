//===- KernelGroups.cpp - which loop nests run in one kernel --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace mpcomm;
using llvm::SmallVector;
using OpKind = KernelProblem::OpKind;

/// Groups with more members than this grow no further.
static constexpr size_t kMaxMembers = 128;

/// Later than every slot.
static constexpr int kNever = std::numeric_limits<int>::max();

KernelGroups::KernelGroups(const KernelProblem &problem, unsigned maxOperands)
    : problem(problem), maxOperands(maxOperands),
      groupOf(problem.ops.size(), -1) {
  for (int op = 0, e = static_cast<int>(problem.ops.size()); op < e; ++op)
    if (problem.isNest(op)) {
      groupOf[op] = static_cast<int>(groups.size());
      groups.push_back(KernelGroup::get(problem, op));
    }
}

std::vector<int> KernelGroups::getGroups() const {
  std::vector<int> sorted;
  for (auto [i, group] : llvm::enumerate(groups))
    if (!group.members.empty())
      sorted.push_back(static_cast<int>(i));
  llvm::sort(sorted,
             [&](int a, int b) { return groups[a].slot < groups[b].slot; });
  return sorted;
}

int KernelGroups::getSlot(int value) const {
  int maker = problem.values[problem.stripViews(value)].maker;
  if (maker < 0 || problem.ops[maker].kind == OpKind::View ||
      problem.ops[maker].kind == OpKind::Init)
    return -1;
  return getSlotOfOp(maker);
}

/// Calls `visit` with each op that needs `value`, through views, until it
/// returns true; -1 stands for one in another block. Whether it did.
bool KernelGroups::anyUser(int value,
                           llvm::function_ref<bool(int)> visit) const {
  return llvm::any_of(problem.values[value].users, [&](int op) {
    if (op < 0 || problem.ops[op].kind != OpKind::View)
      return visit(op);
    return llvm::any_of(problem.ops[op].results,
                        [&](int result) { return anyUser(result, visit); });
  });
}

int KernelGroups::getFirstUse(int a, int b, int value) const {
  int first = kNever;
  (void)anyUser(value, [&](int op) {
    int group = lookup(op);
    // What another block uses, the block's end is early enough for.
    if (op >= 0 && (group < 0 || (group != a && group != b)))
      first = std::min(first, getSlotOfOp(op));
    return false;
  });
  return first;
}

int KernelGroups::getLastUse(int group, int value) const {
  int last = -1;
  (void)anyUser(value, [&](int op) {
    if (op < 0)
      last = kNever;
    else if (lookup(op) != group || group < 0)
      last = std::max(last, getSlotOfOp(op));
    return last == kNever;
  });
  return last;
}

bool KernelGroups::hasUseOutside(int group, int value) const {
  int own = getGroupOfMaker(value);
  return anyUser(value, [&](int op) {
    int user = lookup(op);
    return user < 0 || (user != group && user != own);
  });
}

bool KernelGroups::isUsedOutside(int group, int value) const {
  return llvm::any_of(problem.values[value].users, [&](int op) {
    return op < 0 || group < 0 || lookup(op) != group;
  });
}

KernelOperands KernelGroups::getOperands(int group) const {
  return mpcomm::getOperands(problem, groups[group], [&](int value) {
    return isUsedOutside(group, value);
  });
}

std::optional<int> KernelGroups::findSlot(int first, int second,
                                          bool mayHoist) const {
  int lower = -1, upper = kNever;
  auto isOwn = [&](int value) {
    int group = getGroupOfMaker(value);
    return group >= 0 && (group == first || group == second);
  };
  for (int group : {first, second})
    for (const KernelMember &member : groups[group].members) {
      auto need = [&](int value) {
        if (isOwn(value))
          return;
        // A view of a tensor of one's own is no intermediate: the kernel would
        // have to have run.
        lower = std::max(
            lower, isOwn(problem.stripViews(value)) ? kNever : getSlot(value));
      };
      const LoopNest &nest = problem.getNest(member.op);
      for (const LoopNest::Read &read : nest.reads)
        need(read.value);
      for (int captured : nest.captured)
        need(captured);
      for (const LoopNest::Write &write : nest.writes) {
        if (write.init >= 0)
          need(write.init);
        upper = std::min(upper, getFirstUse(first, second, write.value));
      }
    }
  int late = std::max(groups[first].slot, groups[second].slot);
  int early = std::min(groups[first].slot, groups[second].slot);
  if (lower < late && late < upper)
    return late;
  if (mayHoist && lower < early && early < upper)
    return early;
  return std::nullopt;
}

bool KernelGroups::isWorthwhile(int first, int second) const {
  KernelOperands left = getOperands(first), right = getOperands(second);
  int64_t shared = 0;
  for (int value : right.inputs)
    if (left.outputs.contains(value) || left.inputs.contains(value))
      shared += problem.values[value].bytes;
  for (int value : left.inputs)
    if (right.outputs.contains(value))
      shared += problem.values[value].bytes;
  if (groups[first].space.empty() != groups[second].space.empty())
    return true;
  int64_t smaller =
      std::min(left.countBytes(problem), right.countBytes(problem));
  return shared > 0 && shared * 8 >= smaller;
}

bool KernelGroups::areTied(int first, int second) const {
  // Scalars of the whole step would tie kernels together for nothing.
  if (groups[first].space.empty() == groups[second].space.empty())
    return true;
  int scalars = groups[first].space.empty() ? first : second;
  auto isOfThese = [&](int op) {
    int group = lookup(op);
    return group >= 0 && (group == first || group == second);
  };
  return llvm::all_of(groups[scalars].members, [&](const KernelMember &member) {
    return llvm::all_of(problem.ops[member.op].results, [&](int result) {
      return llvm::all_of(problem.values[result].users, isOfThese);
    });
  });
}

bool KernelGroups::tryMerge(int first, int second, bool mayHoist) {
  auto isScatter = [&](int group) {
    return problem.getNest(groups[group].members.front().op).isScatter;
  };
  if (first == second || isScatter(first) || isScatter(second) ||
      groups[first].members.size() + groups[second].members.size() >
          kMaxMembers ||
      !areTied(first, second))
    return false;
  std::optional<int> slot = findSlot(first, second, mayHoist);
  if (!slot)
    return false;
  // What was stored in 8 bits would be written wide where it is made, besides.
  const KernelGroup &late =
      groups[groups[first].slot < groups[second].slot ? second : first];
  if (*slot != late.slot && late.members.size() == 1 &&
      problem.getNest(late.members.front().op).isWideningOf8Bits)
    return false;
  std::optional<KernelGroup> united =
      unite(problem, groups[first], groups[second]);
  if (!united || !isWorthwhile(first, second))
    return false;
  auto outside = [&](int value) {
    return llvm::any_of(problem.values[value].users, [&](int op) {
      int group = lookup(op);
      return group != first && group != second;
    });
  };
  KernelOperands operands = mpcomm::getOperands(problem, *united, outside);
  if (operands.inputs.size() + operands.outputs.size() > maxOperands ||
      !checkGroup(problem, *united, outside).empty())
    return false;
  united->slot = *slot;
  for (const KernelMember &member : groups[second].members)
    groupOf[member.op] = first;
  groups[first] = std::move(*united);
  groups[second].members.clear();
  return true;
}

/// Tensors that an op has as operands, what it starts from last.
static SmallVector<int> getOperandsOf(const LoopNest &nest) {
  SmallVector<int> operands;
  for (const LoopNest::Read &read : nest.reads)
    operands.push_back(read.value);
  for (const LoopNest::Write &write : nest.writes)
    if (write.init >= 0)
      operands.push_back(write.init);
  return operands;
}

void KernelGroups::growFromProducers() {
  // In program order, each op joins what makes its operands; a group moves to
  // its last member, as long as nothing has used it yet.
  for (int op = 0, e = static_cast<int>(problem.ops.size()); op < e; ++op) {
    if (!problem.isNest(op))
      continue;
    for (int operand : getOperandsOf(problem.getNest(op)))
      if (int producer = getGroupOfMaker(operand); producer >= 0)
        (void)tryMerge(producer, lookup(op), /*mayHoist=*/false);
  }
}

void KernelGroups::mergeNeighbours() {
  // What could not wait for its consumer: the consumer comes earlier. And what
  // reads the same tensor.
  llvm::MapVector<int, SmallVector<int>> readers;
  for (int op = 0, e = static_cast<int>(problem.ops.size()); op < e; ++op) {
    if (!problem.isNest(op))
      continue;
    for (int operand : getOperandsOf(problem.getNest(op))) {
      if (int producer = getGroupOfMaker(operand); producer >= 0)
        (void)tryMerge(producer, lookup(op), /*mayHoist=*/true);
      const KernelProblem::Value &value = problem.values[operand];
      if (!value.isScalar && !value.isFilled)
        readers[operand].push_back(op);
    }
  }
  for (auto &[value, ops] : readers)
    for (size_t i = 1; i < ops.size(); ++i)
      (void)tryMerge(lookup(ops[i - 1]), lookup(ops[i]), /*mayHoist=*/true);
}

std::optional<KernelGroups::Error> KernelGroups::run() {
  for (auto [i, group] : llvm::enumerate(groups)) {
    int op = group.members.front().op;
    if (problem.getNest(op).isScatter)
      continue;
    std::string why = checkGroup(problem, group, [&, i = i](int value) {
      return isUsedOutside(static_cast<int>(i), value);
    });
    if (!why.empty())
      return Error{op, why};
  }
  growFromProducers();
  mergeNeighbours();
  return std::nullopt;
}
