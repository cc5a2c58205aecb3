//===- BucketLayout.cpp - what a bucket sends and receives ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BucketLayout.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"

using namespace mlir;
using namespace mpcomm;

Value mpcomm::moveDim(OpBuilder &builder, Location loc, Value value,
                      int64_t from, int64_t to) {
  if (from == to)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  dims.erase(dims.begin() + from);
  dims.insert(dims.begin() + to, from);
  SmallVector<int64_t> shape;
  for (int64_t d : dims)
    shape.push_back(type.getDimSize(d));
  return TransposeOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
      dims);
}

Value mpcomm::splitToFront(OpBuilder &builder, Location loc, Value value,
                           int64_t dim, int64_t group) {
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(value.getType()).getShape());
  shape[dim] /= group;
  shape.insert(shape.begin() + dim, group);
  return moveDim(builder, loc, reshapeTo(builder, loc, value, shape), dim, 0);
}

Value mpcomm::joinFromFront(OpBuilder &builder, Location loc, Value value,
                            int64_t dim) {
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(value.getType()).getShape());
  int64_t group = shape.front();
  shape.erase(shape.begin());
  shape[dim] *= group;
  return reshapeTo(builder, loc, moveDim(builder, loc, value, 0, dim), shape);
}

BucketLayout::BucketLayout(BucketableOpInterface op, ArrayRef<unsigned> slots,
                           int64_t group, Type wire)
    : group(group), wire(wire), sendsToAll(!isa<AllGatherOp>(op)),
      receivesFromAll(!isa<ReduceScatterOp>(op)) {
  auto getDim = [&](StringRef list, unsigned slot) -> int64_t {
    auto dims = op->getAttrOfType<DenseI64ArrayAttr>(list);
    return dims ? dims[slot] : -1;
  };
  bool exchanges = sendsToAll && receivesFromAll;
  for (unsigned slot : slots) {
    Member member{op->getOperand(slot),
                  cast<RankedTensorType>(op->getResult(slot).getType()),
                  getDim(exchanges ? "split_dims" : "dims", slot),
                  getDim(exchanges ? "concat_dims" : "dims", slot), 0};
    member.blockSize = mpcomm::detail::countElements(member.operand.getType());
    if (sendsToAll)
      member.blockSize /= group;
    members.push_back(member);
  }
}

Value BucketLayout::pack(OpBuilder &builder, Location loc) const {
  SmallVector<int64_t> shape = {0};
  if (sendsToAll)
    shape.insert(shape.begin(), group);
  int64_t rowSize = 0;
  SmallVector<Value> sent;
  for (const Member &member : members) {
    Value value = member.operand;
    if (sendsToAll)
      value = splitToFront(builder, loc, value, member.splitDim, group);
    if (members.size() > 1) {
      shape.back() = member.blockSize;
      value = reshapeTo(builder, loc, value, shape);
    }
    // Last: the cast can write the rows in their place.
    sent.push_back(castFloat(builder, loc, value, wire));
    rowSize += member.blockSize;
  }
  if (sent.size() == 1)
    return sent.front();
  shape.back() = rowSize;
  return ConcatenateOp::create(builder, loc, RankedTensorType::get(shape, wire),
                               sent, /*dim=*/shape.size() - 1);
}

SmallVector<int64_t>
BucketLayout::getReceivedShape(const Member &member) const {
  SmallVector<int64_t> shape(member.result.getShape());
  if (receivesFromAll) {
    shape[member.joinDim] /= group;
    shape.insert(shape.begin(), group);
  }
  return shape;
}

SmallVector<int64_t> BucketLayout::getReceivedShape() const {
  if (members.size() == 1)
    return getReceivedShape(members.front());
  SmallVector<int64_t> shape = {0};
  for (const Member &member : members)
    shape.back() += member.blockSize;
  if (receivesFromAll)
    shape.insert(shape.begin(), group);
  return shape;
}

SmallVector<Value> BucketLayout::unpack(OpBuilder &builder, Location loc,
                                        Value received) const {
  SmallVector<Value> results;
  SmallVector<int64_t> shape = getReceivedShape();
  SmallVector<int64_t> begins(shape.size(), 0), ones(shape.size(), 1);
  for (const Member &member : members) {
    Value part = received;
    if (members.size() > 1) {
      shape.back() = member.blockSize;
      SmallVector<int64_t> limits(shape);
      limits.back() += begins.back();
      part = SliceOp::create(builder, loc, RankedTensorType::get(shape, wire),
                             received, begins, limits, ones);
      begins.back() = limits.back();
    }
    part = castFloat(builder, loc, part, member.result.getElementType());
    part = reshapeTo(builder, loc, part, getReceivedShape(member));
    if (receivesFromAll)
      part = joinFromFront(builder, loc, part, member.joinDim);
    results.push_back(part);
  }
  return results;
}
