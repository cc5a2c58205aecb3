//===- StepModelKernels.cpp - what kernels a step runs --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The nests of the step (StepNests.h) in the groups that mpcomm-form-kernels
// makes of them, and what these and all other ops take. An op may have nests in
// several kernels. A kernel runs at the op that has the nest at its slot.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void StepBuilder::findLowered() {
  auto *dialect =
      step.function->getContext()->getLoadedDialect<MPCommDialect>();
  const auto *lowering =
      dialect ? dialect->getRegisteredInterface<OpLoweringInterface>()
              : nullptr;
  lowered.assign(ops.size(), nullptr);
  if (lowering)
    lowered = lowering->get(ops, model.getCluster().device.fusedAttention);
}

bool StepBuilder::hasNests(int op) const {
  return lowered[op] && lowered[op]->hasNests();
}

bool StepBuilder::readsByNests(int op) const {
  return hasNests(op) || nests.f8Products.contains(op);
}

void StepBuilder::formKernels() {
  groups.emplace(nests.problem, kMaxKernelOperands);
  (void)groups->run();
  groupsOf.resize(ops.size());
  step.kernels.assign(ops.size(), -1);
  for (auto [i, group] : llvm::enumerate(groups->getGroups())) {
    kernels.push_back({group, groups->getOperands(group)});
    step.kernelBytes += kernels.back().operands.countBytes(nests.problem);
    ++step.numKernels;
    for (const KernelMember &member : groups->get(group).members) {
      int op = nests.origins[member.op];
      if (!llvm::is_contained(groupsOf[op], group))
        groupsOf[op].push_back(group);
      step.kernels[op] = static_cast<int>(i);
    }
  }
  for (auto [op, own] : llvm::enumerate(groupsOf))
    if (own.size() > 1)
      step.kernels[op] = -1;
}

int StepBuilder::getSlot(int group) const {
  return nests.positions[groups->get(group).slot];
}

std::pair<int, int> StepBuilder::getSlots(int op) const {
  if (groupsOf[op].empty())
    return {op, op};
  std::pair<int, int> slots{static_cast<int>(ops.size()), -1};
  if (nests.f8Products.contains(op)) // after its transposes
    slots = {op, op};
  for (int group : groupsOf[op]) {
    slots.first = std::min(slots.first, getSlot(group));
    slots.second = std::max(slots.second, getSlot(group));
  }
  return slots;
}

int StepBuilder::getMadeSlot(int value) const {
  int op = def[root[value]];
  if (op >= 0 && !hasNests(op))
    return op;
  int number = nests.getNumber(values[root[value]]);
  if (number < 0)
    return def[root[value]];
  int maker = nests.problem.values[nests.problem.stripViews(number)].maker;
  if (maker < 0)
    return def[root[value]];
  int group = groups->lookup(maker);
  return group < 0 ? nests.positions[maker] : getSlot(group);
}

bool StepBuilder::isInMemory(int value) const {
  const KernelProblem &problem = nests.problem;
  int number = nests.getNumber(values[value]);
  if (number < 0 || problem.values[number].maker < 0)
    return false;
  int maker = problem.values[number].maker;
  if (problem.ops[maker].kind == KernelProblem::OpKind::View) {
    // Of what the same op makes, or of memory that another value holds.
    number = problem.stripViews(number);
    maker = problem.values[number].maker;
    if (maker < 0 || nests.origins[maker] != def[value])
      return false;
  }
  if (problem.ops[maker].kind == KernelProblem::OpKind::Other)
    return true;
  int group = groups->lookup(maker);
  return group >= 0 && groups->isUsedOutside(group, number);
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

void StepBuilder::costOps() {
  step.seconds.assign(ops.size(), 0);
  for (int op = 0; op < numOps; ++op) {
    Operation *current = ops[op];
    bool isOfKernels = hasNests(op) && !lowered[op]->isProduct;
    if (isView[op] || isOfKernels || getCollective(current) ||
        isa<AwaitOp>(current))
      continue;
    if (getCallee(op))
      step.seconds[op] = countCalls(op) * getCallee(op)->seconds;
    else if (auto found = copied.find(op); found != copied.end())
      step.seconds[op] = costCopies(op, found->second);
    else if (auto f8 = nests.f8Products.find(op); f8 != nests.f8Products.end())
      step.seconds[op] =
          model.getSeconds(current, f8->second.bytes, /*isLaunched=*/true,
                           /*share=*/1, f8->second.element);
    else if (!placed.contains(op))
      step.seconds[op] = model.getSeconds(current);
  }
  for (int op = 0; op < numOps; ++op)
    if (step.seconds[op] > 0)
      shares.push_back({op, -1, step.seconds[op]});
  costKernels();
}

/// Points of the loops of a nest.
static double countPoints(const LoopNest &nest) {
  double points = 1;
  for (int64_t size : nest.sizes)
    points *= static_cast<double>(size);
  return points;
}

/// A tensor is read by the first member that reads it, and written by the one
/// that makes it; the first member that takes time pays the launch. The flops
/// of an op are those of its nests by their points.
void StepBuilder::costKernels() {
  const KernelProblem &problem = nests.problem;
  std::vector<double> points(ops.size(), 0);
  for (int op = 0, e = static_cast<int>(problem.ops.size()); op < e; ++op)
    if (problem.isNest(op))
      points[nests.origins[op]] += countPoints(problem.getNest(op));
  for (const auto &[group, operands] : kernels) {
    llvm::SmallDenseSet<int> read;
    llvm::MapVector<int, std::pair<double, double>> work; // bytes, points
    for (const KernelMember &member : groups->get(group).members) {
      const LoopNest &nest = problem.getNest(member.op);
      int origin = nests.origins[member.op];
      auto &[bytes, own] = work[origin];
      own += countPoints(nest);
      auto readOnce = [&](int value, double share) {
        if (operands.inputs.contains(value) && read.insert(value).second)
          bytes += share * static_cast<double>(problem.values[value].bytes);
      };
      for (const LoopNest::Read &input : nest.reads)
        readOnce(input.value, 1);
      for (int captured : nest.captured)
        readOnce(captured, getReadShare(ops[origin]));
      for (const LoopNest::Write &write : nest.writes) {
        if (write.readsInit)
          readOnce(write.init, 1);
        if (operands.outputs.contains(write.value))
          bytes += static_cast<double>(problem.values[write.value].bytes);
      }
    }
    bool isLaunched = false;
    for (const auto &[op, bytesAndPoints] : work) {
      auto [bytes, own] = bytesAndPoints;
      double seconds = model.getSeconds(
          ops[op], static_cast<int64_t>(std::min(bytes, 9e18)), !isLaunched,
          // A product's flops are not those of what its operands go through.
          !lowered[op] || lowered[op]->isProduct
              ? 0
              : own / std::max(points[op], 1.0));
      isLaunched |= seconds > 0;
      step.seconds[op] += seconds;
      shares.push_back({op, group, seconds});
    }
  }
}

/// Of tensors that are read anywhere, how much is read.
double StepBuilder::getReadShare(Operation *op) {
  auto all =
      static_cast<double>(mpcomm::detail::countBytes(op->getOperandTypes()));
  auto read = static_cast<double>(cast<CostOpInterface>(op).getBytesRead());
  return all > 0 ? std::min(read / all, 1.0) : 1.0;
}

/// The parts of a concatenation that are not made in their places.
double StepBuilder::costCopies(int op, ArrayRef<int64_t> parts) {
  double seconds = 0;
  for (int64_t bytes : parts)
    seconds += model.getSeconds(ops[op],
                                bytes > (int64_t(1) << 61) ? bytes : 2 * bytes,
                                /*isLaunched=*/true);
  return seconds;
}

void StepBuilder::applyProfile() {
  const std::vector<ProfileEntry> &entries = model.getProfile()->entries;
  llvm::StringMap<SmallVector<unsigned, 1>> byPlace, byName;
  for (auto [i, entry] : llvm::enumerate(entries)) {
    for (const std::string &place : entry.locations)
      byPlace[place].push_back(i);
    if (entry.locations.empty())
      byName[entry.op].push_back(i);
  }
  // The entries of each op, and what they share out.
  struct Part {
    int op;
    unsigned entry;
  };
  std::vector<Part> shares;
  std::vector<double> weights(entries.size(), 0);
  std::vector<unsigned> counts(entries.size(), 0);
  std::vector<double> measured(ops.size(), -1);
  auto getWeight = [&](int op) {
    return collectiveOf[op] >= 0
               ? step.collectives[collectiveOf[op]].getSeconds()
               : step.seconds[op];
  };
  for (int op = 0; op < numOps; ++op) {
    if (isView[op] || isa<AwaitOp>(ops[op]))
      continue;
    Operation *named = ops[op];
    if (collectiveOf[op] >= 0)
      named = step.collectives[collectiveOf[op]].op;
    StringRef name = named->getName().getStringRef();
    std::string shapes;
    auto fitsShapes = [&](const ProfileEntry &entry) {
      if (!entry.shapes.empty() && shapes.empty())
        shapes = getShapes(named);
      return entry.shapes.empty() || entry.shapes == shapes;
    };
    SmallVector<unsigned> found, unnamed;
    forEachPlace(named->getLoc(), [&](StringRef place) {
      auto at = byPlace.find(place);
      if (at == byPlace.end())
        return;
      for (unsigned i : at->second)
        if (entries[i].op.empty() && fitsShapes(entries[i]))
          unnamed.push_back(i);
        else if (entries[i].op == name && fitsShapes(entries[i]))
          found.push_back(i);
    });
    if (found.empty() && collectiveOf[op] < 0)
      found = std::move(unnamed);
    llvm::sort(found);
    found.erase(llvm::unique(found), found.end());
    for (unsigned i : found) {
      shares.push_back({op, i});
      weights[i] += getWeight(op);
      ++counts[i];
    }
    if (!found.empty())
      continue;
    if (auto at = byName.find(name); at != byName.end())
      for (unsigned i : at->second)
        if (fitsShapes(entries[i]))
          measured[op] = entries[i].seconds;
  }
  for (const Part &share : shares) {
    double part = weights[share.entry] > 0
                      ? getWeight(share.op) / weights[share.entry]
                      : 1.0 / counts[share.entry];
    measured[share.op] =
        std::max(measured[share.op], 0.0) + part * entries[share.entry].seconds;
  }
  ProfileCoverage &coverage = step.coverage.emplace();
  for (auto [i, entry] : llvm::enumerate(entries)) {
    if (entry.locations.empty())
      continue;
    coverage.recorded += entry.seconds;
    if (counts[i] > 0)
      coverage.matched += entry.seconds;
  }
  for (int op = 0; op < numOps; ++op) {
    if (!isView[op] && !isa<AwaitOp>(ops[op]))
      coverage.modeled += getWeight(op);
    if (measured[op] < 0)
      continue;
    coverage.replaced += getWeight(op);
    if (collectiveOf[op] < 0) {
      step.seconds[op] = measured[op];
      continue;
    }
    StepCollective &collective = step.collectives[collectiveOf[op]];
    collective.algorithm = CollectiveAlgorithm::Measured;
    collective.latency = std::min(collective.latency, measured[op]);
    collective.transfer = measured[op] - collective.latency;
  }
}
