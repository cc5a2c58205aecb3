//===- Group.cpp - linalg ops that one kernel runs ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/Group.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

/// The most arithmetic that may be repeated for every row.
static constexpr unsigned kMaxCheapOps = 4;

bool mpcomm::readsInit(LinalgOp op, unsigned result) {
  OpOperand *init = op.getDpsInitOperand(result);
  Operation *def = init->get().getDefiningOp();
  return op.payloadUsesValueFromOperand(init) &&
         !isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(def);
}

static Index mapIndex(const KernelMember &member, AffineMap map) {
  Index index;
  for (AffineExpr expr : map.getResults()) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      index.push_back(member.loops[dim.getPosition()]);
    else
      index.push_back(-1 - cast<AffineConstantExpr>(expr).getValue());
  }
  return index;
}

Index mpcomm::getIndex(const KernelMember &member, OpOperand &operand) {
  return mapIndex(member,
                  cast<LinalgOp>(member.op).getMatchingIndexingMap(&operand));
}

Index mpcomm::getIndex(const KernelMember &member, OpResult result) {
  auto op = cast<LinalgOp>(member.op);
  return mapIndex(member, op.getIndexingMapMatchingResult(result));
}

SmallVector<Value> mpcomm::getCapturedTensors(Operation *op) {
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  return llvm::filter_to_vector(
      used, [](Value value) { return isa<TensorType>(value.getType()); });
}

bool mpcomm::isAccumulated(const KernelGroup &group,
                           const KernelMember &member) {
  auto iterators = cast<LinalgOp>(member.op).getIteratorTypesArray();
  int64_t last = static_cast<int64_t>(group.space.size()) - 1;
  for (auto [loop, iterator] : llvm::zip_equal(member.loops, iterators))
    if (iterator == utils::IteratorType::reduction && loop != last)
      return true;
  return false;
}

/// Whether the member runs over a leading part of the loops, in order.
static bool runsOverPrefix(const KernelMember &member) {
  return llvm::equal(member.loops, llvm::seq<int64_t>(0, member.loops.size()));
}

static bool isCheap(LinalgOp op) {
  if (op.getNumReductionLoops() != 0)
    return false;
  unsigned count = 0;
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (isa<arith::ConstantOp, linalg::IndexOp>(nested))
      continue;
    bool isSlow = isa<arith::DivFOp, arith::RemFOp, arith::DivSIOp,
                      arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(nested);
    if (!isa_and_nonnull<arith::ArithDialect>(nested.getDialect()) || isSlow)
      return false;
    ++count;
  }
  return count <= kMaxCheapOps;
}

std::string mpcomm::checkGroup(const KernelGroup &group,
                               function_ref<bool(OpResult)> isUsedOutside) {
  llvm::SmallDenseMap<Value, const KernelMember *> makers;
  for (const KernelMember &member : group.members) {
    auto op = cast<LinalgOp>(member.op);
    for (OpOperand *operand : op.getDpsInputOperands()) {
      const KernelMember *maker = makers.lookup(operand->get());
      if (!maker)
        continue;
      if (isAccumulated(group, *maker))
        return "reads a sum over rows that is not complete";
      if (getIndex(member, *operand) !=
          getIndex(*maker, cast<OpResult>(operand->get())))
        return "reads a tensor of its own kernel in another order";
    }
    for (Value captured : getCapturedTensors(op))
      if (makers.contains(captured))
        return "extracts from a tensor of its own kernel";
    for (auto [i, init] : llvm::enumerate(op.getDpsInits()))
      if (makers.contains(init) && readsInit(op, i))
        return "starts from a tensor of its own kernel";
    if (!runsOverPrefix(member) &&
        (!isCheap(op) || llvm::any_of(member.op->getResults(), isUsedOutside)))
      return "would be computed once per row";
    for (OpResult result : member.op->getResults())
      makers[result] = &member;
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
  bool add(const Index &first, const Index &second) {
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
  void suggest(const Index &first, const Index &second) {
    Correspondence copy = *this;
    if (copy.add(first, second))
      *this = std::move(copy);
  }

  SmallVector<int64_t> toSecond, toFirst;
};

/// Every access of a group to a tensor, by tensor.
struct Accesses {
  struct Access {
    Index index;
    bool isWrite;
  };
  llvm::MapVector<Value, SmallVector<Access, 1>> byTensor;

  explicit Accesses(const KernelGroup &group) {
    for (const KernelMember &member : group.members) {
      auto op = cast<LinalgOp>(member.op);
      for (OpOperand *operand : op.getDpsInputOperands())
        if (isa<TensorType>(operand->get().getType()))
          byTensor[operand->get()].push_back(
              {getIndex(member, *operand), false});
      for (OpResult result : member.op->getResults())
        byTensor[result].push_back({getIndex(member, result), true});
    }
  }
};

} // namespace

/// The correspondence of loops, or nothing where an intermediate would be read
/// in another order than it is written in.
static std::optional<Correspondence> correspond(const KernelGroup &first,
                                                const KernelGroup &second) {
  Accesses left(first), right(second);
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

std::optional<KernelGroup> mpcomm::unite(const KernelGroup &first,
                                         const KernelGroup &second) {
  std::optional<Correspondence> loops = correspond(first, second);
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
    return a.position < b.position;
  });
  return united;
}

int64_t KernelOperands::countBytes() const {
  int64_t bytes = 0;
  for (Value value : inputs)
    bytes += mpcomm::detail::countBytes(TypeRange{value.getType()});
  for (Value value : outputs)
    bytes += mpcomm::detail::countBytes(TypeRange{value.getType()});
  return bytes;
}

KernelOperands mpcomm::getOperands(const KernelGroup &group,
                                   function_ref<bool(OpResult)> isUsedOutside) {
  KernelOperands operands;
  llvm::DenseSet<Value> own;
  auto read = [&](Value value) {
    if (isa<TensorType>(value.getType()) && !own.contains(value) &&
        !matchPattern(value, m_Constant<SplatElementsAttr>(nullptr)))
      operands.inputs.insert(value);
  };
  for (const KernelMember &member : group.members) {
    if (auto op = dyn_cast<LinalgOp>(member.op)) {
      for (Value input : op.getDpsInputs())
        read(input);
      for (auto [i, init] : llvm::enumerate(op.getDpsInits()))
        if (readsInit(op, i))
          read(init);
    }
    for (Value captured : getCapturedTensors(member.op))
      read(captured);
    for (OpResult result : member.op->getResults()) {
      own.insert(result);
      bool startsOutside =
          isa<LinalgOp>(member.op) &&
          readsInit(cast<LinalgOp>(member.op), result.getResultNumber());
      if (startsOutside || isUsedOutside(result))
        operands.outputs.insert(result);
    }
  }
  return operands;
}
