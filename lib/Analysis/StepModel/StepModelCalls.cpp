//===- StepModelCalls.cpp - calls of parts of a step ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of the step, a function that it calls, is modelled as a step of its
// own: a call takes the time of its computation, and of what its collectives
// leave exposed, and holds its memory. Collectives that are in flight outside
// do not slow it down. A loop takes the time of its body in each trip. Kernels
// and their bytes are counted by function, each once.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"

using namespace mlir;
using namespace mpcomm;

LogicalResult StepBuilder::modelCallee(Operation *call,
                                       FunctionOpInterface function) {
  for (const StepBuilder *above = this; above; above = above->caller)
    if (above->step.function == function)
      return call->emitError("expected calls without recursion, to model the "
                             "step, got one of '")
             << function.getName() << "' in itself";
  FailureOr<StepModel> model = StepBuilder(function, this->model, this).run();
  if (failed(model))
    return failure();
  double seconds = model->computeSeconds;
  if (!model->collectives.empty())
    seconds =
        std::max(seconds, simulateSeconds(model->buildSimProblem(this->model)));
  // The plan itself takes quadratic time.
  parts[function] = {seconds,
                     seconds - (model->computeSeconds - model->callWaitSeconds),
                     model->sentBytes, model->arena.lowerBound()};
  return success();
}

/// The function that an op calls, once or in each trip; null if it calls none.
static FunctionOpInterface getCalled(Operation *op) {
  if (auto loop = dyn_cast<ScanOp>(op))
    return loop.getBodyFunction();
  auto call = dyn_cast<CallOpInterface>(op);
  return call ? dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable())
              : FunctionOpInterface();
}

LogicalResult StepBuilder::findCalls() {
  for (int op = 0; op < numOps; ++op) {
    FunctionOpInterface function = getCalled(ops[op]);
    if (!function || function.isExternal())
      continue;
    if (!parts.contains(function) && failed(modelCallee(ops[op], function)))
      return failure();
    callees[op] = function;
  }
  return success();
}

const StepBuilder::Callee *StepBuilder::getCallee(int op) const {
  auto callee = callees.find(op);
  return callee == callees.end() ? nullptr
                                 : &parts.find(callee->second)->second;
}

double StepBuilder::countCalls(int op) const {
  auto loop = dyn_cast<ScanOp>(ops[op]);
  return static_cast<double>(loop ? loop.getTrips() : 1);
}

/// What a rank hands to the network of a collective of `bytes` in `ranks`.
static double countSent(CollectiveOpInterface op, double bytes, double ranks) {
  CollectiveKind kind = op.getCollectiveKind();
  if (kind == CollectiveKind::Send)
    return bytes;
  if (kind == CollectiveKind::Recv)
    return 0;
  if (kind == CollectiveKind::Permute)
    return bytes / ranks *
           static_cast<double>(
               llvm::count_if(op.getTargets(static_cast<int64_t>(ranks)),
                              [](int64_t target) { return target >= 0; }));
  // An all_gather's bytes are a share, those of others the whole.
  double share = (ranks - 1) / ranks;
  if (kind == CollectiveKind::AllReduce)
    share *= 2;
  else if (kind == CollectiveKind::AllGather)
    share *= ranks;
  return share * bytes;
}

/// What is sent, and waited for in functions that are called.
void StepBuilder::addCommunication() {
  for (const StepCollective &collective : step.collectives)
    step.sentBytes +=
        countSent(collective.op, static_cast<double>(collective.bytes),
                  static_cast<double>(
                      step.communicators[collective.communicator].shape.ranks));
  for (const auto &[op, function] : callees) {
    const Callee &callee = parts[function];
    step.sentBytes += countCalls(op) * callee.sentBytes;
    step.callWaitSeconds += countCalls(op) * callee.waitSeconds;
  }
}

/// A result is made in the operand whose argument donates its buffer to it, if
/// this is the only use of that, and else in a new buffer. Loops do so with
/// their carries.
void StepBuilder::addCallBuffers(int op) {
  int first = step.firstResult[op];
  auto donate = [&](Value operand, int64_t result) {
    int value = getNumber(operand);
    if (result >= 0 && result < ops[op]->getNumResults() && value >= 0 &&
        useCount[value] == 1 && bufferOf[value] >= 0)
      bufferOf[first + result] = bufferOf[value];
  };
  auto function = cast<FunctionOpInterface>(callees[op]);
  if (auto loop = dyn_cast<ScanOp>(ops[op]))
    for (auto [i, carry] : llvm::enumerate(loop.getCarries()))
      donate(carry, static_cast<int64_t>(i));
  else
    for (auto [i, operand] :
         llvm::enumerate(cast<CallOpInterface>(ops[op]).getArgOperands()))
      if (auto donated =
              function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr))
        donate(operand, donated.getInt());
  for (int i = 0, e = static_cast<int>(ops[op]->getNumResults()); i < e; ++i)
    if (bufferOf[first + i] < 0)
      bufferOf[first + i] =
          addBuffer(ops[op]->getResult(i).getType(), op, first + i);
}
