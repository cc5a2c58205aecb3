//===- StepModelBuilder.cpp - a step as timed instructions ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers ops and values, finds collectives, and emits the instructions. What
// is not moved is in StepModelLayout.cpp, what is fused in
// StepModelKernels.cpp, what memory is held in StepModelMemory.cpp, calls of
// parts of the step in StepModelCalls.cpp.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countBytes;

FailureOr<StepModel> StepBuilder::run() {
  if (failed(number()) || failed(findCalls()))
    return failure();
  formKernels();
  costOps();
  if (failed(findCollectives()))
    return failure();
  if (model.getProfile())
    applyProfile();
  findAwaits();
  findLifetimes();
  emitInstructions();
  addCommunication();
  linkCollectives();
  return std::move(step);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

int StepBuilder::getNumber(Value value) const { return step.getNumber(value); }

/// Whether the bytes of a type, if it has any, can be counted.
static bool isCounted(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return !shaped ||
         (shaped.hasStaticShape() && mpcomm::detail::isCountable(type));
}

LogicalResult StepBuilder::number() {
  FunctionOpInterface function = step.function;
  if (function.isExternal() ||
      !llvm::hasSingleElement(function.getFunctionBody()))
    return function.emitError("expected a body of one block, to model the step "
                              "of '")
           << function.getName() << "'";
  Block &block = function.getFunctionBody().front();
  // Far more than any machine holds; sums of what lives stay in 64 bits.
  constexpr int64_t mostBytes = int64_t(1) << 62;
  int64_t bytes = 0;
  auto addValue = [&](Value value, int op) -> LogicalResult {
    if (!isCounted(value.getType()))
      return emitError(value.getLoc(),
                       "expected values of static shape and at "
                       "most 2^48 elements, to model the step, got ")
             << value.getType();
    bytes += countBytes(value.getType());
    if (bytes > mostBytes)
      return function.emitError("expected values of at most 2^62 bytes in all, "
                                "to model the step of '")
             << function.getName() << "'";
    values.push_back(value);
    def.push_back(op);
    return success();
  };
  for (BlockArgument argument : block.getArguments()) {
    if (failed(addValue(argument, -1)))
      return failure();
    step.staticBytes += countBytes(argument.getType());
  }
  for (Operation &op : block) {
    int position = static_cast<int>(ops.size());
    ops.push_back(&op);
    step.positions[&op] = position;
    step.firstResult.push_back(static_cast<int>(values.size()));
    for (Value result : op.getResults())
      if (failed(addValue(result, position)))
        return failure();
  }
  numOps = static_cast<int>(ops.size());
  if (numOps > 0 && ops.back()->hasTrait<OpTrait::IsTerminator>())
    --numOps;

  findLowered();
  findViews();
  findPieces();
  nests.read(ops, lowered, isView);
  findUses();
  return success();
}

/// Operands, and what regions take from outside. Of ops in kernels what their
/// nests read; a result that is another value is a view of it.
void StepBuilder::findUses() {
  useCount.assign(values.size(), 0);
  std::vector<SmallVector<int, 4>> usesOf(ops.size());
  llvm::DenseMap<int, int> owners; // of numbers of nests
  for (int value = 0; value < static_cast<int>(values.size()); ++value) {
    int number = nests.getNumber(values[value]);
    if (number < 0)
      continue;
    int owner = owners.try_emplace(number, value).first->second;
    // Copies of equal windows are copies each.
    bool isCopy = def[value] >= 0 && lowered[def[value]] &&
                  !hasNests(def[value]) && !isView[def[value]];
    if (owner == value || isCopy)
      continue;
    root[value] = root[owner];
    isView[def[value]] |= ops[def[value]]->getNumResults() == 1;
  }
  for (auto [op, used] : llvm::enumerate(nests.uses))
    for (int number : used)
      if (auto owner = owners.find(number);
          owner != owners.end() && readsByNests(nests.origins[op]))
        usesOf[nests.origins[op]].push_back(owner->second);
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (!readsByNests(i) || isView[i])
      op->walk([&, i = i](Operation *user) {
        for (Value operand : user->getOperands())
          if (int value = getNumber(operand); value >= 0)
            usesOf[i].push_back(value);
      });
    firstUse.push_back(static_cast<int>(uses.size()));
    llvm::append_range(uses, usesOf[i]);
    for (int value : usesOf[i])
      ++useCount[value];
  }
  firstUse.push_back(static_cast<int>(uses.size()));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

FailureOr<unsigned> StepBuilder::getCommunicator(CollectiveOpInterface op) {
  for (auto [i, known] : llvm::enumerate(step.communicators))
    if (known.mesh == op.getMeshAttr() && known.axes == op.getAxesAttr() &&
        known.channel == op.getChannel())
      return static_cast<unsigned>(i);
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  if (failed(shape))
    return op->emitError("expected a mesh with the axes ")
           << op.getAxesAttr() << ", to model the collective";
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  step.ranks = std::max(step.ranks, mesh.getNumRanks());
  // The same axes in another order are the same ranks.
  auto isSame = [&](const StepCommunicator &known) {
    return known.mesh == op.getMeshAttr() && known.channel == op.getChannel() &&
           known.axes.size() == op.getAxesAttr().size() &&
           llvm::all_of(op.getAxesAttr(), [&](Attribute axis) {
             return llvm::is_contained(known.axes, axis);
           });
  };
  auto found = llvm::find_if(step.communicators, isSame);
  if (found != step.communicators.end())
    return static_cast<unsigned>(found - step.communicators.begin());
  step.communicators.push_back(
      {op.getMeshAttr(), op.getAxesAttr(), op.getChannel(), *shape});
  return static_cast<unsigned>(step.communicators.size() - 1);
}

LogicalResult StepBuilder::addCollective(CollectiveOpInterface op,
                                         int position) {
  FailureOr<unsigned> communicator = getCommunicator(op);
  if (failed(communicator))
    return failure();
  StepCollective collective;
  collective.op = op;
  collective.bytes = CostModel::getWireBytes(op);
  collective.tensors =
      op->getNumOperands() ? op->getNumOperands() : op->getNumResults();
  collective.communicator = *communicator;
  collective.cost = model.getCollective(
      op.getCollectiveKind(), step.communicators[*communicator].shape);
  const CostLine &best = collective.cost.best(collective.bytes);
  collective.algorithm = static_cast<CollectiveAlgorithm>(best.algorithm);
  collective.latency = best.latency;
  collective.transfer = best.at(collective.bytes) - best.latency;
  collective.link = best.link;
  collectiveOf[position] = static_cast<int>(step.collectives.size());
  step.collectives.push_back(std::move(collective));
  return success();
}

LogicalResult StepBuilder::findCollectives() {
  collectiveOf.assign(ops.size(), -1);
  for (int op = 0; op < numOps; ++op) {
    CollectiveOpInterface collective = getCollective(ops[op]);
    if (collective && failed(addCollective(collective, op)))
      return failure();
  }
  return success();
}

void StepBuilder::findAwaits() {
  // What first uses a future waits for it, whatever it is: an op with a region
  // may await inside.
  std::vector<char> isAwaited(step.collectives.size(), false);
  for (int op = 0; op < numOps; ++op) {
    if (collectiveOf[op] >= 0 && !isa<AsyncOp>(ops[op]))
      awaits.emplace_back(op, collectiveOf[op]);
    for (int value : getUses(op)) {
      if (!isa<FutureType>(values[value].getType()) || def[value] < 0)
        continue;
      int collective = collectiveOf[def[value]];
      if (collective < 0 || isAwaited[collective])
        continue;
      isAwaited[collective] = true;
      awaits.emplace_back(op, collective);
    }
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void StepBuilder::emitInstructions() {
  std::vector<int64_t> allocates(ops.size() + 1, 0), frees(ops.size() + 1, 0);
  for (const Buffer &buffer : buffers) {
    allocates[buffer.begin] += buffer.bytes;
    frees[buffer.end] += buffer.bytes;
  }
  // Of kernels at their slots; what a profile says of an op goes to its kernels
  // by what the model says.
  std::vector<double> seconds(ops.size(), 0), modeled(ops.size(), 0);
  for (const Share &share : shares)
    modeled[share.op] += share.seconds;
  for (const Share &share : shares)
    if (modeled[share.op] > 0)
      seconds[share.group < 0 ? share.op : getSlot(share.group)] +=
          share.seconds / modeled[share.op] * step.seconds[share.op];
  for (int op = 0; op < numOps; ++op)
    if (modeled[op] <= 0)
      seconds[getSlots(op).second] += step.seconds[op];
  int64_t live = step.staticBytes;
  step.peakBytes = live;
  const std::pair<int, int> *next = awaits.data();
  const std::pair<int, int> *end = next + awaits.size();
  for (int op = 0; op < numOps; ++op) {
    live += allocates[op];
    step.peakBytes = std::max(step.peakBytes, live);
    live -= frees[op];

    // Start, awaits and compute of one op, in this order: the first allocates,
    // the last frees.
    size_t first = step.instructions.size();
    int collective = collectiveOf[op];
    if (collective >= 0) {
      step.collectives[collective].start = static_cast<int>(first);
      step.instructions.push_back(
          {RankInstruction::start(collective), ops[op]});
    }
    for (; next != end && next->first == op; ++next) {
      step.collectives[next->second].await =
          static_cast<int>(step.instructions.size());
      step.instructions.push_back(
          {RankInstruction::await(next->second), ops[op]});
    }
    bool isBare = step.instructions.size() == first;
    if (seconds[op] > 0 || (isBare && (allocates[op] != 0 || frees[op] != 0)))
      step.instructions.push_back(
          {RankInstruction::compute(seconds[op]), ops[op]});
    if (step.instructions.size() == first)
      continue;
    step.instructions[first].allocates = allocates[op];
    step.instructions.back().frees = frees[op];
    step.computeSeconds += seconds[op];
  }
}

void StepBuilder::linkCollectives() {
  // The last compute up to an op, and the first one from it on.
  int none = static_cast<int>(step.instructions.size());
  std::vector<int> upTo(ops.size() + 1, -1), from(ops.size() + 1, none);
  for (auto [i, instruction] : llvm::enumerate(step.instructions)) {
    if (instruction.kind != RankInstruction::Compute)
      continue;
    int op = step.positions[instruction.op];
    upTo[op] = static_cast<int>(i);
    from[op] = std::min(from[op], static_cast<int>(i));
  }
  for (size_t op = 1; op < upTo.size(); ++op)
    upTo[op] = std::max(upTo[op], upTo[op - 1]);
  for (size_t op = from.size() - 1; op-- > 0;)
    from[op] = std::min(from[op], from[op + 1]);
  // The op that first needs a value, through views.
  int last = static_cast<int>(ops.size());
  std::vector<int> needed(values.size(), last);
  for (int op = last; op-- > 0;) {
    int by = isView[op] ? needed[step.firstResult[op]] : getSlots(op).first;
    if (isa<AwaitOp>(ops[op])) {
      by = last;
      for (Value result : ops[op]->getResults())
        by = std::min(by, needed[getNumber(result)]);
    }
    for (int value : getUses(op))
      needed[value] = std::min(needed[value], by);
  }
  for (int op = 0; op < numOps; ++op) {
    if (collectiveOf[op] < 0)
      continue;
    StepCollective &collective = step.collectives[collectiveOf[op]];
    int producer = -1, consumer = last;
    for (int value : getUses(op))
      producer = std::max(producer, getMadeSlot(value));
    for (Value result : ops[op]->getResults())
      consumer = std::min(consumer, needed[getNumber(result)]);
    if (producer >= 0 && upTo[producer] < collective.start)
      collective.producer = upTo[producer];
    if (consumer < last && from[consumer] < none &&
        from[consumer] > std::max(collective.start, collective.await))
      collective.consumer = from[consumer];
  }
}
