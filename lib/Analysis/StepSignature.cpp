//===- StepSignature.cpp - roles and names of a step ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lookups in the argument and result dictionaries of a function.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

func::FuncOp mpcomm::getTrainStep(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(kTrainStep);
  if (step && !step.isExternal())
    return step;
  module.emitError() << "expected a function @" << kTrainStep << " with a body";
  return func::FuncOp();
}

void mpcomm::forEachFunction(
    ModuleOp module, llvm::function_ref<void(FunctionOpInterface)> callback) {
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto function = dyn_cast<FunctionOpInterface>(op);
    if (!function)
      return WalkResult::advance();
    callback(function);
    return WalkResult::skip();
  });
}

std::optional<Role> mpcomm::getArgumentRole(FunctionOpInterface function,
                                            unsigned index) {
  if (auto role = function.getArgAttrOfType<RoleAttr>(index, kRoleAttr))
    return role.getValue();
  return std::nullopt;
}

bool mpcomm::hasAllRoles(FunctionOpInterface function) {
  return llvm::all_of(llvm::seq(function.getNumArguments()), [&](unsigned i) {
    return getArgumentRole(function, i).has_value();
  });
}

std::optional<Role> mpcomm::getResultRole(FunctionOpInterface function,
                                          unsigned index) {
  if (auto role = function.getResultAttrOfType<RoleAttr>(index, kRoleAttr))
    return role.getValue();
  return std::nullopt;
}

StringRef mpcomm::getArgumentName(FunctionOpInterface function,
                                  unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue() : StringRef();
}

StringRef mpcomm::getResultName(FunctionOpInterface function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue() : StringRef();
}

std::optional<int64_t> mpcomm::getDonation(FunctionOpInterface function,
                                           unsigned index) {
  if (auto donated =
          function.getArgAttrOfType<IntegerAttr>(index, kDonatedAttr))
    return donated.getInt();
  return std::nullopt;
}

BlockArgument mpcomm::getDonor(FunctionOpInterface function, unsigned result) {
  for (BlockArgument argument : function.getFunctionBody().getArguments())
    if (getDonation(function, argument.getArgNumber()) == int64_t(result))
      return argument;
  return {};
}

bool mpcomm::isStateRole(Role role) {
  switch (role) {
  case Role::Parameter:
  case Role::OptimizerState:
  case Role::Buffer:
  case Role::LossScale:
  case Role::Rng:
    return true;
  case Role::Batch:
  case Role::Hyperparameter:
  case Role::Loss:
  case Role::Output:
    return false;
  }
  return false;
}

bool mpcomm::isReplicatedRole(Role role) {
  return isStateRole(role) && role != Role::Rng;
}

static std::string describe(StringRef what, unsigned index, StringRef name) {
  std::string text = (what + " #" + std::to_string(index)).str();
  if (!name.empty())
    text += (" '" + name + "'").str();
  return text;
}

std::string mpcomm::describeArgument(FunctionOpInterface function,
                                     unsigned index) {
  return describe("argument", index, getArgumentName(function, index));
}

std::string mpcomm::describeResult(FunctionOpInterface function,
                                   unsigned index) {
  return describe("result", index, getResultName(function, index));
}
