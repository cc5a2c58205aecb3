//===- Replication.cpp - what all ranks hold alike ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of it asks RankVariance; each error says from where a value gets its
// difference.
//
//===----------------------------------------------------------------------===//

#include "Verify/Replication.h"
#include "mpcomm/Analysis/StepSignature.h"

using namespace mlir;
using namespace mpcomm;

/// Says where `value` is computed and from what it gets its difference.
static void noteOrigin(InFlightDiagnostic &diag, Value value,
                       const RankVariance &variance) {
  diag.attachNote(value.getLoc())
      << "it depends on " << variance.describeOrigin(value);
}

LogicalResult mpcomm::verifyResultsReplicated(FunctionOpInterface function,
                                              const RankVariance &variance,
                                              StringRef axis) {
  bool ok = true;
  bool isStep = function.getName() == kTrainStep;
  for (Block &block : function.getFunctionBody()) {
    if (block.empty() || !block.back().hasTrait<OpTrait::ReturnLike>() ||
        block.back().getNumOperands() != function.getNumResults())
      continue;
    for (OpOperand &use : block.back().getOpOperands()) {
      unsigned index = use.getOperandNumber();
      std::optional<Role> role = getResultRole(function, index);
      if (!role || !variance.varies(use.get()) ||
          !(isReplicatedRole(*role) || (isStep && *role == Role::Loss)))
        continue;
      ok = false;
      InFlightDiagnostic diag =
          block.back().emitOpError()
          << "returns " << describeResult(function, index) << " of role '"
          << stringifyRole(*role) << "', which may differ between ranks along '"
          << axis << "', expected one value for all of them";
      noteOrigin(diag, use.get(), variance);
    }
  }
  return success(ok);
}

/// Gradients that enter optimizer ops are the same on all ranks.
static bool verifyGradients(FunctionOpInterface function,
                            const RankVariance &variance, StringRef axis) {
  bool ok = true;
  function->walk([&](OptimizerOpInterface op) {
    for (OpOperand *use : op.getGradientOperands()) {
      if (!variance.varies(use->get()))
        continue;
      ok = false;
      InFlightDiagnostic diag = op->emitOpError()
                                << "has a gradient, operand #"
                                << use->getOperandNumber()
                                << ", which may differ between ranks along '"
                                << axis << "', expected it reduced over them";
      noteOrigin(diag, use->get(), variance);
    }
  });
  return ok;
}

/// All ranks, or none, come to each collective.
static bool verifyControl(FunctionOpInterface function,
                          const RankVariance &variance, StringRef axis) {
  bool ok = true;
  function->walk([&](CollectiveOpInterface op) {
    Operation *control = variance.getDivergence(op);
    if (!control)
      return;
    ok = false;
    InFlightDiagnostic diag =
        op->emitOpError() << "may run on some ranks along '" << axis
                          << "' only, expected control flow that is the same "
                             "on all of them";
    diag.attachNote(control->getLoc())
        << "it depends on a value here that may differ between ranks";
  });
  return ok;
}

/// Collectives name meshes and axes that exist, and all the same mesh.
static bool verifyMeshes(ModuleOp module) {
  bool ok = true;
  CollectiveOpInterface first;
  module.walk([&](CollectiveOpInterface op) {
    if (!first)
      first = op;
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
  });
  return ok;
}

LogicalResult mpcomm::verifyReplication(ModuleOp module, StringRef axis) {
  if (!verifyMeshes(module))
    return failure();
  int64_t ranks = 1;
  module.walk([&](MeshOp mesh) {
    ranks = std::max(ranks, mesh.getAxisSize(axis).value_or(1));
  });
  if (ranks == 1)
    return success();
  bool ok = true;
  module.walk([&](FunctionOpInterface function) {
    if (function.isExternal())
      return;
    RankVariance variance(function, axis);
    ok &= verifyGradients(function, variance, axis);
    ok &= verifyControl(function, variance, axis);
    ok &= succeeded(verifyResultsReplicated(function, variance, axis));
  });
  return success(ok);
}
