//===- PropagateShardings.cpp - shardings follow from shardings -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shard/Parts.h"
#include "Shard/Propagation.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-propagate-shardings"

using namespace mlir;
using namespace mpcomm;

namespace {

class PropagateShardings
    : public mpcomm::impl::PropagateShardingsPassBase<PropagateShardings> {
public:
  using PropagateShardingsPassBase::PropagateShardingsPassBase;
  void runOnOperation() override;

private:
  LogicalResult check(func::FuncOp function);
  LogicalResult check(func::FuncOp function, ShardingAttr sharding, Type type,
                      bool isLocal, llvm::function_ref<std::string()> describe);
  ShardingAttr get(Value value) const;
  void declare(func::FuncOp function);
  void note(func::FuncOp function);

  MeshOp mesh;
  /// Checked before.
  llvm::DenseSet<std::pair<ShardingAttr, Type>> checked;
  /// Null where all that is declared is flat, or whole.
  std::optional<Propagation> found;
  bool isBeyondFlat = false;
};

} // namespace

LogicalResult
PropagateShardings::check(func::FuncOp function, ShardingAttr sharding,
                          Type type, bool isLocal,
                          llvm::function_ref<std::string()> describe) {
  if (!isLocal && checked.contains({sharding, type}))
    return success();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (isLocal || !tensor || tensor.getRank() != sharding.getRank())
    return function.emitOpError()
           << "has " << describe() << " of sharding " << sharding
           << " and type " << type
           << ", expected the type of the whole, of as many dimensions";
  auto onMesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      function, sharding.getMesh());
  std::string reason = "names " + sharding.getMesh().getValue().str() +
                       ", which is not an mpcomm.mesh";
  if (!onMesh || failed(getLocalType(sharding, tensor, onMesh, reason)))
    return function.emitOpError() << "has " << describe() << " of sharding "
                                  << sharding << ", which " << reason;
  if (mesh && mesh != onMesh)
    return function.emitOpError()
           << "has " << describe() << " on mesh @" << onMesh.getSymName()
           << ", expected all shardings to be on one, and others are on @"
           << mesh.getSymName();
  mesh = onMesh;
  isBeyondFlat |= !sharding.isReplicated() &&
                  (!sharding.isFlat() || !sharding.getPartial().empty() ||
                   !sharding.getLocal().empty());
  checked.insert({sharding, type});
  return success();
}

LogicalResult PropagateShardings::check(func::FuncOp function) {
  for (const DeclaredSharding &declared : getDeclaredShardings(function))
    if (failed(check(function, declared.sharding, declared.type,
                     declared.isLocal,
                     [&] { return declared.describe(function); })))
      return failure();
  WalkResult result = function.walk([&](Operation *op) {
    op->removeAttr(kShardingsAttr); // of an earlier run
    ShardingAttr target = getReshardTarget(op);
    return WalkResult(target ? check(function, target,
                                     op->getResult(0).getType(), false,
                                     [] { return std::string("a reshard"); })
                             : success());
  });
  return failure(result.wasInterrupted());
}

/// What ranks hold of `value`; null for what has no static shape, and where
/// nothing was to be derived.
ShardingAttr PropagateShardings::get(Value value) const {
  return found ? found->get(value) : ShardingAttr();
}

/// What the signature leaves open: state, what takes its place, and what calls
/// hand to functions and get from them.
void PropagateShardings::declare(func::FuncOp function) {
  SignatureEditor editor(function);
  Block &body = function.getFunctionBody().front();
  llvm::DenseSet<unsigned> donated;
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    ShardingAttr sharding = getArgumentSharding(function, index);
    if (!sharding)
      sharding = get(argument);
    if (!sharding || sharding.isReplicated())
      continue;
    editor.setArgument(index, kShardingAttr, sharding);
    std::optional<int64_t> result = getDonation(function, index);
    if (!result || getResultSharding(function, *result) ||
        function.getResultTypes()[*result] != argument.getType())
      continue;
    donated.insert(*result);
    editor.setResult(*result, kShardingAttr, sharding);
  }
  for (unsigned i = 0; found && i < function.getNumResults(); ++i) {
    ShardingAttr sharding =
        found->getSplit(body.getTerminator()->getOperand(i));
    if (sharding && sharding.isSharded() && !function.isPublic() &&
        !getResultSharding(function, i) && !donated.contains(i))
      editor.setResult(i, kShardingAttr, sharding);
  }
  editor.apply();
}

/// On each op, for people.
void PropagateShardings::note(func::FuncOp function) {
  std::optional<Parts> parts;
  FlatSharding flat;
  bool isAllFlat = llvm::all_of(getDeclaredShardings(function),
                                [&](const DeclaredSharding &declared) {
                                  bool isFlat = flat.accepts(declared.sharding);
                                  flat.sharding = declared.sharding;
                                  return isFlat;
                                });
  if (flat && isAllFlat) {
    flat = *FlatSharding::get(function);
    parts.emplace(function, flat);
  }
  for (Operation &op :
       function.getFunctionBody().front().without_terminator()) {
    SmallVector<Attribute> shardings;
    bool areAllReplicated = true;
    for (Value result : op.getResults()) {
      ShardingAttr sharding = get(result);
      if (parts && parts->contains(result) &&
          (!sharding || sharding.isReplicated()))
        sharding = ShardingAttr::get(
                       &getContext(), flat.sharding.getMesh(),
                       cast<RankedTensorType>(result.getType()).getRank())
                       .withFlat(flat.sharding.getFlat());
      areAllReplicated &= !sharding || sharding.isReplicated();
      shardings.push_back(sharding ? Attribute(sharding)
                                   : UnitAttr::get(&getContext()));
    }
    if (!areAllReplicated)
      op.setAttr(kShardingsAttr, ArrayAttr::get(&getContext(), shardings));
  }
}

void PropagateShardings::runOnOperation() {
  ModuleOp module = getOperation();
  mesh = nullptr;
  checked.clear();
  found.reset();
  isBeyondFlat = false;
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(check(function)))
      return signalPassFailure();
    if (Propagation::follows(function))
      functions.push_back(function);
  }
  if (!mesh)
    return;
  if (isBeyondFlat)
    found.emplace(module, mesh);
  for (func::FuncOp function : functions) {
    declare(function);
    if (annotate)
      note(function);
    if (!found)
      continue;
    const Propagation::Counts &counts = found->getCounts(function);
    int64_t reshards = counts.moved.size();
    remark::analysis(function.getLoc(), remark::RemarkOpts::name("Propagated")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
        << remark::metric("split", counts.split)
        << remark::metric("partial", counts.partial)
        << remark::metric("reshards", reshards)
        << remark::metric("bytes", counts.bytes);
  }
}
