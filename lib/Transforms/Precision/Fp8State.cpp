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

Fp8State::Fp8State(func::FuncOp function, const Fp8Recipe &recipe)
    : function(function), recipe(recipe), editor(function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (StringRef name = getArgumentName(function, i); !name.empty())
      numbers.try_emplace(name, i);
}

std::string Fp8State::nameOf(Value root, bool isGradient) {
  if (auto argument = dyn_cast<BlockArgument>(root))
    return (getArgumentName(function, argument.getArgNumber()) + ".fp8").str();
  return isGradient ? "fp8.gradient." + std::to_string(gradients++)
                    : "fp8.activation." + std::to_string(activations++);
}

FailureOr<Value> Fp8State::addArgument(const Twine &name,
                                       ArrayRef<int64_t> shape, float initial) {
  std::string text = name.str();
  unsigned index = function.getFunctionBody().getNumArguments();
  if (auto [taken, added] = numbers.try_emplace(text, index); !added)
    return function.emitOpError()
           << "has argument #" << taken->second << " '" << text
           << "', expected no such name: it is that of state of 8-bit tensors";
  Builder builder(function.getContext());
  NamedAttrList attributes;
  attributes.set(kRoleAttr,
                 RoleAttr::get(function.getContext(), Role::LossScale));
  attributes.set(kNameAttr, builder.getStringAttr(text));
  attributes.set(kDefaultAttr, builder.getF32FloatAttr(initial));
  Value argument =
      editor.addArgument(RankedTensorType::get(shape, builder.getF32Type()),
                         attributes, function.getLoc());
  names[argument] = builder.getStringAttr(text);
  return argument;
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
  NamedAttrList attributes;
  attributes.set(kRoleAttr,
                 RoleAttr::get(function.getContext(), Role::LossScale));
  attributes.set(kNameAttr, names.lookup(argument));
  unsigned result = editor.addResult(value, attributes);
  editor.setArgument(cast<BlockArgument>(argument).getArgNumber(), kDonatedAttr,
                     builder.getI64IntegerAttr(result));
}

void Fp8State::update(Value amax, FloatType format) {
  OpBuilder builder(function.getBody().front().getTerminator());
  auto next = UpdateFp8ScaleOp::create(
      builder, amax.getLoc(), history, scale, amax, TypeAttr::get(format),
      builder.getI64IntegerAttr(recipe.margin));
  addResult(history, next.getNewHistory());
  addResult(scale, next.getNewScale());
}
