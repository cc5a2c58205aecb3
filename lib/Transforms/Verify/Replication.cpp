//===- Replication.cpp - what is replicated -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of it asks AxisShardings; each error says from where a value gets its
// difference.
//
//===----------------------------------------------------------------------===//

#include "Verify/Replication.h"
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

LogicalResult mpcomm::verifyResultsReplicated(FunctionOpInterface function,
                                              const AxisShardings &shardings,
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
      AxisSharding expected =
          getAxisSharding(getResultSharding(function, index), axis);
      AxisSharding found = shardings.get(use.get());
      if (!role || found == expected ||
          (!isReplicatedRole(*role) && !(isStep && *role == Role::Loss)))
        continue;
      ok = false;
      InFlightDiagnostic diag = block.back().emitOpError()
                                << "returns " << describeResult(function, index)
                                << " of role '" << stringifyRole(*role)
                                << "', which ";
      if (expected.isReplicated() && found.getKind() == AxisSharding::Local)
        diag << "may differ between ranks along '" << axis
             << "', expected one value for all of them";
      else
        diag << "is " << found.describe() << " along '" << axis
             << "', expected it " << expected.describe();
      if (!found.isReplicated())
        noteOrigin(diag, use.get(), shardings);
    }
  }
  return success(ok);
}

/// Gradients that enter optimizer ops are the same on all ranks, or parts of
/// such.
static bool verifyGradients(const AxisShardings &shardings, StringRef axis) {
  bool ok = true;
  for (OptimizerOpInterface op : shardings.getOptimizers())
    for (OpOperand *use : op.getGradientOperands()) {
      AxisSharding found = shardings.get(use->get());
      if (found.isReplicated() || found.isSplit())
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

/// All ranks, or none, come to `op`.
static bool verifyControl(CollectiveOpInterface op,
                          const AxisShardings &shardings, StringRef axis) {
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

/// Collectives name meshes and axes that exist, and all the same mesh.
static bool verifyMeshes(ArrayRef<CollectiveOpInterface> collectives) {
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

/// The axes of the module's meshes that are `axis`, or sub-axes of it as
/// `mpcomm-decompose-collectives` makes them, and have more than one rank.
static SmallVector<StringRef> findSubAxes(ModuleOp module, StringRef axis) {
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

LogicalResult
mpcomm::verifyReplication(ModuleOp module,
                          ArrayRef<CollectiveOpInterface> collectives,
                          StringRef axis) {
  if (!verifyMeshes(collectives))
    return failure();
  llvm::DenseMap<Operation *, SmallVector<CollectiveOpInterface>> byFunction;
  for (CollectiveOpInterface op : collectives)
    byFunction[op->getParentOfType<FunctionOpInterface>()].push_back(op);
  bool ok = true;
  for (StringRef subAxis : findSubAxes(module, axis))
    forEachFunction(module, [&](FunctionOpInterface function) {
      if (function.isExternal())
        return;
      AxisShardings shardings(function, subAxis);
      ok &= verifyGradients(shardings, subAxis);
      for (CollectiveOpInterface op : byFunction[function])
        ok &= verifyControl(op, shardings, subAxis);
      ok &= succeeded(verifyResultsReplicated(function, shardings, subAxis));
    });
  return success(ok);
}
