//===- AttentionCall.cpp - attention that is one call ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See AttentionCall.h.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"

using namespace mlir;
using namespace mpcomm::mprt;

std::optional<AttentionCall> AttentionCall::of(LaunchOp launch) {
  auto entries = launch->getAttrOfType<DictionaryAttr>(kAttentionAttr);
  if (!entries)
    return std::nullopt;
  auto kind = entries.getAs<StringAttr>("kind");
  auto scale = entries.getAs<FloatAttr>("scale");
  if (!kind || !scale || !scale.getType().isF64() ||
      (kind.getValue() != "attention" && kind.getValue() != "attention_grad"))
    return std::nullopt;
  AttentionCall call;
  call.isGradient = kind.getValue() == "attention_grad";
  call.scale = scale.getValueAsDouble();
  unsigned operands = launch->getNumOperands(), least = call.getNumOperands();
  if (operands != least && operands != least + 1)
    return std::nullopt;
  // Rows are of [batch, positions, heads, size], lse of [batch, heads, rows].
  bool hasMask = operands > least;
  unsigned lse = call.isGradient ? 5 : operands - 1;
  Type element = getElementTypeOrSelf(launch.getOperand(0).getType());
  if (!element.isBF16() && !element.isF16())
    return std::nullopt;
  for (unsigned i = 0; i < operands; ++i) {
    auto type = dyn_cast<MemRefType>(launch.getOperand(i).getType());
    bool isMask = hasMask && i == call.getMaskNumber();
    int64_t rank = isMask ? 2 : i == lse ? 3 : 4;
    if (!type || type.getRank() != rank ||
        (rank == 3 && !type.getElementType().isF32()) ||
        (rank == 4 && type.getElementType() != element))
      return std::nullopt;
  }
  return call;
}

void AttentionCall::set(AttentionOp op) {
  Builder b(op.getContext());
  op->setAttr(
      kAttentionAttr,
      b.getDictionaryAttr({b.getNamedAttr("kind", op.getKindAttr()),
                           b.getNamedAttr("scale", op.getScaleAttr())}));
}

SmallVector<LaunchOp, 4> mpcomm::mprt::attentionFrom(LaunchOp first) {
  SmallVector<LaunchOp, 4> launches;
  if (!AttentionCall::of(first))
    return launches;
  LaunchOp next = first;
  do {
    launches.push_back(next);
    next = dyn_cast_or_null<LaunchOp>(nextOnStream(next));
  } while (next && next->getAttrOfType<UnitAttr>(kAttentionAttr) &&
           next->getOperands() == first->getOperands());
  return launches;
}
