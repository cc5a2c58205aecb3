//===- Epilogue.cpp - launches that a product may take over ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Epilogue.h.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

std::optional<Epilogue> Epilogue::of(LaunchOp launch) {
  auto entries = launch->getAttrOfType<DictionaryAttr>(kEpilogueAttr);
  if (!entries)
    return std::nullopt;
  auto kind = entries.getAs<StringAttr>("kind");
  Epilogue epilogue;
  epilogue.kind = llvm::StringSwitch<int32_t>(kind ? kind.getValue() : "")
                      .Case("bias", MPRT_BIAS)
                      .Case("bias_gelu", MPRT_BIAS_GELU)
                      .Case("bias_gelu_aux", MPRT_BIAS_GELU_AUX)
                      .Default(0);
  auto operand = [&](StringRef name, int64_t &value) {
    auto number = entries.getAs<IntegerAttr>(name);
    if (!number)
      return false;
    value = number.getInt();
    return value >= 0 && value < static_cast<int64_t>(launch->getNumOperands());
  };
  if (!epilogue.kind || !operand("bias", epilogue.bias) ||
      (epilogue.kind == MPRT_BIAS_GELU_AUX &&
       !operand("result", epilogue.result)))
    return std::nullopt;
  return epilogue;
}

void Epilogue::set(LaunchOp launch) const {
  Builder b(launch.getContext());
  StringRef name = kind == MPRT_BIAS        ? "bias"
                   : kind == MPRT_BIAS_GELU ? "bias_gelu"
                                            : "bias_gelu_aux";
  SmallVector<NamedAttribute> entries{
      b.getNamedAttr("kind", b.getStringAttr(name)),
      b.getNamedAttr("bias", b.getI64IntegerAttr(bias))};
  if (kind == MPRT_BIAS_GELU_AUX)
    entries.push_back(b.getNamedAttr("result", b.getI64IntegerAttr(result)));
  launch->setAttr(kEpilogueAttr, b.getDictionaryAttr(entries));
}

Operation *mprt::nextOnStream(Operation *op) {
  do
    op = op->getNextNode();
  while (op && isMemoryEffectFree(op) &&
         !op->hasTrait<OpTrait::IsTerminator>());
  return op;
}
