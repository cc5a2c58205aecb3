//===- Replicas.cpp - what all ranks of a group run and have --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Invariant: a rewrite replaces values by equal ones, so that what was
// replicated stays so; ops that are made are visited as they are inserted.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Replicas.h"
#include "Communicate/Communicator.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

RankFunctions::RankFunctions(ModuleOp module) {
  module.walk([&](Operation *op) {
    if (auto program = dyn_cast<ProgramOp>(op))
      programAxes.insert_range(program.getAxes());
    numMeshes += isa<MeshOp>(op);
  });
}

bool RankFunctions::areShared(ArrayAttr axes) const {
  return llvm::none_of(
      axes, [&](Attribute axis) { return programAxes.contains(axis); });
}

Replicas::Replicas(FunctionOpInterface function, const RankFunctions &ranks)
    : function(function), ranks(ranks), hasRoles(hasAllRoles(function)) {}

bool Replicas::isReplicated(Value value, CollectiveOpInterface op) {
  return isReplicated(value, op.getMeshAttr(), op.getAxesAttr());
}

bool Replicas::isReplicated(Value value, FlatSymbolRefAttr mesh,
                            ArrayAttr axes) {
  if (auto def = value.getDefiningOp<CollectiveOpInterface>();
      def && def.getMeshAttr() == mesh && coversAxes(def.getAxesAttr(), axes))
    switch (def.getCollectiveKind()) {
    case CollectiveKind::AllReduce:
    case CollectiveKind::AllGather:
    case CollectiveKind::Broadcast:
      return true;
    default:
      break;
    }
  if (!hasRoles || !ranks.hasOneMesh() || !ranks.areShared(axes))
    return false;
  return llvm::none_of(axes, [&](Attribute axis) {
    std::unique_ptr<AxisShardings> &shardings = byAxis[axis];
    if (!shardings)
      shardings = std::make_unique<AxisShardings>(
          function, cast<StringAttr>(axis).getValue());
    return shardings->varies(value);
  });
}

void Replicas::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  for (auto &[axis, shardings] : byAxis)
    shardings->add(op);
}

void Replicas::notifyOperationErased(Operation *op) {
  for (auto &[axis, shardings] : byAxis)
    shardings->forget(op);
}
