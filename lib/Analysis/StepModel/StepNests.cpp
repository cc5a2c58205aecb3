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
#include "mpcomm/Dialect/MPComm/Utils/F8Products.h"

using namespace mlir;
using namespace mpcomm;
using OpKind = KernelProblem::OpKind;

//===----------------------------------------------------------------------===//
// Ops and values
//===----------------------------------------------------------------------===//

int StepNests::addValue(Type type) {
  KernelProblem::Value value;
  value.bytes = mpcomm::detail::countBytes(TypeRange{type});
  value.type = type.getAsOpaquePointer();
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

/// Adds the nest of a widening, which gives `result`.
int StepNests::addWidening(int value, int origin, int result) {
  LoopNest nest = widenings.find(value)->second.nest;
  int &source = nest.reads.front().value;
  if (widenings.contains(source))
    source = repeatWidening(source, origin);
  nest.writes.front().value = result;
  int op = addOp(OpKind::Nest, origin, source);
  problem.ops[op].nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(std::move(nest));
  addResult(op, result);
  return result;
}

/// A widening for one reader.
int StepNests::repeatWidening(int value, int origin) {
  int result = addValue(types[value]);
  repeated.insert(result);
  return addWidening(value, origin, result);
}

/// The value in memory, where all that is no nest reads it.
int StepNests::materialise(int value) {
  auto widening = widenings.find(value);
  return widening == widenings.end() || problem.values[value].maker >= 0
             ? value
             : addWidening(value, widening->second.origin, value);
}

/// The value in memory for the next product: one that is widened from 8 bits
/// is shared by products with no other one between.
int StepNests::materialiseForProduct(int value) {
  auto widening = widenings.find(value);
  if (widening == widenings.end() || !widening->second.nest.isWideningOf8Bits)
    return materialise(value);
  bool isRun = widening->second.lastProduct >= numProducts - 1;
  widening->second.lastProduct = numProducts;
  int last = widening->second.forProducts;
  if (last < 0)
    last = materialise(value);
  else if (!isRun)
    last = repeatWidening(value, widening->second.origin);
  return widenings[value].forProducts = last;
}

/// A value in another shape; the same reshape of a value is one, and none where
/// it comes back to a shape that it had.
int StepNests::reshape(int source, Type type, int origin) {
  auto widening = widenings.find(source);
  if (widening != widenings.end()) {
    // What was reshaped is widened.
    Widening own{widening->second.nest, origin};
    LoopNest &nest = own.nest;
    int &narrow = nest.reads.front().value;
    auto tensor = cast<RankedTensorType>(type);
    Type element = cast<RankedTensorType>(types[narrow]).getElementType();
    narrow = reshape(narrow, tensor.clone(element), origin);
    auto [entry, isNew] =
        widened.try_emplace({narrow, type.getAsOpaquePointer()}, -1);
    if (!isNew)
      return entry->second;
    nest.sizes = llvm::to_vector(tensor.getShape());
    nest.isReduction.assign(nest.sizes.size(), false);
    LoopIndex index = llvm::to_vector(llvm::seq<int64_t>(0, nest.sizes.size()));
    nest.reads.front().index = nest.writes.front().index = index;
    int result = entry->second = addValue(type);
    widenings[result] = std::move(own);
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
void StepNests::addOpaque(Operation *op, bool isProduct, int origin) {
  SmallVector<int> operands;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (isa<TensorType>(operand.getType()) &&
          operand.getParentBlock() == op->getBlock())
        operands.push_back(isProduct ? materialiseForProduct(lookup(operand))
                                     : materialise(lookup(operand)));
  });
  numProducts += isProduct;
  bool isConstant = op->hasTrait<OpTrait::ConstantLike>();
  int added =
      addOp(isConstant ? OpKind::View : OpKind::Other, origin, operands);
  problem.ops[added].isLibraryCall = isProduct;
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
  for (LoopNest::Read &read : nest.reads)
    read.value = map[read.value];
  if (described.isGeneric)
    foldBroadcasts(nest);
  SmallVector<int64_t> key{static_cast<int64_t>(described.key)};
  SmallVector<int> operands;
  for (const LoopNest::Read &read : nest.reads) {
    key.push_back(read.value);
    llvm::append_range(key, read.index);
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
    widened[{nest.reads.front().value, types[result].getAsOpaquePointer()}] =
        result;
    widenings[result] = {std::move(nest), origin};
    return;
  }
  if (described.isBroadcast)
    broadcasts[result] = {nest.reads.front().value, nest.reads.front().index};
  llvm::SmallDenseMap<int, int> own; // widenings of this nest
  for (LoopNest::Read &read : nest.reads) {
    if (widenings.contains(read.value)) {
      auto [entry, isNew] = own.try_emplace(read.value, -1);
      if (isNew)
        entry->second = repeatWidening(read.value, origin);
      read.value = entry->second;
    }
    operands.push_back(read.value);
  }
  int op = addOp(OpKind::Nest, origin, operands);
  problem.ops[op].nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(std::move(nest));
  for (int value : entry->second)
    addResult(op, value);
}

/// The results of what does the same to the same operands, and whether there is
/// none yet.
std::pair<SmallVector<int, 1> &, bool>
StepNests::findEqual(size_t step, ArrayRef<int> operands) {
  SmallVector<int64_t> key{static_cast<int64_t>(step)};
  llvm::append_range(key, operands);
  auto [entry, isNew] = equal.try_emplace(hashKey(key));
  return {entry->second, isNew};
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
      bool isProduct = lowered.steps[step].isProduct;
      for (int value : lowered.steps[step].uses)
        operands.push_back(isProduct ? materialiseForProduct(map[value])
                                     : materialise(map[value]));
      auto [entry, isNew] = findEqual(lowered.steps[step].key, operands);
      if (isNew) {
        numProducts += isProduct;
        entry.push_back(addValue(lowered.types[own]));
        int call = addOp(OpKind::Other, origin, operands);
        problem.ops[call].isLibraryCall = isProduct;
        addResult(call, entry.front());
      }
      map[own] = entry.front();
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
    auto [entry, isNew] = findEqual(lowered.steps[step].key, operands);
    if (isNew) {
      int value = addValue(lowered.types[own]);
      problem.values[value].isUniform = lowered.problem.values[own].isUniform;
      problem.values[value].isFilled = lowered.problem.values[own].isFilled;
      addResult(addOp(like.kind, origin, operands), value);
      entry.push_back(value);
    }
    map[own] = entry.front();
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
  for (LoopNest::Read &read : nest.reads) {
    if (!isFull(read.index)) {
      for (int64_t &loop : read.index)
        loop = loop < 0 ? loop : place[loop];
      continue;
    }
    for (int from = read.value; repeated.contains(from);) {
      LoopNest &own =
          problem.nests[problem.ops[problem.values[from].maker].nest];
      own.sizes = sizes;
      from = own.reads.front().value;
    }
  }
  nest.sizes = std::move(sizes);
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
  bool readsF8 = !ops.empty() && multipliesF8(ops.front());
  for (auto [i, op] : llvm::enumerate(ops)) {
    position = static_cast<int>(i);
    if (readsF8 && addF8Product(op))
      continue;
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
      bool isProduct = lowered[i] && llvm::any_of(lowered[i]->steps,
                                                  [](const LoweredOp::Step &s) {
                                                    return s.isProduct;
                                                  });
      addOpaque(op, isProduct, position);
    }
  }
  removeDead();
}
