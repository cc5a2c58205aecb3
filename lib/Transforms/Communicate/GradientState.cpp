//===- GradientState.cpp - state that communication adds ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/GradientState.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

static ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : ArrayRef<int64_t>();
}

/// The argument that `value` is, or a part of.
static BlockArgument getWhole(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isa<AllSliceOp, ReshapeOp, PadOp>(def))
      return {};
    value = def->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

/// The parameter that `optimizer` updates by the gradient `use`.
static BlockArgument getParameter(OptimizerOpInterface optimizer,
                                  OpOperand &use) {
  if (!llvm::is_contained(optimizer.getGradientOperands(), &use))
    return {};
  for (Value operand : optimizer->getOperands()) {
    BlockArgument argument = getWhole(operand);
    auto step =
        argument
            ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
            : FunctionOpInterface();
    if (step && shapeOf(operand) == shapeOf(use.get()) &&
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
        if (OpResult factored = optimizer.getHandedOn(use)) {
          if (seen.insert(factored).second)
            worklist.push_back(factored);
          continue;
        }
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

GradientState::GradientState(FunctionOpInterface function, bool isTransient)
    : function(function), editor(function), isTransient(isTransient) {
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
  StringRef name = getArgumentName(function, parameter.getArgNumber());
  return add((name + suffix).str(), shape, mesh, axes);
}

FailureOr<BlockArgument> GradientState::add(StringRef name,
                                            ArrayRef<int64_t> shape,
                                            FlatSymbolRefAttr mesh,
                                            ArrayAttr axes) {
  Builder builder(function.getContext());
  StringAttr text = builder.getStringAttr(name);
  if (!taken.insert(text).second)
    return function.emitOpError()
           << "has an argument '" << text.getValue() << "', expected no such "
           << "name: it is that of state that communication adds";
  ShardingAttr sharding;
  if (axes)
    sharding = getLocalSharding(mesh, axes, static_cast<int64_t>(shape.size()));
  NamedAttrList attributes = attributesOf(text, sharding);
  attributes.set(kDefaultAttr, builder.getF32FloatAttr(0));
  attributes.set(kAddedAttr, builder.getStringAttr(isTransient ? kTransientState
                                                               : kKeptState));
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
