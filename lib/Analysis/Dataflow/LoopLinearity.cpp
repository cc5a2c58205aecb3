//===- LoopLinearity.cpp - factors through loops --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LinearOpInterface for mpcomm.scan. A loop of the backward pass is linear in
// its float carries, and in the slices that its body adds to what has their
// factor. Which those are is found by running the degrees through the body: a
// sum of what has the factor and what lacks it asks for it on the other
// operand. Integers, such as counters, are not scaled and must not depend on
// what is.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Dataflow/Linearity.h"
#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// The arguments of a body that all need the factor for its results to have it.
class ScaledArguments {
public:
  explicit ScaledArguments(ScanOp op) : op(op) {}

  /// Whether there are such.
  bool find(Block &body);

  llvm::SetVector<BlockArgument> arguments;

private:
  bool add(Value value);
  bool addOperands(Operation *inner, const Degrees &degrees);

  ScanOp op;
  llvm::DenseSet<Value> asked; // what has been asked once, a failure ends all
};

} // namespace

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Asks for the factor on what a value is a sum of.
bool ScaledArguments::add(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument) {
    unsigned end = op.getCarries().size() + op.getSlices().size();
    if (argument.getArgNumber() >= end || !isFloat(argument))
      return false;
    arguments.insert(argument);
    return true;
  }
  if (!asked.insert(value).second)
    return true;
  Linearity linearity = getLinearity(value.getDefiningOp());
  return linearity.kind == Linearity::Joint && !linearity.operands.empty() &&
         llvm::all_of(linearity.operands,
                      [&](OpOperand *operand) { return add(operand->get()); });
}

/// Of an op of which some operands have the factor, asks for it on the others;
/// false if that asks for nothing new.
bool ScaledArguments::addOperands(Operation *inner, const Degrees &degrees) {
  Linearity linearity = getLinearity(inner);
  if (linearity.kind != Linearity::Joint)
    return false;
  size_t before = arguments.size();
  return llvm::all_of(linearity.operands,
                      [&](OpOperand *operand) {
                        return degrees.get(operand->get()) != 0 ||
                               add(operand->get());
                      }) &&
         arguments.size() > before;
}

bool ScaledArguments::find(Block &body) {
  for (unsigned i = 0, e = op.getCarries().size(); i < e; ++i)
    if (isFloat(body.getArgument(i)) && !add(body.getArgument(i)))
      return false;
  // Each round but the last adds an argument.
  while (!arguments.empty()) {
    Degrees degrees;
    for (BlockArgument argument : arguments)
      degrees.set(argument, 1);
    Operation *mixed = nullptr;
    for (Operation &inner : body.without_terminator()) {
      degrees.propagate(&inner);
      if (llvm::any_of(inner.getResults(), [&](Value result) {
            return degrees.get(result) == Degrees::kUnknown;
          })) {
        mixed = &inner;
        break;
      }
    }
    if (mixed && !addOperands(mixed, degrees))
      return false;
    if (!mixed)
      return llvm::all_of(body.getTerminator()->getOperands(),
                          [&](Value value) {
                            int degree = degrees.get(value);
                            return isFloat(value)
                                       ? degree == 1 || degree == Degrees::kAny
                                       : degree == 0;
                          });
  }
  return false;
}

namespace {

struct ScanModel : LinearOpInterface::ExternalModel<ScanModel, ScanOp> {
  Linearity getLinearity(Operation *op) const {
    auto loop = cast<ScanOp>(op);
    FunctionOpInterface body = loop.getBodyFunction();
    ScaledArguments scaled(loop);
    Linearity linearity;
    if (!body || !body.getFunctionBody().hasOneBlock() ||
        body.getNumArguments() != op->getNumOperands() ||
        !scaled.find(body.getFunctionBody().front()))
      return linearity;
    linearity.kind = Linearity::Joint;
    for (BlockArgument argument : scaled.arguments)
      linearity.operands.push_back(&op->getOpOperand(argument.getArgNumber()));
    return linearity;
  }
};

} // namespace

void mpcomm::registerLoopLinearityModel(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MPCommDialect *) {
    ScanOp::attachInterface<ScanModel>(*context);
  });
}
