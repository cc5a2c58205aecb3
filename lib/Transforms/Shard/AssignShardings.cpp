//===- AssignShardings.cpp - what of the state each rank holds ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The training step says what can be split; state has that sharding in every
// function that knows it by its name.
//
//===----------------------------------------------------------------------===//

#include "Shard/FlatOps.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mpcomm {
#define GEN_PASS_DEF_ASSIGNSHARDINGSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-assign-shardings"

using namespace mlir;
using namespace mpcomm;

namespace {

class AssignShardings
    : public mpcomm::impl::AssignShardingsPassBase<AssignShardings> {
public:
  using AssignShardingsPassBase::AssignShardingsPassBase;
  void runOnOperation() override;

private:
  void examine(func::FuncOp function, int64_t ranks);
  void assign(func::FuncOp function, MeshOp mesh);

  llvm::StringMap<bool> isSplit; // by name of state
};

/// Whether `use` is of an update of `step`: it ends in an optimizer or in new
/// state, and is elementwise or by rows on its way there.
class UpdateUses {
public:
  UpdateUses(func::FuncOp step, int64_t ranks) : step(step), ranks(ranks) {}

  bool contains(OpOperand &use) {
    Operation *user = use.getOwner();
    if (user == step.getFunctionBody().front().getTerminator()) {
      std::optional<Role> role = getResultRole(step, use.getOperandNumber());
      return role && isStateRole(*role);
    }
    FlatKind kind = user->getBlock() == &step.getFunctionBody().front()
                        ? getFlatKind(user, ranks)
                        : FlatKind::None;
    if ((kind != FlatKind::Elementwise && kind != FlatKind::Rows) ||
        !isSplitIn(user, use.get(), ranks))
      return false;
    if (isa<OptimizerOpInterface>(user) || !seen.insert(user).second)
      return true;
    return llvm::all_of(user->getUses(),
                        [&](OpOperand &next) { return contains(next); });
  }

private:
  func::FuncOp step;
  int64_t ranks;
  llvm::DenseSet<Operation *> seen;
};

} // namespace

void AssignShardings::examine(func::FuncOp step, int64_t ranks) {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    std::optional<Role> role = getArgumentRole(step, index);
    StringRef name = mpcomm::getArgumentName(step, index);
    if ((role != Role::Parameter && role != Role::OptimizerState) ||
        name.empty())
      continue;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    UpdateUses uses(step, ranks);
    bool isGathered = zero == 3 && (role == Role::Parameter ||
                                    step.getArgAttr(index, kCopyOfAttr));
    bool fits =
        type && type.hasStaticShape() && type.getRank() > 0 &&
        isa<FloatType>(type.getElementType()) &&
        type.getNumElements() >= ranks &&
        (isGathered || (getDonation(step, index) &&
                        llvm::all_of(argument.getUses(), [&](OpOperand &use) {
                          return uses.contains(use);
                        })));
    isSplit[name] = fits;
  }
}

void AssignShardings::assign(func::FuncOp function, MeshOp mesh) {
  Builder builder(&getContext());
  auto axes = builder.getArrayAttr(
      {AxisRefAttr::get(&getContext(), builder.getStringAttr(axis), 0, 0)});
  auto shardingOf = [&](Type type) {
    return ShardingAttr::get(&getContext(),
                             FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                             cast<RankedTensorType>(type).getRank())
        .withFlat(axes);
  };
  SignatureEditor editor(function);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!isSplit.lookup(mpcomm::getArgumentName(function, i)))
      continue;
    editor.setArgument(i, kShardingAttr,
                       shardingOf(function.getArgumentTypes()[i]));
  }
  editor.apply();
}

void AssignShardings::runOnOperation() {
  ModuleOp module = getOperation();
  isSplit.clear();
  if (zero < 0 || zero > 3) {
    module.emitError() << "cannot split state as zero=" << int64_t(zero)
                       << ", expected 0 to 3";
    return signalPassFailure();
  }
  if (zero == 0)
    return markAllAnalysesPreserved();
  MeshOp mesh;
  for (auto found : module.getOps<MeshOp>())
    if (found.getAxisSize(axis))
      mesh = found;
  if (!mesh) {
    module.emitError() << "has no mesh with axis '" << axis
                       << "' to split state over";
    return signalPassFailure();
  }
  int64_t ranks = *mesh.getAxisSize(axis);
  if (ranks == 1)
    return markAllAnalysesPreserved();
  func::FuncOp step = getTrainStep(module);
  if (!step)
    return signalPassFailure();
  if (step.getFunctionBody().hasOneBlock())
    examine(step, ranks);
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  for (func::FuncOp function : functions)
    if (function.isPublic())
      assign(function, mesh);
  llvm::StringSet<> counted;
  int64_t tensors = 0, bytes = 0, whole = 0;
  for (func::FuncOp function : functions)
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef name = mpcomm::getArgumentName(function, i);
      std::optional<Role> role = getArgumentRole(function, i);
      if (!role || !isStateRole(*role) || !counted.insert(name).second)
        continue;
      int64_t size = mpcomm::detail::countBytes(function.getArgumentTypes()[i]);
      bool split = getArgumentSharding(function, i) != nullptr;
      tensors += split;
      (split ? bytes : whole) += size;
    }
  remark::analysis(module.getLoc(),
                   remark::RemarkOpts::name("Assigned").category(DEBUG_TYPE))
      << remark::metric("split", tensors) << remark::metric("bytes", bytes)
      << remark::metric("whole", whole);
}
