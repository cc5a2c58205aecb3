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
  for (auto [i, value] : llvm::enumerate(values)) {
    results.insert(nests.getNumber(value));
    if (isInMemory(static_cast<int>(i)))
      results.insert(nests.problem.stripViews(nests.getNumber(value)));
  }
  for (int group : groups->getGroups())
    for (int number : groups->getOperands(group).outputs)
      if (!results.contains(number)) {
        int last = groups->getLastUse(group, number);
        buffers.push_back({nests.problem.values[number].bytes, getSlot(group),
                           last < 0 ? getSlot(group) : nests.positions[last],
                           -1});
      }
}

void StepBuilder::addDonations() {
  // The result of a donated argument is written over it: no memory of its own.
  FunctionOpInterface function = step.function;
  if (numOps == static_cast<int>(ops.size()))
    return;
  Operation *terminator = ops.back();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto donated = function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr);
    if (!donated || !donated.getValue().isSignedIntN(32))
      continue;
    int64_t result = donated.getInt();
    if (result < 0 || result >= terminator->getNumOperands() ||
        terminator->getOperand(result).getType() != values[i].getType())
      continue;
    int value = getNumber(terminator->getOperand(result));
    if (value >= 0 && bufferOf[value] >= 0)
      buffers[bufferOf[value]].bytes = 0;
  }
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
      for (int buffer : resultBuffers[collectiveOf[op]])
        extend(buffer, at);
    }
    for (int value : getUses(op)) {
      step.lastUses[value] = std::max(step.lastUses[value], at);
      extend(bufferOf[value], at);
    }
  }
  for (const auto &[op, parts] : placed)
    for (int part : parts)
      if (bufferOf[part] >= 0)
        extend(bufferOf[step.firstResult[op]], buffers[bufferOf[part]].end);
  step.buffers = bufferOf;
  for (const Buffer &buffer : buffers)
    step.bufferBytes.push_back(buffer.bytes);
  step.bytes.assign(values.size(), 0);
  for (const Buffer &buffer : buffers)
    if (buffer.owner >= 0)
      step.bytes[buffer.owner] = buffer.bytes;
  for (size_t value = 0; value < values.size(); ++value) {
    if (def[value] < 0)
      step.bytes[value] = countBytes(values[value].getType());
    if (bufferOf[value] >= 0)
      step.lastUses[value] = buffers[bufferOf[value]].end;
  }
}
