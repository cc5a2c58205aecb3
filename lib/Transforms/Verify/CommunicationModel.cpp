//===- CommunicationModel.cpp - programs as the proof sees them -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ranks run which functions, and so which problems there are.
//
//===----------------------------------------------------------------------===//

#include "Verify/CommunicationReader.h"

using namespace mlir;
using namespace mpcomm;

/// All ranks of the mesh.
static ProofBox wholeMesh(const ProofProblem &problem) {
  ProofBox box;
  for (const ProofAxis &axis : problem.mesh) {
    box.begin.push_back(0);
    box.end.push_back(axis.size);
  }
  return box;
}

static FailureOr<CommunicationModel>
readProgram(ModuleOp module, ProgramOp program,
            CommunicatingFunctions &communicating, bool buffered) {
  CommunicationModel model;
  model.name = program.getSymName().str();
  model.symbol = program;
  ProgramReader reader(model, module, communicating, buffered);
  if (failed(reader.setMesh(program, program.getMeshAttr())))
    return failure();
  SmallVector<unsigned> axes;
  int64_t ranks = 1;
  for (Attribute axis : program.getAxes()) {
    auto at = llvm::find(reader.getMesh().getAxisNames(), axis);
    if (at == reader.getMesh().getAxisNames().end())
      return emitError(program.getLoc())
             << "'mpcomm.program' names axis " << axis << ", which mesh "
             << program.getMeshAttr() << " does not have";
    axes.push_back(at - reader.getMesh().getAxisNames().begin());
    ranks *= model.problem.mesh[axes.back()].size;
  }
  if (static_cast<int64_t>(program.getFunctions().size()) != ranks)
    return emitError(program.getLoc())
           << "'mpcomm.program' has " << program.getFunctions().size()
           << " functions, expected " << ranks;
  llvm::DenseMap<Attribute, size_t> classes;
  for (auto [i, name] : llvm::enumerate(program.getFunctions())) {
    auto [it, isNew] = classes.try_emplace(name, classes.size());
    if (isNew) {
      auto function =
          communicating.symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
              program, cast<FlatSymbolRefAttr>(name));
      if (!function || function.isExternal())
        return emitError(program.getLoc())
               << "'mpcomm.program' runs " << name
               << ", which is not a function with a body";
      if (failed(reader.read(function)))
        return failure();
    }
    ProofBox box = wholeMesh(model.problem);
    int64_t rest = i;
    for (unsigned axis : llvm::reverse(axes)) {
      box.begin[axis] = rest % model.problem.mesh[axis].size;
      box.end[axis] = box.begin[axis] + 1;
      rest /= model.problem.mesh[axis].size;
    }
    model.problem.classes[it->second].boxes.push_back(box);
  }
  return model;
}

FailureOr<std::vector<CommunicationModel>>
mpcomm::readCommunication(ModuleOp module, bool buffered) {
  CommunicatingFunctions communicating(module);
  std::vector<CommunicationModel> models;
  llvm::DenseSet<Operation *> mapped;
  bool ok = true;
  for (auto program : module.getOps<ProgramOp>()) {
    for (Attribute name : program.getFunctions())
      mapped.insert(communicating.symbols.lookupNearestSymbolFrom(
          program, cast<FlatSymbolRefAttr>(name)));
    auto model = readProgram(module, program, communicating, buffered);
    ok &= succeeded(model);
    if (succeeded(model))
      models.push_back(std::move(*model));
  }
  for (auto function : module.getOps<FunctionOpInterface>()) {
    if (!function.isPublic() || function.isExternal() ||
        mapped.contains(function) || !communicating.contains(function))
      continue;
    CommunicationModel model;
    model.name = function.getName().str();
    model.symbol = function;
    ProgramReader reader(model, module, communicating, buffered);
    if (failed(reader.read(function))) {
      ok = false;
      continue;
    }
    if (!reader.getMesh()) // what is under a branch that is not taken
      continue;
    model.problem.classes.front().boxes = {wholeMesh(model.problem)};
    models.push_back(std::move(model));
  }
  if (!ok)
    return failure();
  return models;
}
