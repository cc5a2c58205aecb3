//===- Destinations.cpp - where kernels write their results ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/KernelGroups/Destinations.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mpcomm;

namespace {

/// Chooses for one group.
class Chooser {
public:
  Chooser(const KernelProblem &problem, const KernelGroups &groups, int number,
          const KernelGroup &group)
      : problem(problem), groups(groups), number(number), group(group) {}

  /// What a result has to start from.
  Destination getInitial(int result) const;
  /// Gives `tensor` to a destination if its memory can take the result.
  bool take(Destination &destination, int tensor);

private:
  bool readsWhereWritten(int result, int tensor, bool &isRead) const;
  bool canHold(int result, int tensor, bool &isRead) const;
  const LoopNest::Write &getWrite(int value) const {
    const LoopNest &nest = problem.getNest(problem.values[value].maker);
    return *llvm::find_if(nest.writes, [&](const LoopNest::Write &write) {
      return write.value == value;
    });
  }

  const KernelProblem &problem;
  const KernelGroups &groups;
  int number;
  const KernelGroup &group;
  llvm::DenseSet<int> taken;
};

} // namespace

/// Whether the inputs of the group allow `tensor` to be replaced by `result`:
/// each is read by the index that the result is written by. `isRead` tells
/// whether one is `tensor` at all.
bool Chooser::readsWhereWritten(int result, int tensor, bool &isRead) const {
  const KernelMember *maker =
      llvm::find_if(group.members, [&](const KernelMember &member) {
        return member.op == problem.values[result].maker;
      });
  LoopIndex written = maker->map(getWrite(result).index);
  isRead = false;
  for (const KernelMember &member : group.members) {
    const LoopNest &nest = problem.getNest(member.op);
    for (const LoopNest::Read &read : nest.reads) {
      if (read.value != tensor)
        continue;
      isRead = true;
      if (member.map(read.index) != written)
        return false;
    }
    if (llvm::is_contained(nest.captured, tensor)) {
      isRead = true;
      return false;
    }
  }
  return !isRead || !isAccumulated(problem, group, *maker);
}

/// Whether the memory of `tensor` can take `result`: nothing but the group
/// reads `tensor` from now on, and the group reads it by the index that it
/// writes the result by. `isRead` tells whether it reads it at all.
bool Chooser::canHold(int result, int tensor, bool &isRead) const {
  if (problem.values[tensor].type != problem.values[result].type ||
      !readsWhereWritten(result, tensor, isRead))
    return false;
  for (const KernelMember &member : group.members)
    for (const LoopNest::Write &write : problem.getNest(member.op).writes)
      if (write.init == tensor && write.readsInit)
        return false;
  return groups.getLastUse(number, tensor) <= group.slot;
}

Destination Chooser::getInitial(int result) const {
  Destination destination{result};
  const LoopNest::Write &write = getWrite(result);
  if (!write.readsInit)
    return destination;
  destination.tensor = write.init;
  bool isRead;
  bool inPlace = readsWhereWritten(result, write.init, isRead);
  destination.isUpdated = isRead && inPlace;
  destination.isInput = isRead && !inPlace;
  return destination;
}

bool Chooser::take(Destination &destination, int tensor) {
  bool isRead;
  if (taken.contains(tensor) || !canHold(destination.result, tensor, isRead))
    return false;
  destination.tensor = tensor;
  destination.isUpdated = isRead;
  return taken.insert(tensor).second;
}

llvm::SmallVector<Destination> mpcomm::chooseDestinations(
    const KernelProblem &problem, const KernelGroups &groups, int number,
    const KernelGroup &group, const KernelOperands &operands,
    const Donations &donations, bool reuseOperands) {
  Chooser chooser(problem, groups, number, group);
  llvm::SmallVector<Destination> chosen;
  for (int result : operands.outputs)
    chosen.push_back(chooser.getInitial(result));
  for (Destination &destination : chosen)
    if (auto donor = donations.find(destination.result);
        donor != donations.end() && destination.tensor < 0)
      (void)chooser.take(destination, donor->second);
  if (!reuseOperands)
    return chosen;
  for (Destination &destination : chosen)
    for (int input : operands.inputs) {
      if (destination.tensor >= 0)
        break;
      int maker = problem.values[input].maker;
      if (maker >= 0 &&
          (problem.isNest(maker) || problem.ops[maker].isLibraryCall) &&
          !groups.hasUseOutside(number, input))
        (void)chooser.take(destination, input);
    }
  return chosen;
}
