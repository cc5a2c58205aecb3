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
  LogicalResult findMesh(func::FuncOp function);
  LogicalResult check(func::FuncOp function, ShardingAttr sharding, Type type,
                      bool isLocal, const std::string &what);
  void declare(func::FuncOp function, const Propagation &found);
  LogicalResult note(func::FuncOp function, const Propagation &found);

  MeshOp mesh;
};

} // namespace

LogicalResult PropagateShardings::check(func::FuncOp function,
                                        ShardingAttr sharding, Type type,
                                        bool isLocal, const std::string &what) {
  if (!sharding)
    return success();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (isLocal || !tensor || tensor.getRank() != sharding.getRank())
    return function.emitOpError()
           << "has " << what << " of sharding " << sharding << " and type "
           << type << ", expected the type of the whole, of as many dimensions";
  auto found = SymbolTable::lookupNearestSymbolFrom<MeshOp>(function,
                                                            sharding.getMesh());
  std::string reason = "names " + sharding.getMesh().getValue().str() +
                       ", which is not an mpcomm.mesh";
  if (!found || failed(getLocalType(sharding, tensor, found, reason)))
    return function.emitOpError() << "has " << what << " of sharding "
                                  << sharding << ", which " << reason;
  if (mesh && mesh != found)
    return function.emitOpError()
           << "has " << what << " on mesh @" << found.getSymName()
           << ", expected all shardings to be on one, and others are on @"
           << mesh.getSymName();
  mesh = found;
  return success();
}

LogicalResult PropagateShardings::findMesh(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(check(function, getArgumentSharding(function, i),
                     function.getArgumentTypes()[i],
                     function.getArgAttr(i, kGlobalTypeAttr) != nullptr,
                     describeArgument(function, i))))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(check(function, getResultSharding(function, i),
                     function.getResultTypes()[i],
                     function.getResultAttr(i, kGlobalTypeAttr) != nullptr,
                     describeResult(function, i))))
      return failure();
  return success();
}

/// What the signature leaves open: state, what takes its place, and what calls
/// hand to functions and get from them.
void PropagateShardings::declare(func::FuncOp function,
                                 const Propagation &found) {
  SignatureEditor editor(function);
  Block &body = function.getFunctionBody().front();
  for (BlockArgument argument : body.getArguments()) {
    unsigned index = argument.getArgNumber();
    ShardingAttr sharding = found.get(argument);
    if (sharding && sharding.isSharded())
      editor.setArgument(index, kShardingAttr, sharding);
    std::optional<int64_t> result = getDonation(function, index);
    if (result && sharding && !getResultSharding(function, *result) &&
        !sharding.isReplicated())
      editor.setResult(*result, kShardingAttr, sharding);
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    ShardingAttr sharding = found.get(value);
    if (sharding && sharding.isSharded() && sharding.getPartial().empty() &&
        !function.isPublic() && !getResultSharding(function, i))
      editor.setResult(i, kShardingAttr, sharding);
  }
  editor.apply();
}

/// On each op, for people.
LogicalResult PropagateShardings::note(func::FuncOp function,
                                       const Propagation &found) {
  Block &body = function.getFunctionBody().front();
  std::optional<Parts> parts;
  FlatSharding flat;
  bool areFlat =
      llvm::all_of(llvm::seq(0u, function.getNumArguments()), [&](unsigned i) {
        ShardingAttr sharding = getArgumentSharding(function, i);
        return !sharding || sharding.isFlat();
      });
  if (areFlat) {
    FailureOr<FlatSharding> shared = FlatSharding::get(function);
    if (failed(shared))
      return failure();
    flat = *shared;
    if (flat)
      parts.emplace(function, flat);
  }
  for (Operation &op : body.without_terminator()) {
    SmallVector<Attribute> shardings;
    bool areAllReplicated = true;
    for (Value result : op.getResults()) {
      ShardingAttr sharding = found.get(result);
      if (sharding && sharding.isReplicated() && parts &&
          parts->contains(result))
        sharding = sharding.withFlat(flat.sharding.getFlat());
      areAllReplicated &= !sharding || sharding.isReplicated();
      shardings.push_back(sharding ? Attribute(sharding)
                                   : UnitAttr::get(&getContext()));
    }
    if (!areAllReplicated)
      op.setAttr(kShardingsAttr, ArrayAttr::get(&getContext(), shardings));
  }
  return success();
}

void PropagateShardings::runOnOperation() {
  ModuleOp module = getOperation();
  mesh = nullptr;
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(findMesh(function)))
      return signalPassFailure();
    if (!function.isExternal() && function.getFunctionBody().hasOneBlock())
      functions.push_back(function);
  }
  if (!mesh)
    return markAllAnalysesPreserved();
  Propagation found(module, mesh);
  for (func::FuncOp function : functions) {
    declare(function, found);
    if (annotate && failed(note(function, found)))
      return signalPassFailure();
    int64_t split = 0, partial = 0;
    function.walk([&](Operation *op) {
      for (Value result : op->getResults())
        if (ShardingAttr sharding = found.get(result)) {
          split += sharding.isSharded();
          partial += !sharding.getPartial().empty();
        }
    });
    Propagation::Reshards moved = found.getReshards(function);
    int64_t reshards = moved.values.size();
    remark::analysis(function.getLoc(), remark::RemarkOpts::name("Propagated")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
        << remark::metric("split", split) << remark::metric("partial", partial)
        << remark::metric("reshards", reshards)
        << remark::metric("bytes", moved.bytes);
  }
}
