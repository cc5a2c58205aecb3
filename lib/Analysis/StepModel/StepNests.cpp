//===- StepNests.cpp - the loop nests of a step ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepNests.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using OpKind = KernelProblem::OpKind;

//===----------------------------------------------------------------------===//
// Ops and values
//===----------------------------------------------------------------------===//

int StepNests::addValue(Type type) {
  KernelProblem::Value value;
  value.bytes = mpcomm::detail::countBytes(TypeRange{type});
  auto tensor = dyn_cast<RankedTensorType>(type);
  value.isScalar = !tensor || tensor.getRank() == 0;
  problem.values.push_back(std::move(value));
  types.push_back(type);
  return static_cast<int>(types.size()) - 1;
}

int StepNests::addOp(OpKind kind, int origin, ArrayRef<int> operands) {
  KernelProblem::Op op;
  op.kind = kind;
  if (kind == OpKind::View && !operands.empty())
    op.source = operands.front();
  problem.ops.push_back(std::move(op));
  uses.emplace_back(operands);
  origins.push_back(origin);
  positions.push_back(position);
  return static_cast<int>(problem.ops.size()) - 1;
}

void StepNests::addResult(int op, int value) {
  problem.ops[op].results.push_back(value);
  problem.values[value].maker = op;
}

/// The number of an operand; one that nothing here makes is new.
int StepNests::lookup(Value value) {
  auto [entry, isNew] = numbers.try_emplace(value, -1);
  if (!isNew)
    return entry->second;
  int number = addValue(value.getType());
  problem.values[number].isUniform =
      matchPattern(value, m_Constant<SplatElementsAttr>(nullptr));
  return numbers[value] = number;
}

/// The value in memory: a widening that only nests have read so far runs here.
int StepNests::materialise(int value) {
  auto widening = widenings.find(value);
  if (widening == widenings.end() || problem.values[value].maker >= 0)
    return value;
  const LoopNest &nest = widening->second.nest;
  int op =
      addOp(OpKind::Nest, widening->second.origin, nest.reads.front().value);
  problem.ops[op].nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(nest);
  addResult(op, value);
  return value;
}

/// A value in another shape; the same reshape of a value is one, and none where
/// it comes back to a shape that it had.
int StepNests::reshape(int source, Type type, int origin) {
  auto widening = widenings.find(source);
  if (widening != widenings.end()) {
    // Readers widen what was reshaped.
    LoopNest nest = widening->second.nest;
    auto tensor = cast<RankedTensorType>(type);
    int narrow = nest.reads.front().value;
    nest.sizes = llvm::to_vector(tensor.getShape());
    nest.isReduction.assign(nest.sizes.size(), false);
    LoopIndex index = llvm::to_vector(llvm::seq<int64_t>(0, nest.sizes.size()));
    Type element = cast<RankedTensorType>(types[narrow]).getElementType();
    nest.reads.front() = {reshape(narrow, tensor.clone(element), origin),
                          index};
    int result = addValue(type);
    nest.writes.front() = {result, index};
    widenings[result] = {nest, origin};
    return result;
  }
  auto known = roots.find(source);
  int root = known == roots.end() ? source : known->second;
  if (types[root] == type)
    return root;
  auto [entry, isNew] =
      reshaped.try_emplace({root, type.getAsOpaquePointer()}, -1);
  if (!isNew)
    return entry->second;
  int result = entry->second = addValue(type);
  roots[result] = root;
  addResult(addOp(OpKind::View, origin, root), result);
  return result;
}

/// An op that stays as it is.
void StepNests::addOpaque(Operation *op, int origin) {
  SmallVector<int> operands;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (isa<TensorType>(operand.getType()) &&
          operand.getParentBlock() == op->getBlock())
        operands.push_back(materialise(lookup(operand)));
  });
  bool isConstant = op->hasTrait<OpTrait::ConstantLike>();
  int added =
      addOp(isConstant ? OpKind::View : OpKind::Other, origin, operands);
  for (Value result : op->getResults())
    if (isa<TensorType>(result.getType()))
      addResult(added, lookup(result));
}

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

/// 64 bits; where two different steps had the same, one would be mispriced.
static size_t hashKey(ArrayRef<int64_t> key) {
  return llvm::hash_combine_range(key.begin(), key.end());
}

/// What reads a broadcast reads what was broadcast, as long as the size of each
/// loop still follows from a tensor.
void StepNests::foldBroadcasts(LoopNest &nest) const {
  for (LoopNest::Read &read : nest.reads)
    for (auto found = broadcasts.find(read.value); found != broadcasts.end();
         found = broadcasts.find(read.value)) {
      LoopNest::Read own = read;
      read.value = found->second.source;
      read.index.clear();
      for (int64_t dim : found->second.index)
        read.index.push_back(dim < 0 ? dim : own.index[dim]);
      llvm::SmallVector<bool> isSized(nest.sizes.size(), false);
      auto note = [&](const LoopIndex &index) {
        for (int64_t loop : index)
          if (loop >= 0)
            isSized[loop] = true;
      };
      for (const LoopNest::Read &other : nest.reads)
        note(other.index);
      for (const LoopNest::Write &write : nest.writes)
        note(write.index);
      if (llvm::is_contained(isSized, false)) {
        read = std::move(own);
        break;
      }
    }
}

void StepNests::addNest(const LoweredOp &lowered, int step,
                        MutableArrayRef<int> map, int origin) {
  const LoweredOp::Step &described = lowered.steps[step];
  LoopNest nest = lowered.problem.getNest(step);
  auto narrow = [&](int value) {
    // Readers widen, by the same index.
    auto found = widenings.find(value);
    return found == widenings.end() ? value
                                    : found->second.nest.reads.front().value;
  };
  for (LoopNest::Read &read : nest.reads)
    read.value = map[read.value];
  if (described.isGeneric)
    foldBroadcasts(nest);
  SmallVector<int64_t> key{static_cast<int64_t>(described.key)};
  SmallVector<int> operands;
  for (LoopNest::Read &read : nest.reads) {
    read.value = narrow(read.value);
    key.push_back(read.value);
    llvm::append_range(key, read.index);
    operands.push_back(read.value);
  }
  for (LoopNest::Write &write : nest.writes)
    if (write.init >= 0) {
      write.init = materialise(map[write.init]);
      key.push_back(write.init);
      operands.push_back(write.init);
    }
  for (int &captured : nest.captured) {
    captured = materialise(map[captured]);
    key.push_back(captured);
    operands.push_back(captured);
  }
  auto [entry, isNew] = equal.try_emplace(hashKey(key));
  if (!isNew) {
    for (auto [write, known] : llvm::zip_equal(nest.writes, entry->second))
      map[write.value] = known;
    return;
  }
  for (LoopNest::Write &write : nest.writes) {
    int result = addValue(lowered.types[write.value]);
    map[write.value] = result;
    write.value = result;
    entry->second.push_back(result);
  }
  int result = entry->second.empty() ? -1 : entry->second.front();
  if (described.isWidening) {
    nest.writes.front().init = -1;
    widenings[result] = {std::move(nest), origin};
    return;
  }
  if (described.isBroadcast)
    broadcasts[result] = {nest.reads.front().value, nest.reads.front().index};
  int op = addOp(OpKind::Nest, origin, operands);
  problem.ops[op].nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(std::move(nest));
  for (int value : entry->second)
    addResult(op, value);
}

void StepNests::addLowered(Operation *op, const LoweredOp &lowered,
                           int origin) {
  std::vector<int> map(lowered.types.size(), -1);
  for (auto [operand, number] :
       llvm::zip_equal(op->getOperands(), lowered.operands))
    if (number >= 0)
      map[number] = lookup(operand);
  for (int step = 0, e = static_cast<int>(lowered.steps.size()); step < e;
       ++step) {
    const KernelProblem::Op &like = lowered.problem.ops[step];
    if (like.kind == OpKind::Nest) {
      addNest(lowered, step, map, origin);
      continue;
    }
    if (like.results.empty()) // a scalar
      continue;
    int own = like.results.front();
    if (like.kind == OpKind::Other) {
      SmallVector<int> operands;
      for (int value : lowered.steps[step].uses)
        operands.push_back(materialise(map[value]));
      map[own] = addValue(lowered.types[own]);
      addResult(addOp(OpKind::Other, origin, operands), map[own]);
      continue;
    }
    if (like.kind == OpKind::View && like.source >= 0 &&
        lowered.steps[step].isReshape) {
      map[own] = reshape(map[like.source], lowered.types[own], origin);
      continue;
    }
    SmallVector<int, 1> operands;
    if (like.source >= 0)
      operands.push_back(materialise(map[like.source]));
    SmallVector<int64_t> key{static_cast<int64_t>(lowered.steps[step].key)};
    llvm::append_range(key, operands);
    auto [entry, isNew] = equal.try_emplace(hashKey(key));
    if (isNew) {
      int value = addValue(lowered.types[own]);
      problem.values[value].isUniform = lowered.problem.values[own].isUniform;
      problem.values[value].isFilled = lowered.problem.values[own].isFilled;
      addResult(addOp(like.kind, origin, operands), value);
      entry->second.push_back(value);
    }
    map[own] = entry->second.front();
  }
  for (auto [result, number] :
       llvm::zip_equal(op->getResults(), lowered.results))
    numbers[result] = map[number];
}

/// Whether the transpose `op` of what elementwise work makes of a product is
/// made by that product already: the work is then done in the new order.
bool StepNests::moveToProduct(int value, Operation *op) {
  auto transpose = dyn_cast<TransposeOp>(op);
  int maker = problem.values[value].maker;
  if (!transpose || maker < 0 || !problem.isNest(maker))
    return false;
  LoopNest &nest = problem.nests[problem.ops[maker].nest];
  auto isFull = [&](const LoopIndex &index) {
    return llvm::equal(index, llvm::seq<int64_t>(0, nest.sizes.size()));
  };
  if (nest.writes.size() != 1 || !isFull(nest.writes.front().index) ||
      llvm::is_contained(nest.isReduction, true))
    return false;
  // Loop dims[j] becomes loop j.
  SmallVector<int64_t> place(nest.sizes.size()), sizes;
  for (auto [i, dim] : llvm::enumerate(transpose.getDims())) {
    place[dim] = static_cast<int64_t>(i);
    sizes.push_back(nest.sizes[dim]);
  }
  nest.sizes = std::move(sizes);
  for (LoopNest::Read &read : nest.reads)
    if (!isFull(read.index))
      for (int64_t &loop : read.index)
        loop = loop < 0 ? loop : place[loop];
  return true;
}

/// Nests that nothing needs are none.
void StepNests::removeDead() {
  std::vector<char> isUsed(problem.values.size(), false);
  for (int op = static_cast<int>(problem.ops.size()); op-- > 0;) {
    KernelProblem::Op &known = problem.ops[op];
    bool isLive =
        known.kind == OpKind::Other ||
        llvm::any_of(known.results, [&](int value) { return isUsed[value]; });
    if (!isLive) {
      known.kind = OpKind::Init;
      uses[op].clear();
    }
    for (int value : uses[op])
      isUsed[value] = true;
  }
  for (auto [op, used] : llvm::enumerate(uses))
    for (int value : used)
      problem.values[value].users.push_back(static_cast<int>(op));
}

void StepNests::read(ArrayRef<Operation *> ops,
                     ArrayRef<const LoweredOp *> lowered,
                     ArrayRef<char> isView) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    position = static_cast<int>(i);
    if (isView[i] && (!lowered[i] || lowered[i]->hasNests())) {
      // Whoever makes or reads it takes strides.
      int source = materialise(lookup(op->getOperand(0)));
      if (moveToProduct(source, op)) {
        numbers[op->getResult(0)] = source;
        continue;
      }
      addResult(addOp(OpKind::View, position, source),
                lookup(op->getResult(0)));
    } else if (lowered[i] &&
               (lowered[i]->hasNests() || !lowered[i]->numOthers)) {
      addLowered(op, *lowered[i], position);
    } else {
      addOpaque(op, position);
    }
  }
  removeDead();
}
