//===- Communicator.cpp - who communicates, and in which order ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Identity of communicators, and which ops fix the order of collectives.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mpcomm;

Attribute mpcomm::getCommunicator(CollectiveOpInterface collective) {
  SmallVector<Attribute> key(collective.getAxesAttr().getValue());
  llvm::sort(key, [](Attribute a, Attribute b) {
    return cast<StringAttr>(a).getValue() < cast<StringAttr>(b).getValue();
  });
  key.push_back(collective.getMeshAttr());
  key.push_back(IntegerAttr::get(IntegerType::get(collective->getContext(), 64),
                                 collective.getChannel()));
  return ArrayAttr::get(collective->getContext(), key);
}

bool mpcomm::coversAxes(ArrayAttr outer, ArrayAttr inner) {
  return llvm::all_of(
      inner, [&](Attribute axis) { return llvm::is_contained(outer, axis); });
}

bool mpcomm::dependsOnOrder(CollectiveOpInterface op) {
  std::optional<Reduction> reduction = op.getCollectiveReduction();
  return reduction && *reduction != Reduction::Min &&
         *reduction != Reduction::Max &&
         llvm::any_of(op->getOperandTypes(), [](Type type) {
           return isa<FloatType>(getElementTypeOrSelf(type));
         });
}

bool mpcomm::dependsOnPlace(CollectiveOpInterface op) {
  if (!dependsOnOrder(op))
    return false;
  FailureOr<int64_t> group = op.getGroupSize();
  return failed(group) || *group > 2;
}

bool mpcomm::isMovableCollective(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || getAsync(op))
    return false;
  switch (collective.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Broadcast:
  case CollectiveKind::Permute:
  case CollectiveKind::Reduce:
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter:
    return true;
  case CollectiveKind::Send:
  case CollectiveKind::Recv:
  case CollectiveKind::Barrier:
    return false;
  }
  return false;
}

bool mpcomm::isMovableGather(Operation *op) {
  auto bucket = dyn_cast<BucketableOpInterface>(op);
  return bucket && bucket.isGather() && isMovableCollective(op);
}

bool mpcomm::isOrderingPoint(Operation *op) {
  return !isMemoryEffectFree(op) && !isMovableCollective(op);
}

Operation *mpcomm::getFirstUse(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
    if (here && (!first || here->isBeforeInBlock(first)))
      first = here;
  }
  return first;
}

bool mpcomm::isMovedOnce(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getFlops() == 0 && op->getNumOperands() == 1 &&
         op->hasOneUse() && op->user_begin()->getBlock() == op->getBlock();
}

Operation *mpcomm::getReader(Operation *use) {
  while (use && isMovedOnce(use))
    use = *use->user_begin();
  return use && use->hasTrait<OpTrait::IsTerminator>() ? nullptr : use;
}

Operation *mpcomm::getLatePlace(Operation *op) {
  llvm::SmallPtrSet<Operation *, 8> users;
  for (Operation *user : op->getUsers())
    users.insert(op->getBlock()->findAncestorOpInBlock(*user));
  bool isCut = false;
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    if (users.contains(next))
      return isCut ? next : nullptr;
    isCut |= isOrderingPoint(next);
  }
  return nullptr;
}

/// Whether the value is a part of state, or that in another type.
static bool isPartOfState(Value value) {
  // A parameter may be narrowed before it is gathered.
  llvm::SmallPtrSet<Operation *, 4> seen; // an op may be its own operand
  for (Operation *op = value.getDefiningOp();
       op && op->getNumOperands() == 1 && seen.insert(op).second &&
       OpTrait::hasElementwiseMappableTraits(op);
       op = value.getDefiningOp())
    value = op->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast_if_present<FunctionOpInterface>(
                                 argument.getOwner()->getParentOp())
                           : FunctionOpInterface();
  return function && getArgumentSharding(function, argument.getArgNumber());
}

bool mpcomm::gathersState(BucketableOpInterface op) {
  return op.getCollectiveKind() == CollectiveKind::AllGather &&
         llvm::all_of(op->getOperands(), isPartOfState);
}

int mpcomm::getGatherBefore(ArrayRef<int64_t> bytes, int64_t largest) {
  int last = static_cast<int>(bytes.size()) - 1, first = last;
  int64_t ahead = 0, limit = largest + largest / 4;
  while (first > 0 && (first == last || ahead + bytes[first - 1] <= limit))
    ahead += bytes[--first];
  return first - 1;
}
