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

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

static constexpr struct {
  int32_t kind;
  StringLiteral name;
} kKinds[] = {
    {MPRT_BIAS, "bias"},
    {MPRT_BIAS_GELU, "bias_gelu"},
    {MPRT_BIAS_GELU_AUX, "bias_gelu_aux"},
    {MPRT_GELU_GRAD, "gelu_grad"},
    {MPRT_BIAS_GRAD_A, "bias_grad_a"},
    {MPRT_BIAS_GRAD_B, "bias_grad_b"},
    {MPRT_SCALE, "scale"},
};

bool Epilogue::hasBias() const {
  return kind != MPRT_GELU_GRAD && kind != MPRT_SCALE;
}

bool Epilogue::canScale() const {
  return kind == MPRT_SCALE || kind == MPRT_BIAS || kind == MPRT_BIAS_GELU ||
         kind == MPRT_BIAS_GELU_AUX;
}

bool Epilogue::hasMatrix() const {
  return kind == MPRT_BIAS_GELU_AUX || kind == MPRT_GELU_GRAD;
}

std::optional<Epilogue> Epilogue::of(LaunchOp launch) {
  auto entries = launch->getAttrOfType<DictionaryAttr>(kEpilogueAttr);
  if (!entries)
    return std::nullopt;
  auto kind = entries.getAs<StringAttr>("kind");
  Epilogue epilogue;
  for (const auto &known : kKinds)
    if (kind && kind.getValue() == known.name)
      epilogue.kind = known.kind;
  auto operand = [&](StringRef name, int64_t &value) {
    auto number = entries.getAs<IntegerAttr>(name);
    if (!number)
      return false;
    value = number.getInt();
    return value >= 0 && value < static_cast<int64_t>(launch->getNumOperands());
  };
  auto isNumber = [&](int64_t value) {
    if (value < 0 || value >= static_cast<int64_t>(launch.getInputs().size()))
      return false;
    auto type = dyn_cast<ShapedType>(launch->getOperand(value).getType());
    return type && type.hasRank() && type.getRank() == 0 &&
           type.getElementType().isF32();
  };
  if (Attribute scales = entries.get("scales")) {
    auto numbers = dyn_cast<DenseI64ArrayAttr>(scales);
    if (!numbers || numbers.empty() || numbers.size() > 2 ||
        !epilogue.canScale() || !llvm::all_of(numbers.asArrayRef(), isNumber))
      return std::nullopt;
    epilogue.scales = llvm::to_vector(numbers.asArrayRef());
  }
  if (!epilogue.kind ||
      (epilogue.hasBias() && !operand("bias", epilogue.bias)) ||
      (epilogue.hasMatrix() && !operand("matrix", epilogue.matrix)) ||
      (epilogue.kind == MPRT_SCALE && epilogue.scales.empty()))
    return std::nullopt;
  return epilogue;
}

void Epilogue::set(LaunchOp launch) const {
  Builder b(launch.getContext());
  SmallVector<NamedAttribute> entries;
  for (const auto &known : kKinds)
    if (kind == known.kind)
      entries.push_back(b.getNamedAttr("kind", b.getStringAttr(known.name)));
  if (hasBias())
    entries.push_back(b.getNamedAttr("bias", b.getI64IntegerAttr(bias)));
  if (hasMatrix())
    entries.push_back(b.getNamedAttr("matrix", b.getI64IntegerAttr(matrix)));
  if (!scales.empty())
    entries.push_back(b.getNamedAttr("scales", b.getDenseI64ArrayAttr(scales)));
  launch->setAttr(kEpilogueAttr, b.getDictionaryAttr(entries));
}

SmallVector<LaunchOp, 2> mprt::epilogueOf(GemmOp product) {
  SmallVector<LaunchOp, 2> launches;
  auto isOne = [&](LaunchOp launch) {
    return launch && launch->hasAttr(kEpilogueAttr) &&
           (launches.empty() ||
            (launch->getOperands() == launches[0]->getOperands() &&
             launch->getAttr(kEpilogueAttr) ==
                 launches[0]->getAttr(kEpilogueAttr)));
  };
  Operation *next = nextOnStream(product);
  while (isOne(dyn_cast_or_null<LaunchOp>(next))) {
    launches.push_back(cast<LaunchOp>(next));
    next = nextOnStream(next);
  }
  return launches;
}

Operation *mprt::nextOnStream(Operation *op) {
  do
    op = op->getNextNode();
  while (op && isMemoryEffectFree(op) &&
         !op->hasTrait<OpTrait::IsTerminator>());
  return op;
}
