//===- StepModelMemory.cpp - what memory a step holds ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers from the op that makes them to the last that needs them. A view and
// its operand share one; so do a concatenation and what is made in its place
// there, a reduced bucket and its operands, where nothing else needs these, and
// a result and the argument that was donated for it.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;

int StepBuilder::addBuffer(Type type, int begin, int owner) {
  buffers.push_back({countBytes(type), begin, begin, owner});
  return static_cast<int>(buffers.size() - 1);
}

/// Appends the buffer of each result: that of the operand, if the collective
/// can run in place, or a new one from `position` on.
void StepBuilder::addCollectiveBuffers(CollectiveOpInterface op, int position,
                                       SmallVectorImpl<int> &ids) {
  CollectiveKind kind = op.getCollectiveKind();
  bool isInPlace = (kind == CollectiveKind::AllReduce ||
                    kind == CollectiveKind::Broadcast) &&
                   op->getNumOperands() == op->getNumResults();
  for (OpResult result : op->getResults()) {
    int number = getNumber(result); // none inside of mpcomm.async
    if (isInPlace) {
      Value operand = op->getOperand(result.getResultNumber());
      int value = getNumber(operand);
      if (value >= 0 && def[root[value]] >= 0 && useCount[value] == 1 &&
          useCount[root[value]] == 1 && bufferOf[value] >= 0 &&
          operand.getType() == result.getType()) {
        ids.push_back(bufferOf[value]);
        continue;
      }
    }
    ids.push_back(addBuffer(result.getType(), position, number));
  }
}

void StepBuilder::addBuffers(int op) {
  Operation *current = ops[op];
  int first = step.firstResult[op];
  auto assign = [&](ArrayRef<int> ids) {
    for (auto [i, id] : llvm::enumerate(ids)) {
      bufferOf[first + i] = id;
      if (buffers[id].owner < 0)
        buffers[id].owner = first + static_cast<int>(i);
    }
  };
  if (isView[op]) {
    bufferOf[first] = bufferOf[root[first]];
    return;
  }
  if (collectiveOf[op] >= 0) {
    SmallVector<int, 1> ids;
    addCollectiveBuffers(step.collectives[collectiveOf[op]].op, op, ids);
    if (!isa<AsyncOp>(current))
      assign(ids);
    resultBuffers[collectiveOf[op]] = std::move(ids);
    return;
  }
  if (auto await = dyn_cast<AwaitOp>(current)) {
    int future = getNumber(await.getFuture());
    if (future >= 0 && def[future] >= 0 && collectiveOf[def[future]] >= 0)
      return assign(resultBuffers[collectiveOf[def[future]]]);
  }
  if (const Callee *callee = getCallee(op)) {
    addCallBuffers(op);
    buffers.push_back({callee->bytes, op, op, -1});
    return;
  }
  // What an op without operands and without cost gives is there before the
  // step: a constant, or memory that whoever writes it counts.
  if (auto cost = dyn_cast<CostOpInterface>(current))
    if (current->getNumOperands() == 0 && cost.getBytesWritten() == 0)
      return;
  for (int i = 0, e = static_cast<int>(current->getNumResults()); i < e; ++i) {
    int value = first + i;
    if (root[value] != value)
      bufferOf[value] = bufferOf[root[value]];
    else if (!hasNests(op) || isInMemory(value))
      bufferOf[value] =
          addBuffer(current->getResult(i).getType(), getMadeSlot(value), value);
  }
  // What is made in its place in a larger tensor needs that from then on.
  for (int part : placed.lookup(op)) {
    if (bufferOf[part] < 0) // a constant, once it is lowered
      continue;
    Buffer &own = buffers[bufferOf[part]], &whole = buffers[bufferOf[first]];
    whole.begin = std::min(whole.begin, own.begin);
    own.bytes = 0;
  }
}

/// What one kernel makes for another, and is no result of an op.
void StepBuilder::addIntermediates() {
  llvm::DenseSet<int> results;
  auto note = [&](int number, int buffer) {
    results.insert(number);
    if (number >= 0 && buffer >= 0)
      bufferOfNumber[number] = buffer;
  };
  for (auto [value, buffer] : llvm::zip_equal(values, bufferOf))
    note(nests.getNumber(value), buffer);
  for (int i = 0, e = static_cast<int>(values.size()); i < e; ++i)
    if (isInMemory(i))
      note(nests.problem.stripViews(nests.getNumber(values[i])), bufferOf[i]);
  for (const auto &[group, operands] : kernels)
    for (int number : operands.outputs)
      if (!results.contains(number)) {
        int last = groups->getLastUse(group, number);
        bufferOfNumber[number] = static_cast<int>(buffers.size());
        buffers.push_back({nests.problem.values[number].bytes, getSlot(group),
                           last < 0 ? getSlot(group) : nests.positions[last],
                           -1});
      }
}

/// The arena that mpcomm-plan-memory makes: without what is returned, which the
/// caller holds, but with what is copied to donated buffers at the end; the
/// tensors of one collective are one bucket.
void StepBuilder::collectArena() {
  std::vector<char> isElsewhere(buffers.size(), false);
  if (numOps < static_cast<int>(ops.size()))
    for (auto [i, returned] : llvm::enumerate(ops.back()->getOperands()))
      if (int value = getNumber(returned);
          value >= 0 && bufferOf[value] >= 0 && !isDonated.test(i))
        isElsewhere[bufferOf[value]] = true;
  std::vector<ArenaProblem::Buffer> lives = findLives();
  for (ArrayRef<int> members : resultBuffers) {
    ArenaProblem::Buffer bucket{0, INT64_MAX, -1};
    for (int member : members) {
      if (isElsewhere[member])
        continue;
      isElsewhere[member] = true;
      bucket.bytes += llvm::alignTo(lives[member].bytes, step.arena.alignment);
      bucket.begin = std::min(bucket.begin, lives[member].begin);
      bucket.end = std::max(bucket.end, lives[member].end);
    }
    if (bucket.bytes > 0)
      step.arena.buffers.push_back(bucket);
  }
  for (auto [life, elsewhere] : llvm::zip_equal(lives, isElsewhere))
    if (!elsewhere && life.bytes > 0)
      step.arena.buffers.push_back(life);
  // In program order, which decides where the planner has a choice.
  llvm::stable_sort(step.arena.buffers, [](const ArenaProblem::Buffer &a,
                                           const ArenaProblem::Buffer &b) {
    return a.begin < b.begin;
  });
}

/// The result of a donated argument is written over it, without memory of its
/// own: by a kernel where mpcomm-form-kernels can choose so, else where types
/// are equal.
void StepBuilder::addDonations() {
  FunctionOpInterface function = step.function;
  if (numOps == static_cast<int>(ops.size()))
    return;
  Operation *terminator = ops.back();
  isDonated.resize(terminator->getNumOperands());
  Donations donations;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto donated = function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr);
    if (!donated || !donated.getValue().isSignedIntN(32))
      continue;
    int64_t result = donated.getInt();
    if (result < 0 || result >= terminator->getNumOperands() ||
        terminator->getOperand(result).getType() != values[i].getType())
      continue;
    Value returned = terminator->getOperand(result);
    int number = nests.getNumber(returned);
    int donor = nests.getNumber(values[i]); // -1 of one that nothing reads
    int maker = number < 0 ? -1 : nests.problem.values[number].maker;
    bool isOfKernel = groups->lookup(maker) >= 0 && donor >= 0;
    if (isOfKernel)
      donations.try_emplace(number, donor);
    int value = getNumber(returned);
    isDonated.set(result);
    if (value >= 0 && bufferOf[value] >= 0 && !isOfKernel)
      buffers[bufferOf[value]].bytes = 0;
  }
  for (const auto &[group, operands] : kernels) {
    const KernelGroup &known = groups->get(group);
    llvm::append_range(destinations,
                       chooseDestinations(nests.problem, *groups, group, known,
                                          operands, donations,
                                          /*reuseOperands=*/true));
  }
  for (const Destination &destination : destinations) {
    auto donor = donations.find(destination.result);
    auto own = bufferOfNumber.find(destination.result);
    if (donor != donations.end() && donor->second == destination.tensor &&
        own != bufferOfNumber.end())
      buffers[own->second].bytes = 0;
  }
}

/// A kernel writes over what it alone still reads.
void StepBuilder::shareBuffers() {
  std::vector<int> sharedWith(buffers.size(), -1);
  auto find = [&](int buffer) {
    while (buffer >= 0 && sharedWith[buffer] >= 0)
      buffer = sharedWith[buffer];
    return buffer;
  };
  auto lookup = [&](int number) {
    auto found = bufferOfNumber.find(number);
    return found == bufferOfNumber.end() ? -1 : find(found->second);
  };
  for (const Destination &destination : destinations) {
    if (destination.tensor < 0)
      continue;
    int own = lookup(destination.result);
    int other = lookup(nests.problem.stripViews(destination.tensor));
    if (own < 0 || other < 0 || own == other ||
        buffers[own].bytes != buffers[other].bytes)
      continue;
    buffers[other].begin = std::min(buffers[other].begin, buffers[own].begin);
    buffers[other].end = std::max(buffers[other].end, buffers[own].end);
    buffers[other].isInFlight |= buffers[own].isInFlight;
    buffers[own].bytes = 0;
    sharedWith[own] = other;
  }
  for (int &buffer : bufferOf)
    buffer = find(buffer);
  for (SmallVectorImpl<int> &members : resultBuffers)
    for (int &buffer : members)
      buffer = find(buffer);
  for (auto &[number, buffer] : bufferOfNumber)
    buffer = find(buffer);
}

/// When each buffer begins and ends, in ops of the nests: an op of the step may
/// be several kernels.
std::vector<ArenaProblem::Buffer> StepBuilder::findLives() const {
  std::vector<ArenaProblem::Buffer> lives(buffers.size(), {0, INT64_MAX, -1});
  for (const auto &[number, buffer] : bufferOfNumber) {
    int slot = groups->getSlot(number);
    if (slot < 0) // a copy of what is there before
      continue;
    ArenaProblem::Buffer &life = lives[buffer];
    life.begin = std::min<int64_t>(life.begin, slot);
    life.end = std::max<int64_t>(life.end, groups->getLastUse(-1, number));
  }
  // The first op at a position or after it.
  auto first = [&](int position) {
    return llvm::lower_bound(nests.positions, position) -
           nests.positions.begin();
  };
  for (auto [life, buffer] : llvm::zip_equal(lives, buffers)) {
    life.bytes = buffer.bytes;
    bool isKnown = life.begin != INT64_MAX;
    if (!isKnown || nests.positions[life.begin] > buffer.begin)
      life.begin = first(buffer.begin);
    // What nests say is exact, but for a collective in flight.
    if (!isKnown || buffer.isInFlight)
      life.end = std::max<int64_t>(life.end, first(buffer.end + 1) - 1);
    life.end = std::max(life.end, life.begin);
  }
  return lives;
}

void StepBuilder::findLifetimes() {
  bufferOf.assign(values.size(), -1);
  resultBuffers.resize(step.collectives.size());
  for (int op = 0; op < numOps; ++op)
    addBuffers(op);
  addIntermediates();
  addDonations();

  // Ends: the last use, of a collective in flight its await.
  int last = static_cast<int>(ops.size());
  std::vector<int> awaitOf(step.collectives.size(), last);
  for (auto [op, collective] : awaits)
    awaitOf[collective] = op;
  auto extend = [&](int buffer, int to) {
    if (buffer >= 0)
      buffers[buffer].end = std::max(buffers[buffer].end, to);
  };
  step.lastUses.assign(values.size(), -1);
  for (size_t value = 0; value < values.size(); ++value)
    step.lastUses[value] = def[value];
  for (int op = 0; op < last; ++op) {
    int at = op < numOps ? getSlots(op).second : last;
    if (collectiveOf[op] >= 0) {
      at = awaitOf[collectiveOf[op]];
      for (int buffer : resultBuffers[collectiveOf[op]]) {
        extend(buffer, at);
        buffers[buffer].isInFlight = true;
      }
    }
    for (int value : getUses(op)) {
      if (collectiveOf[op] >= 0 && bufferOf[value] >= 0)
        buffers[bufferOf[value]].isInFlight = true;
      step.lastUses[value] = std::max(step.lastUses[value], at);
      extend(bufferOf[value], at);
    }
  }
  for (const auto &[op, parts] : placed)
    for (int part : parts)
      if (bufferOf[part] >= 0)
        extend(bufferOf[step.firstResult[op]], buffers[bufferOf[part]].end);
  step.bytes.assign(values.size(), 0);
  for (const Buffer &buffer : buffers)
    if (buffer.owner >= 0)
      step.bytes[buffer.owner] = buffer.bytes;
  shareBuffers();
  collectArena();
  step.buffers = bufferOf;
  for (const Buffer &buffer : buffers)
    step.bufferBytes.push_back(buffer.bytes);
  for (size_t value = 0; value < values.size(); ++value) {
    if (def[value] < 0)
      step.bytes[value] = countBytes(values[value].getType());
    if (bufferOf[value] >= 0)
      step.lastUses[value] = buffers[bufferOf[value]].end;
  }
}
