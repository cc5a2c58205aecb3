//===- ShardingChecks.cpp - what ranks have to hold -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of it asks AxisShardings and ReductionScales; an error says from where a
// value gets its difference.
//
//===----------------------------------------------------------------------===//

#include "Verify/ShardingChecks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"

using namespace mlir;
using namespace mpcomm;

/// Says where `value` is computed and from what it gets its difference.
static void noteOrigin(InFlightDiagnostic &diag, Value value,
                       const AxisShardings &shardings) {
  diag.attachNote(value.getLoc())
      << "it depends on " << shardings.describeOrigin(value);
}

/// Calls `check` on each operand that returns a result with a role.
static void
forEachResult(FunctionOpInterface function,
              llvm::function_ref<void(OpOperand &, unsigned, Role)> check) {
  for (Block &block : function.getFunctionBody()) {
    if (block.empty() || !block.back().hasTrait<OpTrait::ReturnLike>() ||
        block.back().getNumOperands() != function.getNumResults())
      continue;
    for (OpOperand &use : block.back().getOpOperands())
      if (std::optional<Role> role =
              getResultRole(function, use.getOperandNumber()))
        check(use, use.getOperandNumber(), *role);
  }
}

bool mpcomm::verifyResults(FunctionOpInterface function,
                           const AxisShardings &shardings, bool isStep) {
  bool ok = true;
  StringRef axis = shardings.getAxis();
  forEachResult(function, [&](OpOperand &use, unsigned index, Role role) {
    AxisSharding expected =
        getAxisSharding(getResultSharding(function, index), axis);
    AxisSharding found = shardings.get(use.get());
    // What a rank has of its own may be anything.
    bool isBlock = expected.isSplit() && found.isOfBlocks() && !found.isSplit();
    if (found.isAs(expected) || isBlock ||
        expected.getKind() == AxisSharding::Local ||
        (!isReplicatedRole(role) && !(isStep && role == Role::Loss)))
      return;
    ok = false;
    InFlightDiagnostic diag = use.getOwner()->emitOpError()
                              << "returns " << describeResult(function, index)
                              << " of role '" << stringifyRole(role)
                              << "', which ";
    if (expected.isReplicated() && found.getKind() == AxisSharding::Local)
      diag << "may differ between ranks along '" << axis
           << "', expected one value for all of them";
    else
      diag << "is " << found.describe() << " along '" << axis
           << "', expected it " << expected.describe();
    if (!found.isReplicated())
      noteOrigin(diag, use.get(), shardings);
  });
  return ok;
}

bool mpcomm::verifyGradients(const AxisShardings &shardings) {
  bool ok = true;
  StringRef axis = shardings.getAxis();
  for (OptimizerOpInterface op : shardings.getOptimizers())
    for (OpOperand *use : op.getGradientOperands()) {
      AxisSharding found = shardings.get(use->get());
      if (found.isReplicated() || found.isOfBlocks())
        continue;
      ok = false;
      InFlightDiagnostic diag = op->emitOpError() << "has a gradient, operand #"
                                                  << use->getOperandNumber();
      if (found.getKind() == AxisSharding::Local)
        diag << ", which may differ between ranks along '" << axis << "'";
      else
        diag << ", which is " << found.describe() << " along '" << axis << "'";
      diag << ", expected it reduced over them";
      noteOrigin(diag, use->get(), shardings);
    }
  return ok;
}

bool mpcomm::verifyScales(FunctionOpInterface function,
                          const ReductionScales &scales,
                          ArrayRef<OptimizerOpInterface> optimizers,
                          StringRef axis, bool isStep) {
  bool ok = true;
  auto report = [&](Operation *op, const Twine &what, ReductionScale found,
                    StringRef expected) {
    op->emitOpError() << what << ", which is " << found.describe() << " over '"
                      << axis << "', expected the " << expected;
    ok = false;
  };
  for (OptimizerOpInterface op : optimizers)
    for (OpOperand *use : op.getGradientOperands())
      if (ReductionScale found = scales.get(use->get()); !found.isMean())
        report(op, "has a gradient, operand #" + Twine(use->getOperandNumber()),
               found, "mean");
  function.walk([&](UpdateFp8ScaleOp op) {
    if (ReductionScale found = scales.get(op.getAmax()); !found.isGreatest())
      report(op, "has a magnitude", found, "greatest");
  });
  forEachResult(function, [&](OpOperand &use, unsigned index, Role role) {
    ReductionScale found = scales.get(use.get());
    bool isLoss = isStep && role == Role::Loss;
    // State may be the greatest of all.
    bool isOther = found.getKind() == ReductionScale::Other && !isLoss;
    if (!found.isMean() && !isOther && (isReplicatedRole(role) || isLoss))
      report(use.getOwner(),
             "returns " + describeResult(function, index) + " of role '" +
                 stringifyRole(role) + "'",
             found, "mean");
  });
  return ok;
}

bool mpcomm::verifyControl(CollectiveOpInterface op,
                           const AxisShardings &shardings) {
  StringRef axis = shardings.getAxis();
  Operation *control = shardings.getDivergence(op);
  if (!control)
    return true;
  InFlightDiagnostic diag =
      op->emitOpError() << "may run on some ranks along '" << axis
                        << "' only, expected control flow that is the same on "
                           "all of them";
  diag.attachNote(control->getLoc())
      << "it depends on a value here that may differ between ranks";
  return false;
}

/// Whether what `function` has can be sharded so, where it is: `what`, whose
/// whole is of `type`.
static bool verifyDeclared(FunctionOpInterface function, const Twine &what,
                           ShardingAttr sharding, Type type,
                           const SymbolTable &symbols) {
  if (!sharding)
    return true;
  std::string reason;
  StringRef name = sharding.getMesh().getValue();
  if (auto mesh = symbols.lookup<MeshOp>(name)) {
    if (succeeded(
            getLocalType(sharding, cast<RankedTensorType>(type), mesh, reason)))
      return true;
  } else {
    reason = "names @" + name.str() + ", which is not an mpcomm.mesh";
  }
  function.emitOpError() << "has a sharding of " << what << " that " << reason;
  return false;
}

bool mpcomm::verifyDeclared(ModuleOp module) {
  bool ok = true;
  SymbolTable symbols(module);
  forEachFunction(module, [&](FunctionOpInterface function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      ok &= ::verifyDeclared(function, "argument #" + Twine(i),
                             getArgumentSharding(function, i),
                             getGlobalArgumentType(function, i), symbols);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      ok &= ::verifyDeclared(function, "result #" + Twine(i),
                             getResultSharding(function, i),
                             getGlobalResultType(function, i), symbols);
  });
  return ok;
}

bool mpcomm::verifyMeshes(ArrayRef<CollectiveOpInterface> collectives) {
  bool ok = true;
  for (CollectiveOpInterface op : collectives) {
    CollectiveOpInterface first = collectives.front();
    if (failed(op.getGroupSize())) {
      op->emitOpError() << "names a mesh or an axis that is not there";
      ok = false;
    } else if (op.getMeshAttr() != first.getMeshAttr()) {
      InFlightDiagnostic diag = op->emitOpError()
                                << "runs on mesh " << op.getMeshAttr()
                                << ", expected one mesh for the whole program";
      diag.attachNote(first->getLoc())
          << "another collective runs on " << first.getMeshAttr();
      ok = false;
    }
  }
  return ok;
}

SmallVector<StringRef> mpcomm::findSubAxes(ModuleOp module, StringRef axis) {
  SmallVector<StringRef> subAxes;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto mesh = dyn_cast<MeshOp>(op))
      for (auto [name, size] :
           llvm::zip(mesh.getAxisNames(), mesh.getAxisSizes())) {
        StringRef subAxis = cast<StringAttr>(name).getValue();
        StringRef rest = subAxis;
        if (size > 1 && rest.consume_front(axis) &&
            (rest.empty() || rest.starts_with(".")) &&
            !llvm::is_contained(subAxes, subAxis))
          subAxes.push_back(subAxis);
      }
    return isa<ModuleOp>(op) ? WalkResult::advance() : WalkResult::skip();
  });
  return subAxes;
}
