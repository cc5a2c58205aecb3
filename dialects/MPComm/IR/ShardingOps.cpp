//===- ShardingOps.cpp - resharding ---------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

LogicalResult ReshardOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getInput().getType());
  if (!type || type.getRank() != getSharding().getRank()) // reshard C1
    return emitOpError() << "expects a sharding with a list for each dimension "
                            "of "
                         << getInput().getType() << ", got " << getSharding();
  return success();
}

LogicalResult ReshardOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ShardingAttr sharding = getSharding();
  auto mesh =
      symbols.lookupNearestSymbolFrom<MeshOp>(*this, sharding.getMesh());
  if (!mesh)
    return emitOpError() << "names " << sharding.getMesh()
                         << ", which is not an mpcomm.mesh";
  std::string reason;
  if (failed(getLocalType(sharding,
                          cast<RankedTensorType>(getInput().getType()), mesh,
                          reason))) // reshard C2, C3
    return emitOpError() << reason;
  return success();
}

/// What is resharded twice is only resharded once.
OpFoldResult ReshardOp::fold(FoldAdaptor) {
  auto before = getInput().getDefiningOp<ReshardOp>();
  if (!before)
    return {};
  if (before.getSharding() == getSharding())
    return before.getResult();
  // Over what is not a value of the whole, the first one says how it is made.
  getInputMutable().assign(before.getInput());
  return getResult();
}

ShardingAttr mpcomm::getLocalSharding(FlatSymbolRefAttr mesh, ArrayAttr axes,
                                      int64_t rank) {
  Builder builder(mesh.getContext());
  ArrayAttr none = builder.getArrayAttr({});
  SmallVector<Attribute> dims(rank, none), own;
  for (auto axis : axes.getAsRange<StringAttr>())
    own.push_back(AxisRefAttr::get(mesh.getContext(), axis, 0, 0));
  return ShardingAttr::get(mesh.getContext(), mesh, builder.getArrayAttr(dims),
                           none, none, builder.getArrayAttr(own));
}

ShardingAttr mpcomm::getReshardTarget(Operation *op) {
  auto reshard = dyn_cast_if_present<ReshardOp>(op);
  return reshard ? reshard.getSharding() : ShardingAttr();
}
