//===- StepModelCalls.cpp - calls of parts of a step ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of the step, a function that it calls, is modelled as a step of its
// own: a call takes the time of its computation and holds its memory.
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepModelBuilder.h"
#include "mlir/Interfaces/CallInterfaces.h"

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
  if (!model->collectives.empty())
    return call->emitError("expected calls of functions that do not "
                           "communicate, to model the step, got one of '")
           << function.getName() << "'";
  // The plan itself takes quadratic time.
  parts[function] = {model->computeSeconds, model->arena.lowerBound()};
  return success();
}

LogicalResult StepBuilder::findCalls() {
  for (int op = 0; op < numOps; ++op) {
    auto call = dyn_cast<CallOpInterface>(ops[op]);
    auto function =
        call ? dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable())
             : FunctionOpInterface();
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

/// A result is made in the operand whose argument donates its buffer to it, if
/// this is the only use of that, and else in a new buffer.
void StepBuilder::addCallBuffers(int op) {
  auto call = cast<CallOpInterface>(ops[op]);
  auto function = cast<FunctionOpInterface>(callees[op]);
  int first = step.firstResult[op];
  for (auto [i, operand] : llvm::enumerate(call.getArgOperands())) {
    auto donated = function.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr);
    int value = getNumber(operand);
    if (!donated || donated.getInt() < 0 ||
        donated.getInt() >= ops[op]->getNumResults() || value < 0 ||
        useCount[value] != 1 || bufferOf[value] < 0)
      continue;
    bufferOf[first + donated.getInt()] = bufferOf[value];
  }
  for (int i = 0, e = static_cast<int>(ops[op]->getNumResults()); i < e; ++i)
    if (bufferOf[first + i] < 0)
      bufferOf[first + i] =
          addBuffer(ops[op]->getResult(i).getType(), op, first + i);
}
