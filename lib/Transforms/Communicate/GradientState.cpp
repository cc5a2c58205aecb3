//===- GradientState.cpp - what compression keeps of gradients ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/GradientState.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

static ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : ArrayRef<int64_t>();
}

/// The parameter that `optimizer` updates by the gradient `use`.
static BlockArgument getParameter(OptimizerOpInterface optimizer,
                                  OpOperand &use) {
  if (!llvm::is_contained(optimizer.getGradientOperands(), &use))
    return {};
  for (Value operand : optimizer->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    auto step =
        argument
            ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
            : FunctionOpInterface();
    if (step && shapeOf(argument) == shapeOf(use.get()) &&
        getArgumentRole(step, argument.getArgNumber()) == Role::Parameter)
      return argument;
  }
  return {};
}

BlockArgument mpcomm::findParameterOf(Value gradient) {
  SmallVector<Value> worklist = {gradient};
  llvm::DenseSet<Value> seen = {gradient};
  BlockArgument found;
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      if (auto optimizer = dyn_cast<OptimizerOpInterface>(use.getOwner())) {
        BlockArgument parameter = getParameter(optimizer, use);
        if (parameter && found && found != parameter)
          return {};
        found = parameter ? parameter : found;
        continue;
      }
      for (Value result : use.getOwner()->getResults())
        if (shapeOf(result) == shapeOf(gradient) && seen.insert(result).second)
          worklist.push_back(result);
    }
  return found;
}

GradientState::GradientState(FunctionOpInterface function)
    : function(function), editor(function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    taken.insert(getArgumentName(function, i));
}

NamedAttrList GradientState::attributesOf(StringAttr name,
                                          ShardingAttr sharding) const {
  NamedAttrList attributes;
  attributes.set(kRoleAttr,
                 RoleAttr::get(name.getContext(), Role::OptimizerState));
  attributes.set(kNameAttr, name);
  if (sharding)
    attributes.set(kShardingAttr, sharding);
  return attributes;
}

FailureOr<BlockArgument> GradientState::add(BlockArgument parameter,
                                            StringRef suffix,
                                            ArrayRef<int64_t> shape,
                                            FlatSymbolRefAttr mesh,
                                            ArrayAttr axes) {
  Builder builder(function.getContext());
  StringRef name = getArgumentName(function, parameter.getArgNumber());
  StringAttr text = builder.getStringAttr(name + suffix);
  if (!taken.insert(text).second)
    return function.emitOpError()
           << "has an argument '" << text.getValue() << "', expected no such "
           << "name: it is that of state of compressed gradients";
  ShardingAttr sharding;
  if (axes) {
    ArrayAttr none = builder.getArrayAttr({});
    SmallVector<Attribute> dims(shape.size(), none), own;
    for (auto axis : axes.getAsRange<StringAttr>())
      own.push_back(AxisRefAttr::get(function.getContext(), axis, 0, 0));
    sharding = ShardingAttr::get(function.getContext(), mesh,
                                 builder.getArrayAttr(dims), none, none,
                                 builder.getArrayAttr(own));
  }
  NamedAttrList attributes = attributesOf(text, sharding);
  attributes.set(kDefaultAttr, builder.getF32FloatAttr(0));
  BlockArgument argument =
      editor.addArgument(RankedTensorType::get(shape, builder.getF32Type()),
                         attributes, function.getLoc());
  added[argument] = {text, sharding};
  return argument;
}

void GradientState::setNext(BlockArgument argument, Value value) {
  auto [name, sharding] = added.lookup(argument);
  unsigned result = editor.addResult(value, attributesOf(name, sharding));
  editor.setArgument(argument.getArgNumber(), kDonatedAttr,
                     Builder(function.getContext()).getI64IntegerAttr(result));
}
