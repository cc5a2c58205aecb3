//===- StepModel.cpp - a step as timed instructions -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "StepModel/StepModelBuilder.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"

using namespace mlir;
using namespace mpcomm;

FailureOr<StepModel> StepModel::get(FunctionOpInterface function,
                                    const CostModel &model) {
  return StepBuilder(function, model).run();
}

int StepModel::getPosition(Operation *op) const {
  auto found = positions.find(op);
  return found == positions.end() ? -1 : found->second;
}

double StepModel::getSeconds(Operation *op) const {
  int position = getPosition(op);
  return position < 0 ? 0 : seconds[position];
}

int StepModel::getKernel(Operation *op) const {
  int position = getPosition(op);
  return position < 0 ? -1 : kernels[position];
}

int StepModel::getNumber(Value value) const {
  FunctionOpInterface owner = function;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getOwner()->getParentOp() == owner.getOperation()
               ? static_cast<int>(argument.getArgNumber())
               : -1;
  int position = getPosition(value.getDefiningOp());
  return position < 0
             ? -1
             : firstResult[position] +
                   static_cast<int>(cast<OpResult>(value).getResultNumber());
}

int64_t StepModel::getBytes(Value value) const {
  int number = getNumber(value);
  return number < 0 ? 0 : bytes[number];
}

int StepModel::getBuffer(Value value) const {
  int number = getNumber(value);
  return number < 0 ? -1 : buffers[number];
}

int StepModel::getLastUse(Value value) const {
  int number = getNumber(value);
  return number < 0 ? -1 : lastUses[number];
}

SimProgram StepModel::buildSimProgram() const {
  SimProgram program;
  program.staticBytes = staticBytes;
  program.instructions.assign(instructions.begin(), instructions.end());
  for (const StepCollective &collective : collectives) {
    SimCollective simulated;
    simulated.communicator = static_cast<int>(collective.communicator);
    simulated.latency = collective.latency;
    simulated.transfer = collective.transfer;
    simulated.link = collective.link;
    simulated.producer = collective.producer;
    simulated.consumer = collective.consumer;
    simulated.belowSaturatingSize =
        collective.bytes < collective.cost.getSaturatingBytes();
    Operation *op = instructions[collective.start].op;
    simulated.memoryBound = op->hasAttr(kMemoryBoundAttr);
    simulated.userCap =
        op->hasAttr(kUserCapAttr) || collective.op->hasAttr(kUserCapAttr);
    program.collectives.push_back(simulated);
  }
  return program;
}

SimProblem mpcomm::makeSimProblem(const Cluster &cluster, bool duplex) {
  SimProblem problem;
  problem.computeRateUnderComm = cluster.computeRateUnderComm;
  problem.commRateUnderCompute = cluster.commRateUnderCompute;
  for (int direction = 0; direction < (duplex ? 2 : 1); ++direction)
    for (const LinkLevel &link : cluster.links)
      problem.links.push_back({link.contends});
  return problem;
}

SimProblem StepModel::buildSimProblem(const CostModel &model) const {
  SimProblem problem = makeSimProblem(model.getCluster(), /*duplex=*/false);
  for (size_t i = 0; i < communicators.size(); ++i)
    problem.communicators.push_back({{0}});
  problem.classes.push_back(buildSimProgram());
  problem.classes.back().multiplicity = ranks;
  return problem;
}
