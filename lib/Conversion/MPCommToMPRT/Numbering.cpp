//===- Numbering.cpp - communicators and numbers of collectives -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Numbering.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

Numbering::Numbering(ModuleOp module) : module(module) {
  for (auto op : module.getOps<ProgramOp>())
    for (Attribute name : op.getFunctions())
      programs[name] = op;
}

void Numbering::enter(func::FuncOp entered) {
  function = entered;
  program = programs.lookup(FlatSymbolRefAttr::get(entered.getSymNameAttr()));
  numUntagged.clear();
}

/// The axes of `op` in the order in which the mesh declares them.
static ArrayAttr sortedAxes(CollectiveOpInterface op, MeshOp mesh) {
  SmallVector<Attribute> axes;
  for (Attribute axis : mesh.getAxisNames())
    if (llvm::is_contained(op.getAxesAttr(), axis))
      axes.push_back(axis);
  return ArrayAttr::get(op->getContext(), axes);
}

FailureOr<int64_t> Numbering::communicatorOf(CollectiveOpInterface op) {
  FlatSymbolRefAttr name = op.getMeshAttr();
  if (mesh && mesh != name)
    return op->emitOpError()
           << "is on mesh " << name << ", but other collectives are on " << mesh
           << ": a program runs on one mesh";
  mesh = name;
  auto meshOp = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, name);
  if (!meshOp)
    return op->emitOpError()
           << "names " << name << ", which is not an mpcomm.mesh";
  Communicator wanted{sortedAxes(op, meshOp), op.getChannel()};
  auto *found = llvm::find(communicators, wanted);
  if (found == communicators.end()) {
    communicators.push_back(wanted);
    return communicators.size() - 1;
  }
  return found - communicators.begin();
}

int64_t Numbering::idOf(CollectiveOpInterface op, int64_t communicator,
                        unsigned part) {
  auto tag = op->getAttrOfType<StringAttr>(kTagAttr);
  bool isPaired = op.getCollectiveKind() == CollectiveKind::Send ||
                  op.getCollectiveKind() == CollectiveKind::Recv;
  bool spansPrograms =
      program &&
      llvm::any_of(communicators[communicator].axes, [&](Attribute axis) {
        return llvm::is_contained(program.getAxes(), axis);
      });
  std::string key;
  if (tag)
    key = ("=" + tag.getValue()).str();
  else if (spansPrograms && !isPaired)
    key = "#" + std::to_string(numUntagged[communicator]++);
  else
    return nextId++;
  StringRef scope = program ? program.getSymName() : function.getSymName();
  key = (scope + "\n" + Twine(communicator) + "\n" + Twine(part) + key).str();
  auto [entry, isNew] = shared.try_emplace(key, nextId);
  nextId += isNew;
  return entry->second;
}

void Numbering::note() {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> axes;
  SmallVector<int64_t> channels;
  for (const Communicator &communicator : communicators) {
    axes.push_back(communicator.axes);
    channels.push_back(communicator.channel);
  }
  module->setAttr(mprt::kCommunicatorsAttr, ArrayAttr::get(context, axes));
  if (llvm::any_of(channels, [](int64_t channel) { return channel != 0; }))
    module->setAttr(mprt::kChannelsAttr,
                    DenseI64ArrayAttr::get(context, channels));
  if (mesh)
    module->setAttr(mprt::kMeshAttr, mesh);
}
