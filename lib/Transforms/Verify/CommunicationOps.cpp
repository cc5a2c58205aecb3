//===- CommunicationOps.cpp - collectives as the proof compares them ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What ranks have to agree on, counted as in mprt_collective, of a collective
// on tensors and of the start that it becomes.
//
//===----------------------------------------------------------------------===//

#include "Verify/CommunicationModel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"
#include <numeric>

using namespace mlir;
using namespace mpcomm;

static ProofKind kindOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return ProofKind::AllReduce;
  case CollectiveKind::ReduceScatter:
    return ProofKind::ReduceScatter;
  case CollectiveKind::AllGather:
    return ProofKind::AllGather;
  case CollectiveKind::AllToAll:
    return ProofKind::AllToAll;
  case CollectiveKind::Broadcast:
    return ProofKind::Broadcast;
  case CollectiveKind::Send:
    return ProofKind::Send;
  case CollectiveKind::Recv:
    return ProofKind::Recv;
  case CollectiveKind::Barrier:
    return ProofKind::Barrier;
  case CollectiveKind::Permute:
    return ProofKind::Permute;
  case CollectiveKind::Reduce:
    return ProofKind::Reduce;
  case CollectiveKind::Gather:
    return ProofKind::Gather;
  case CollectiveKind::Scatter:
    return ProofKind::Scatter;
  }
  llvm_unreachable("all kinds are listed");
}

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static void addToTag(ProofOp &op, const std::string &text) {
  op.tag += (op.tag.empty() ? "" : ", ") + text;
}

/// A list that those that meet have in common: a long one as its number of
/// `items` and a hash.
static void addList(ProofOp &op, ArrayRef<std::string> list,
                    StringRef separator, StringRef items, StringRef unit) {
  constexpr size_t mostShown = 6;
  std::string all = llvm::join(list, separator);
  if (list.size() <= mostShown)
    return addToTag(op, all + unit.str());
  addToTag(op, std::to_string(list.size()) + " " + items.str() + " " +
                   llvm::utohexstr(llvm::xxh3_64bits(all)));
}

/// Several tensors travel as one range: those that meet have the same ones.
static void addTensors(ProofOp &op, ArrayRef<std::string> tensors) {
  if (tensors.size() >= 2)
    addList(op, tensors, " + ", "tensors", " elements");
}

/// Which rank gives to which in a permute.
static void addTargets(ProofOp &op, ArrayRef<int64_t> targets) {
  SmallVector<std::string> pairs;
  for (auto [source, target] : llvm::enumerate(targets))
    if (target >= 0)
      pairs.push_back(std::to_string(source) + " to " + std::to_string(target));
  if (!pairs.empty())
    addList(op, pairs, ", ", "pairs", "");
}

/// The type in which sums of `element` are kept where `type` says nothing.
static Type accumulateOr(Type type, Type element) {
  return type ? type : mpcomm::detail::getSumType(element);
}

SmallVector<ProofOp> mpcomm::describeCollective(CollectiveOpInterface op) {
  ProofOp common;
  common.kind = kindOf(op.getCollectiveKind());
  if (auto tag = op->getAttrOfType<StringAttr>(kTagAttr))
    common.tag = tag.str();
  if (std::optional<int64_t> peer = op.getPeer())
    common.peer = ProofPeer::member(*peer);
  if (auto reduction = op.getCollectiveReduction())
    common.reduction = stringifyReduction(*reduction).str();
  auto elements = [](Value value) {
    return mpcomm::detail::countElements(value.getType());
  };
  auto describe = [&](Type type, int64_t count) {
    ProofOp result = common;
    Type wire = op.getWireType() ? op.getWireType() : type;
    result.count = count;
    result.type = textOf(type);
    result.wire = textOf(wire);
    if (!result.reduction.empty())
      result.accumulate = textOf(accumulateOr(op.getAccumulateType(), wire));
    return result;
  };
  if (op.getCollectiveKind() == CollectiveKind::Barrier)
    return {common};
  FailureOr<int64_t> group = op.getGroupSize();
  if (isa<BucketableOpInterface>(op.getOperation())) {
    // As convert-mpcomm-to-mprt starts them.
    llvm::MapVector<Type, SmallVector<int64_t>> byType;
    for (auto [operand, result] :
         llvm::zip_equal(op->getOperands(), op->getResults())) {
      int64_t count = elements(operand);
      if (op.getCollectiveKind() == CollectiveKind::ReduceScatter)
        count = elements(result);
      if (op.getCollectiveKind() == CollectiveKind::AllToAll &&
          succeeded(group))
        count /= *group;
      byType[getElementTypeOrSelf(operand.getType())].push_back(count);
    }
    SmallVector<ProofOp> results;
    for (auto &[type, counts] : byType) {
      results.push_back(describe(
          type, std::accumulate(counts.begin(), counts.end(), int64_t(0))));
      addTensors(results.back(), llvm::map_to_vector(counts, [](int64_t count) {
                   return std::to_string(count);
                 }));
    }
    return results;
  }
  if (succeeded(group))
    addTargets(common, op.getTargets(*group));
  if (op.getCollectiveKind() == CollectiveKind::Recv) {
    Value received = op->getResult(0);
    return {describe(getElementTypeOrSelf(received), elements(received))};
  }
  Value operand = op->getOperand(0);
  int64_t count = elements(operand);
  if (op.getCollectiveKind() == CollectiveKind::Scatter)
    count = elements(op->getResult(0));
  return {describe(getElementTypeOrSelf(operand.getType()), count)};
}

namespace {
/// Elements of a buffer from the start of what it is a view of.
struct Extent {
  Value base;
  int64_t begin = 0, end = 0;
};
} // namespace

/// Nothing for tensors, and for buffers whose place is not known yet.
static std::optional<Extent> rangeOf(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> strides;
  Extent range;
  if (!type || failed(type.getStridesAndOffset(strides, range.begin)) ||
      ShapedType::isDynamic(range.begin) ||
      !type.getElementType().isIntOrFloat())
    return std::nullopt;
  range.end = range.begin + type.getNumElements();
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8), shift = 0;
  range.base = buffer;
  while (Operation *op = range.base.getDefiningOp()) {
    if (auto view = dyn_cast<memref::ViewOp>(op)) {
      std::optional<int64_t> by = getConstantIntValue(view.getByteShift());
      if (!by)
        return std::nullopt;
      shift += *by;
      range.base = view.getSource();
    } else if (auto view = dyn_cast<ViewLikeOpInterface>(op)) {
      range.base = view.getViewSource();
    } else {
      break;
    }
  }
  range.begin += shift / bytes;
  range.end += shift / bytes;
  return range;
}

/// The outputs of an all_reduce travel with the gaps between them, if it is
/// known where they lie.
static void describeOutputs(ProofOp &result, ValueRange outputs) {
  SmallVector<std::string> tensors;
  std::optional<Extent> first = rangeOf(outputs.front());
  int64_t end = 0;
  bool known = true;
  for (Value output : outputs) {
    std::optional<Extent> range = rangeOf(output);
    known &= first && range && range->base == first->base;
    std::string size =
        std::to_string(cast<ShapedType>(output.getType()).getNumElements());
    if (known) {
      end = range->end;
      size += " at " + std::to_string(range->begin - first->begin);
    }
    tensors.push_back(size);
    result.count += cast<ShapedType>(output.getType()).getNumElements();
  }
  if (known)
    result.count = std::max<int64_t>(end - first->begin, 0);
  addTensors(result, tensors);
}

ProofOp mpcomm::describeStart(Operation *start) {
  auto op = cast<mprt::StartOp>(start);
  ProofOp result;
  CollectiveKind kind = *symbolizeCollectiveKind(op.getKind());
  result.kind = kindOf(kind);
  if (auto tag = op->getAttrOfType<StringAttr>(kTagAttr))
    result.tag = tag.str();
  // The runtime compares the numbers of all but messages.
  bool isMessage = mpcomm::detail::isMessage(kind);
  if (!isMessage)
    addToTag(result, "id " + std::to_string(op.getId()));
  if (isMessage || mpcomm::detail::hasRoot(kind))
    result.peer = ProofPeer::member(op.getPeer());
  if (std::optional<ArrayRef<int64_t>> targets = op.getTargets())
    addTargets(result, *targets);
  if (kind == CollectiveKind::Barrier)
    return result;
  result.type = textOf(getElementTypeOrSelf(op->getOperand(0).getType()));
  result.wire = result.type;
  if (mpcomm::detail::reduces(kind)) {
    result.reduction = op.getReduction().str();
    result.accumulate = textOf(op.getAccumulate());
  }
  auto elements = [](Value value) {
    return cast<ShapedType>(value.getType()).getNumElements();
  };
  switch (kind) {
  case CollectiveKind::AllReduce:
    describeOutputs(result, op.getOutputs());
    break;
  case CollectiveKind::ReduceScatter: // counted by what a rank keeps
  case CollectiveKind::Scatter:
    result.count = elements(op.getOutputs().front());
    break;
  case CollectiveKind::AllToAll: { // counted by block; the group comes first
    auto type = cast<ShapedType>(op.getOutputs().front().getType());
    if (type.getRank() && type.getDimSize(0))
      result.count = type.getNumElements() / type.getDimSize(0);
    break;
  }
  default:
    result.count = elements(op->getOperand(0));
  }
  return result;
}
