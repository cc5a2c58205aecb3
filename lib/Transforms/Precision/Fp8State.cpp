//===- Fp8State.cpp - what a step keeps of 8-bit tensors ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Fp8State.h. Before the first step nothing is known of a tensor: its scale
// is 1.
//
//===----------------------------------------------------------------------===//

#include "Precision/Fp8State.h"
#include "mlir/IR/Builders.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

std::string Fp8State::nameOf(Value root, bool isGradient) {
  if (auto argument = dyn_cast<BlockArgument>(root))
    return (getArgumentName(function, argument.getArgNumber()) + ".fp8").str();
  return isGradient ? "fp8.gradient." + std::to_string(gradients++)
                    : "fp8.activation." + std::to_string(activations++);
}

FailureOr<Value> Fp8State::addArgument(const Twine &name,
                                       ArrayRef<int64_t> shape, float initial) {
  std::string text = name.str();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getArgumentName(function, i) == text)
      return function.emitOpError()
             << "has " << describeArgument(function, i)
             << ", expected no such name: it is that of state of 8-bit tensors";
  Builder builder(function.getContext());
  NamedAttrList attributes;
  attributes.set(kRoleAttr,
                 RoleAttr::get(function.getContext(), Role::LossScale));
  attributes.set(kNameAttr, builder.getStringAttr(text));
  attributes.set(kDefaultAttr, builder.getF32FloatAttr(initial));
  unsigned index = function.getNumArguments();
  if (failed(function.insertArgument(
          index, RankedTensorType::get(shape, builder.getF32Type()),
          attributes.getDictionary(function.getContext()), function.getLoc())))
    return failure();
  return Value(function.getArgument(index));
}

FailureOr<Value> Fp8State::addScale(StringRef name) {
  FailureOr<Value> first =
      addArgument(name + ".amax_history", {recipe.history}, 0);
  if (failed(first))
    return failure();
  FailureOr<Value> second = addArgument(name + ".scale", {}, 1);
  if (failed(second))
    return failure();
  history = *first;
  scale = *second;
  return scale;
}

void Fp8State::addResult(Value argument, Value value) {
  Builder builder(function.getContext());
  unsigned from = cast<BlockArgument>(argument).getArgNumber();
  unsigned index = function.getNumResults();
  NamedAttrList attributes;
  attributes.set(kRoleAttr,
                 RoleAttr::get(function.getContext(), Role::LossScale));
  attributes.set(kNameAttr, function.getArgAttr(from, kNameAttr));
  (void)function.insertResult(index, value.getType(),
                              attributes.getDictionary(function.getContext()));
  function.getBody().front().getTerminator()->insertOperands(index, value);
  function.setArgAttr(from, kDonatedAttr, builder.getI64IntegerAttr(index));
}

void Fp8State::update(Value amax, FloatType format) {
  OpBuilder builder(function.getBody().front().getTerminator());
  auto next = UpdateFp8ScaleOp::create(
      builder, amax.getLoc(), history, scale, amax, TypeAttr::get(format),
      builder.getI64IntegerAttr(recipe.margin));
  addResult(history, next.getNewHistory());
  addResult(scale, next.getNewScale());
}
