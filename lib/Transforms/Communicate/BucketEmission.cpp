//===- BucketEmission.cpp - buckets as variadic collectives ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where buckets are, and tensors that travel in parts.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockCombiner.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"

using namespace mlir;
using namespace mpcomm;

/// The first op after the bucket's last operand that stays where it is.
Block::iterator BlockCombiner::getPlace(const PlacedBucket &bucket) {
  auto at =
      bucket.ready ? std::next(bucket.ready->getIterator()) : block.begin();
  SmallVector<Operation *> passed;
  for (; at != block.end(); ++at) {
    auto it = moving.find(&*at);
    if (it == moving.end())
      break;
    if (it->second) {
      at = *it->second;
      break;
    }
    passed.push_back(&*at);
  }
  for (Operation *op : passed)
    moving[op] = at;
  return at;
}

/// The elements of a member, in a row.
Value BlockCombiner::sliceMember(OpBuilder &builder,
                                 const PlacedBucket::Member &member) {
  Operation *op = member.candidate->getOp();
  Value value = op->getOperand(0);
  auto type = cast<RankedTensorType>(value.getType());
  value = reshapeTo(builder, op->getLoc(), value, type.getNumElements());
  return SliceOp::create(
      builder, op->getLoc(),
      RankedTensorType::get(member.count, type.getElementType()), value,
      ArrayRef<int64_t>(member.begin),
      ArrayRef<int64_t>(member.begin + member.count), ArrayRef<int64_t>(1));
}

/// Puts the reduced parts of `op` together, before `at`.
void BlockCombiner::joinParts(Operation *op, Block::iterator at) {
  OpBuilder builder(&block, at);
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  auto flat =
      RankedTensorType::get(type.getNumElements(), type.getElementType());
  Value joined = ConcatenateOp::create(builder, op->getLoc(), flat,
                                       pieces[op].values, /*dim=*/0);
  result.replaceAllUsesWith(
      reshapeTo(builder, op->getLoc(), joined, type.getShape()));
  op->erase();
}

void BlockCombiner::emit(PlacedBucket &bucket, Block::iterator at) {
  Operation *first = bucket.members.front().candidate->getOp();
  auto markCapped = [&](Operation *op) {
    if (bucket.isCapped)
      op->setAttr(kUserCapAttr, UnitAttr::get(op->getContext()));
  };
  if (bucket.members.size() == 1 && bucket.members.front().isWhole) {
    first->moveBefore(&block, at);
    return markCapped(first);
  }
  OpBuilder builder(&block, at);
  SmallVector<BucketOperand> operands;
  for (PlacedBucket::Member &member : bucket.members) {
    BucketableOpInterface op = member.candidate->op;
    if (!member.isWhole)
      operands.push_back({op, 0, sliceMember(builder, member)});
    else
      for (auto [i, operand] : llvm::enumerate(op->getOperands()))
        operands.push_back({op, static_cast<unsigned>(i), operand});
  }
  Operation *combined = createBucket(builder, operands);
  markCapped(combined);
  ResultRange results = combined->getResults();
  for (PlacedBucket::Member &member : bucket.members) {
    Operation *op = member.candidate->getOp();
    size_t count = member.isWhole ? op->getNumResults() : 1;
    if (member.isWhole) {
      op->replaceAllUsesWith(results.take_front(count));
      op->erase();
    } else {
      Pieces &reduced = pieces[op];
      reduced.values.push_back(results.front());
      if (--reduced.missing == 0)
        joinParts(op, at);
    }
    results = results.drop_front(count);
  }
}
