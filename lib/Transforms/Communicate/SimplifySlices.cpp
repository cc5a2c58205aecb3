//===- SimplifySlices.cpp - what only a block is used of ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An all_slice of an all_gather or of an all_reduce. Between the reduction and
// the slice may be reshapes: elements are reduced each by itself, so that the
// operand is reshaped as well as the result.
//
//===----------------------------------------------------------------------===//

#include "Communicate/CollectiveSimplifier.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"

using namespace mlir;
using namespace mpcomm;

/// Whether a reduce_scatter over the axes of `op` and an all_reduce of the
/// block over the `others` take less time than `reduced` over all of them. The
/// other order, all_reduce first, moves more in the one and as much in the
/// other.
bool CollectiveSimplifier::isScatterFaster(AllSliceOp op, AllReduceOp reduced,
                                           ArrayAttr others) {
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  FailureOr<CostCurve> whole = model.getCollective(reduced);
  if (!mesh || failed(whole))
    return false;
  auto getCost = [&](CollectiveKind kind, ArrayAttr axes, int64_t bytes) {
    auto spans = llvm::map_to_vector(mesh.getAxisNames(), [&](Attribute axis) {
      return llvm::is_contained(axes, axis);
    });
    GroupShape shape =
        getGroupShape(model.getCluster(), mesh.getAxisSizes(), spans);
    return model.getCollective(kind, shape).at(bytes);
  };
  int64_t bytes = CostModel::getWireBytes(reduced);
  FailureOr<int64_t> group =
      mpcomm::detail::lookupGroupSize(op, op.getMeshAttr(), op.getAxes());
  if (failed(group))
    return false;
  return getCost(CollectiveKind::ReduceScatter, op.getAxesAttr(), bytes) +
             getCost(CollectiveKind::AllReduce, others, bytes / *group) <
         whole->at(bytes);
}

/// The block of `op` of what `reduced` reduces, or null where that is not
/// cheaper or not allowed.
Value CollectiveSimplifier::scatter(AllSliceOp op, AllReduceOp reduced) {
  Value input = reduced.getInputs().front();
  if (op.getMeshAttr() != reduced.getMeshAttr() ||
      !coversAxes(reduced.getAxesAttr(), op.getAxesAttr()) ||
      rounds(reduced, input.getType()))
    return Value();
  SmallVector<Attribute> others;
  llvm::copy_if(
      reduced.getAxes(), std::back_inserter(others),
      [&](Attribute axis) { return !llvm::is_contained(op.getAxes(), axis); });
  lastNeeded =
      others.empty() ? getMovedClass(reduced) : getReorderedClass(reduced);
  ArrayAttr otherAxes = ArrayAttr::get(op.getContext(), others);
  if (!allows(lastNeeded) ||
      (!others.empty() && !isScatterFaster(op, reduced, otherAxes)))
    return Value();
  OpBuilder builder = getBuilder(op);
  input = reshapeTo(builder, reduced.getLoc(), input,
                    cast<RankedTensorType>(op.getInput().getType()).getShape());
  auto scattered = ReduceScatterOp::create(
      builder, reduced.getLoc(), op.getType(), input, op.getMeshAttr(),
      op.getAxesAttr(), reduced.getReductionAttr(),
      builder.getDenseI64ArrayAttr(op.getDim()), reduced.getWireAttr(),
      reduced.getAccumulateAttr(), reduced.getChannelAttr());
  if (others.empty())
    return scattered.getOutputs().front();
  return AllReduceOp::create(builder, reduced.getLoc(), scattered.getOutputs(),
                             op.getMeshAttr(), otherAxes,
                             reduced.getReductionAttr(), reduced.getWireAttr(),
                             reduced.getAccumulateAttr(),
                             reduced.getChannelAttr())
      .getOutputs()
      .front();
}

bool CollectiveSimplifier::simplify(AllSliceOp op) {
  if (Value block = getGatheredBlock(op.getInput(), op,
                                     static_cast<int64_t>(op.getDim()))) {
    lastNeeded = Numerics::Exact;
    replace(op, block, "SlicedGather");
    return true;
  }
  Value source = op.getInput();
  while (auto reshape = source.getDefiningOp<ReshapeOp>()) {
    if (!source.hasOneUse())
      return false;
    source = reshape.getInput();
  }
  auto reduced = source.getDefiningOp<AllReduceOp>();
  // An all_slice may be where some ranks never come; a collective may not.
  if (!reduced || !mayChange(reduced) ||
      reduced->getBlock() != op->getBlock() ||
      reduced.getInputs().size() != 1 || !source.hasOneUse())
    return false;
  Value block = scatter(op, reduced);
  if (!block)
    return false;
  bool isPart = !isSameGroup(op, reduced);
  Value middle = op.getInput();
  replace(op, block, isPart ? "SlicedOverSome" : "SlicedReduction");
  while (auto reshape = middle.getDefiningOp<ReshapeOp>()) {
    middle = reshape.getInput();
    erase(reshape);
  }
  Operation *last = block.getDefiningOp();
  if (isPart)
    visit(last->getOperand(0).getDefiningOp());
  visit(last);
  return true;
}
