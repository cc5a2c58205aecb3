//===- Sharding.cpp - what a rank holds, as types -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpcomm;

FailureOr<int64_t> mpcomm::countRanks(ArrayAttr axes, MeshOp mesh,
                                      std::string &reason) {
  int64_t ranks = 1;
  for (auto axis : axes.getAsRange<AxisRefAttr>()) {
    std::optional<int64_t> size = mesh.getAxisSize(axis.getName());
    if (!size) {
      reason = "names axis \"" + axis.getName().str() + "\", which mesh @" +
               mesh.getSymName().str() + " does not have";
      return failure();
    }
    if (axis.isSubAxis()) {
      int64_t part =
          detail::multiplySaturated(axis.getPreSize(), axis.getSize());
      if (*size % part != 0) {
        reason = "splits axis \"" + axis.getName().str() + "\" of " +
                 std::to_string(*size) + " ranks into parts of " +
                 std::to_string(part);
        return failure();
      }
      size = axis.getSize();
    }
    ranks *= *size; // an axis counts once: at most all ranks of the mesh
  }
  return ranks;
}

FailureOr<RankedTensorType> mpcomm::getLocalType(ShardingAttr sharding,
                                                 RankedTensorType whole,
                                                 MeshOp mesh,
                                                 std::string &reason) {
  for (ArrayAttr axes : {sharding.getFlat(), sharding.getLocal()})
    if (failed(countRanks(axes, mesh, reason)))
      return failure();
  for (auto partial : sharding.getPartial().getAsRange<PartialAxisAttr>())
    if (failed(countRanks(
            ArrayAttr::get(sharding.getContext(), {partial.getAxis()}), mesh,
            reason)))
      return failure();
  if (sharding.isFlat()) {
    int64_t ranks = *countRanks(sharding.getFlat(), mesh, reason);
    return RankedTensorType::get(
        {static_cast<int64_t>(llvm::divideCeil(whole.getNumElements(), ranks))},
        whole.getElementType());
  }
  SmallVector<int64_t> shape(whole.getShape());
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    FailureOr<int64_t> ranks = countRanks(sharding.getDim(dim), mesh, reason);
    if (failed(ranks))
      return failure();
    if (shape[dim] % *ranks != 0) {
      reason = "splits dimension " + std::to_string(dim) + " of size " +
               std::to_string(shape[dim]) + " over " + std::to_string(*ranks) +
               " ranks, which do not divide it";
      return failure();
    }
    shape[dim] /= *ranks;
  }
  return RankedTensorType::get(shape, whole.getElementType());
}

ShardingAttr mpcomm::getArgumentSharding(FunctionOpInterface function,
                                         unsigned index) {
  return function.getArgAttrOfType<ShardingAttr>(index, kShardingAttr);
}

ShardingAttr mpcomm::getResultSharding(FunctionOpInterface function,
                                       unsigned index) {
  return function.getResultAttrOfType<ShardingAttr>(index, kShardingAttr);
}

Type mpcomm::getGlobalArgumentType(FunctionOpInterface function,
                                   unsigned index) {
  auto type = function.getArgAttrOfType<TypeAttr>(index, kGlobalTypeAttr);
  return type ? type.getValue() : function.getArgumentTypes()[index];
}

Type mpcomm::getGlobalResultType(FunctionOpInterface function, unsigned index) {
  auto type = function.getResultAttrOfType<TypeAttr>(index, kGlobalTypeAttr);
  return type ? type.getValue() : function.getResultTypes()[index];
}
