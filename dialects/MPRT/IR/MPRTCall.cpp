//===- MPRTCall.cpp - calls of private functions of a step ----------------===//
//-------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A callee is a function, first on tensors and then on buffers; what a call of
// it has to look like is read off its signature in either form.
//
//===----------------------------------------------------------------------===//

#include "OpHelpers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;
using namespace mpcomm::mprt;

/// The result that argument `i` of a function on tensors donates its buffer to;
/// -1 where none.
static int64_t resultDonatedTo(FunctionOpInterface callee, unsigned i) {
  auto donated = callee.getArgAttrOfType<IntegerAttr>(i, kDonatedAttr);
  if (!donated || donated.getInt() < 0 ||
      donated.getInt() >= callee.getNumResults() ||
      callee.getResultTypes()[donated.getInt()] != callee.getArgumentTypes()[i])
    return -1;
  return donated.getInt();
}

/// For each result, the argument that holds it; of a function on tensors, those
/// that nothing donates come after all arguments.
static FailureOr<SmallVector<int64_t>> findHolders(FunctionOpInterface callee) {
  SmallVector<int64_t> holders;
  auto results = callee->getAttrOfType<ArrayAttr>(kResultsAttr);
  int64_t numArguments = callee.getNumArguments();
  if (!results) {
    holders.assign(callee.getNumResults(), -1);
    for (int64_t i = 0; i < numArguments; ++i)
      if (int64_t result = resultDonatedTo(callee, i); result >= 0)
        holders[result] = i;
    for (int64_t &holder : holders)
      if (holder < 0)
        holder = numArguments++;
    return holders;
  }
  int64_t numNew = 0;
  for (Attribute entry : results) {
    auto attrs = dyn_cast<DictionaryAttr>(entry);
    auto argument =
        attrs ? attrs.getAs<IntegerAttr>(kResultArgument) : IntegerAttr();
    if (!argument)
      return failure();
    holders.push_back(argument.getInt());
    numNew += argument.getInt() < 0;
  }
  int64_t next =
      numArguments - numNew - (callee->hasAttr(kArenaBytesAttr) ? 1 : 0);
  for (int64_t &holder : holders)
    if (holder < 0)
      holder = next++;
  for (int64_t holder : holders)
    if (holder < 0 || holder >= numArguments)
      return failure();
  return holders;
}

FailureOr<CalleeSignature>
mpcomm::mprt::getCalleeSignature(FunctionOpInterface callee) {
  FailureOr<SmallVector<int64_t>> holders = findHolders(callee);
  if (failed(holders))
    return failure();
  CalleeSignature signature;
  unsigned numArguments = callee.getNumArguments();
  bool hasArena = callee->hasAttr(kArenaBytesAttr) && numArguments;
  signature.outputs.resize(holders->size());
  for (auto [result, holder] : llvm::enumerate(*holders))
    signature.outputs[result] = holder < numArguments
                                    ? callee.getArgumentTypes()[holder]
                                    : callee.getResultTypes()[result];
  for (unsigned i = 0; i < numArguments; ++i) {
    auto *result = llvm::find(*holders, int64_t(i));
    CalleeSignature::Operand operand;
    if (hasArena && i + 1 == numArguments) {
      operand.kind = CalleeSignature::Scratch;
    } else if (result != holders->end()) {
      operand.kind = CalleeSignature::Output;
      operand.index = result - holders->begin();
    } else {
      operand.kind = CalleeSignature::Input;
      operand.index = signature.inputs.size();
      signature.inputs.push_back(callee.getArgumentTypes()[i]);
    }
    signature.arguments.push_back(operand);
  }
  return signature;
}

//===----------------------------------------------------------------------===//
// CallOp
//===----------------------------------------------------------------------===//

void CallOp::build(OpBuilder &builder, OperationState &state,
                   FlatSymbolRefAttr callee, ValueRange inputs,
                   ValueRange outputs) {
  SmallVector<Type> results;
  for (Type type : outputs.getTypes())
    if (isa<TensorType>(type))
      results.push_back(type);
  build(builder, state, results, callee, /*trips=*/IntegerAttr(),
        /*reverse=*/UnitAttr(), inputs, outputs, /*scratch=*/Value());
}

bool CallOp::isStacked(Value buffer, Type argument) {
  return cast<ShapedType>(buffer.getType()).getRank() >
         cast<ShapedType>(argument).getRank();
}

LogicalResult CallOp::verify() {
  std::optional<int64_t> trips = getTrips();
  if (trips && (*trips < 1 || *trips > std::numeric_limits<int32_t>::max()))
    return emitOpError() << "has " << *trips // C4
                         << " trips, expected 1 to 2^31 - 1";
  if (getReverse() && !trips) // C4
    return emitOpError("is reverse without trips");
  return verifyDestinationStyle(*this, getOutputs()); // C1, C2
}

static LogicalResult verifyOperands(CallOp op, ValueRange operands,
                                    ArrayRef<Type> expected, StringRef what) {
  if (operands.size() != expected.size())
    return op.emitOpError()
           << "has " << operands.size() << " " << what << "s, but "
           << op.getCalleeAttr() << " takes " << expected.size();
  for (auto [i, pair] : llvm::enumerate(llvm::zip(operands, expected))) {
    auto [operand, type] = pair;
    auto from = cast<ShapedType>(operand.getType());
    auto to = dyn_cast<ShapedType>(type);
    ArrayRef<int64_t> shape = from.getShape();
    if (to && op.getTrips() && op.isStacked(operand, type) &&
        shape.front() == op.countCalls())
      shape = shape.drop_front();
    if (!to || to.getShape() != shape ||
        to.getElementType() != from.getElementType())
      return op.emitOpError()
             << "has " << what << " #" << i << " of type " << from << ", but "
             << op.getCalleeAttr() << " takes " << type;
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee || callee->hasAttr(kKernelAttr) || callee.isExternal() ||
      SymbolTable::getSymbolVisibility(callee) !=
          SymbolTable::Visibility::Private) // C3
    return emitOpError() << "expects " << getCalleeAttr()
                         << " to be a private function with a body that is no "
                            "kernel";
  FailureOr<CalleeSignature> signature = getCalleeSignature(callee);
  if (failed(signature))
    return emitOpError() << "expects " << getCalleeAttr()
                         << " to say where its results are";
  if (failed(verifyOperands(*this, getInputs(), signature->inputs, "input")) ||
      failed(verifyOperands(*this, getOutputs(), signature->outputs, "output")))
    return failure();
  auto arena = callee->getAttrOfType<IntegerAttr>(kArenaBytesAttr);
  auto scratch =
      getScratch() ? cast<MemRefType>(getScratch().getType()) : MemRefType();
  if (scratch && (!arena || !scratch.getElementType().isInteger(8) ||
                  scratch.getNumElements() < arena.getInt()))
    return emitOpError() << "has scratch of type " << scratch << ", but "
                         << getCalleeAttr() << " needs "
                         << (arena ? arena.getInt() : 0) << " bytes";
  return success();
}

void CallOp::getEffects(Effects &effects) {
  addEffects(getInputsMutable(), true, false, effects);
  addEffects(getOutputsMutable(), true, true, effects);
  addEffects(getScratchMutable(), false, true, effects);
}

SmallVector<Value> CallOp::getArguments(const CalleeSignature &signature) {
  SmallVector<Value> arguments;
  for (CalleeSignature::Operand operand : signature.arguments)
    switch (operand.kind) {
    case CalleeSignature::Input:
      arguments.push_back(getInputs()[operand.index]);
      break;
    case CalleeSignature::Output:
      arguments.push_back(getOutputs()[operand.index]);
      break;
    case CalleeSignature::Scratch:
      arguments.push_back(getScratch());
      break;
    }
  return arguments;
}
