//===- Destinations.cpp - where the results of a kernel go ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FormKernels/Outline.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

Donations::Donations(Block &block) {
  auto function = dyn_cast<FunctionOpInterface>(block.getParentOp());
  if (!function || !block.isEntryBlock())
    return;
  Operation *terminator = block.getTerminator();
  if (!terminator->hasTrait<OpTrait::ReturnLike>())
    return;
  for (BlockArgument argument : block.getArguments()) {
    auto result = function.getArgAttrOfType<IntegerAttr>(
        argument.getArgNumber(), kDonatedAttr);
    if (!result || !result.getValue().isSignedIntN(32))
      continue;
    int64_t number = result.getInt();
    if (number >= 0 && number < terminator->getNumOperands() &&
        terminator->getOperand(number).getType() == argument.getType())
      ofResult.try_emplace(terminator->getOperand(number), argument);
  }
}

/// Whether the inputs of the group allow `tensor` to be replaced by `result`:
/// each is read by the index that the result is written by. `isRead` tells
/// whether one is `tensor` at all.
static bool readsWhereWritten(const KernelGroup &group, OpResult result,
                              Value tensor, bool &isRead) {
  const KernelMember *maker =
      llvm::find_if(group.members, [&](const KernelMember &m) {
        return m.op == result.getOwner();
      });
  Index written = getIndex(*maker, result);
  isRead = false;
  for (const KernelMember &member : group.members) {
    auto op = cast<LinalgOp>(member.op);
    for (OpOperand *operand : op.getDpsInputOperands()) {
      if (operand->get() != tensor)
        continue;
      isRead = true;
      if (getIndex(member, *operand) != written)
        return false;
    }
    if (llvm::is_contained(getCapturedTensors(op), tensor)) {
      isRead = true;
      return false;
    }
  }
  return !isRead || !isAccumulated(group, *maker);
}

/// Whether the memory of `tensor` can take `result`: nothing but the group
/// reads `tensor` from now on, and the group reads it by the index that it
/// writes the result by. `isRead` tells whether it reads it at all.
static bool canHold(const Grouping &grouping, const KernelGroup &group,
                    OpResult result, Value tensor, bool &isRead) {
  if (tensor.getType() != result.getType() ||
      !readsWhereWritten(group, result, tensor, isRead))
    return false;
  for (const KernelMember &member : group.members) {
    auto op = cast<LinalgOp>(member.op);
    for (auto [i, init] : llvm::enumerate(op.getDpsInits()))
      if (init == tensor && readsInit(op, i))
        return false;
  }
  return grouping.getLastUse(&group, tensor) <= group.slot;
}

SmallVector<Destination>
mpcomm::chooseDestinations(const Grouping &grouping, const KernelGroup &group,
                           const KernelOperands &operands,
                           const Donations &donations, bool reuseOperands) {
  llvm::DenseSet<Value> taken;
  SmallVector<Destination> chosen;
  for (OpResult result : operands.outputs) {
    Destination destination{result, nullptr};
    auto op = cast<LinalgOp>(result.getOwner());
    if (readsInit(op, result.getResultNumber())) {
      destination.tensor =
          op.getDpsInitOperand(result.getResultNumber())->get();
      bool isRead;
      bool inPlace =
          readsWhereWritten(group, result, destination.tensor, isRead);
      destination.isUpdated = isRead && inPlace;
      destination.isInput = isRead && !inPlace;
    }
    chosen.push_back(destination);
  }
  auto take = [&](Destination &destination, Value tensor) {
    bool isRead;
    if (taken.contains(tensor) ||
        !canHold(grouping, group, destination.result, tensor, isRead))
      return false;
    destination.tensor = tensor;
    destination.isUpdated = isRead;
    return taken.insert(tensor).second;
  };
  for (Destination &destination : chosen)
    if (BlockArgument donor = donations.ofResult.lookup(destination.result);
        donor && !destination.tensor)
      (void)take(destination, donor);
  if (!reuseOperands)
    return chosen;
  for (Destination &destination : chosen)
    for (Value input : operands.inputs) {
      if (destination.tensor)
        break;
      Operation *def = input.getDefiningOp();
      if (isa_and_nonnull<linalg::ContractOp, mprt::AttentionOp, mprt::LaunchOp,
                          mprt::ConvolutionOp, mprt::PoolOp>(def) &&
          input.getType() == destination.result.getType() &&
          !grouping.hasUseOutside(&group, input))
        (void)take(destination, input);
    }
  return chosen;
}
