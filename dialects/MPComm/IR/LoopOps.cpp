//===- LoopOps.cpp - counted loops ----------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a loop and its body, which is a symbol, have to agree on, and the work
// of all trips.
//
//===----------------------------------------------------------------------===//

#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

/// The sum of a count over the ops of the body, times the trips; `otherwise` if
/// there is no body to look at.
static int64_t countInBody(ScanOp op, int64_t otherwise,
                           llvm::function_ref<int64_t(CostOpInterface)> count) {
  FunctionOpInterface body = op.getBodyFunction();
  if (!body)
    return otherwise;
  int64_t sum = 0;
  body.getFunctionBody().walk([&](CostOpInterface inner) {
    if (isa<ScanOp>(inner) || llvm::AddOverflow(sum, count(inner), sum))
      sum = std::numeric_limits<int64_t>::max();
  });
  return mpcomm::detail::multiplySaturated(sum, op.getTrips());
}

int64_t mpcomm::detail::countScanFlops(Operation *op) {
  return countInBody(cast<ScanOp>(op), countResultElements(op),
                     [](CostOpInterface inner) { return inner.getFlops(); });
}

int64_t ScanOp::getBytesRead() {
  return countInBody(
      *this, mpcomm::detail::countBytes(getOperandTypes()),
      [](CostOpInterface inner) { return inner.getBytesRead(); });
}

int64_t ScanOp::getBytesWritten() {
  return countInBody(
      *this, mpcomm::detail::countBytes(getResultTypes()),
      [](CostOpInterface inner) { return inner.getBytesWritten(); });
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

FunctionOpInterface ScanOp::getBodyFunction() {
  auto body = SymbolTable::lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getBodyAttr());
  return body && !body.isExternal() ? body : FunctionOpInterface();
}

LogicalResult ScanOp::verify() {
  int64_t trips = getTrips();
  if (trips < 1 || trips > std::numeric_limits<int32_t>::max()) // scan C1
    return emitOpError() << "has " << trips << " trips, expected 1 to 2^31 - 1";
  if (getNumResults() < getCarries().size()) // scan C2
    return emitOpError() << "has " << getNumResults() << " results, expected "
                         << getCarries().size() << " of the carries at least";
  for (auto [i, carry] : llvm::enumerate(getCarries()))
    if (getResult(i).getType() != carry.getType()) // scan C2
      return emitOpError() << "has result #" << i << " of type "
                           << getResult(i).getType() << ", expected "
                           << carry.getType() << " as the carry";
  auto hasTrips = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getRank() > 0 && type.getDimSize(0) == trips;
  };
  for (Value slice : getSlices())
    if (!hasTrips(slice)) // scan C2
      return emitOpError() << "takes slices of " << slice.getType()
                           << ", expected a first dimension of " << trips;
  for (Value result : getStacked())
    if (!hasTrips(result)) // scan C2
      return emitOpError() << "stacks a result of type " << result.getType()
                           << ", expected a first dimension of " << trips;
  return success();
}

/// The type of what a trip takes of a tensor, or gives to it.
static Type getSliceType(Value stacked) {
  auto type = cast<RankedTensorType>(stacked.getType());
  return RankedTensorType::get(type.getShape().drop_front(),
                               type.getElementType());
}

static LogicalResult verifyTypes(ScanOp op, TypeRange types,
                                 ArrayRef<Type> expected, StringRef what) {
  if (types.size() != expected.size())
    return op.emitOpError()
           << "expects " << op.getBodyAttr() << " to have " << expected.size()
           << " " << what << "s, got " << types.size();
  for (auto [i, type, wanted] : llvm::enumerate(types, expected))
    if (type != wanted)
      return op.emitOpError()
             << "expects " << what << " #" << i << " of " << op.getBodyAttr()
             << " to have type " << wanted << ", got " << type;
  return success();
}

LogicalResult ScanOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto body = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getBodyAttr());
  if (!body || body.isExternal() || !body.isPrivate() ||
      !body.getFunctionBody().hasOneBlock()) // scan C3
    return emitOpError() << "expects " << getBodyAttr()
                         << " to be a private function of one block";
  SmallVector<Type> arguments(getCarries().getTypes());
  SmallVector<Type> results(getCarries().getTypes());
  for (Value slice : getSlices())
    arguments.push_back(getSliceType(slice));
  llvm::append_range(arguments, getCaptured().getTypes());
  for (Value stacked : getStacked())
    results.push_back(getSliceType(stacked));
  if (failed(verifyTypes(*this, body.getArgumentTypes(), arguments,
                         "argument")) || // scan C4
      failed(verifyTypes(*this, body.getResultTypes(), results,
                         "result"))) // scan C5
    return failure();
  Operation *wrong = nullptr;
  body.getFunctionBody().walk([&](Operation *op) {
    bool isTerminator = op->hasTrait<OpTrait::IsTerminator>();
    if (isa<CallOpInterface, ScanOp, CollectiveOpInterface,
            RankDependentOpInterface, AsyncOp, AwaitOp, UpdateLossScaleOp>(
            op) ||
        isGradientUpdate(op) || (!isTerminator && !isMemoryEffectFree(op)))
      wrong = op;
    return wrong ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!wrong)
    return success();
  InFlightDiagnostic diag = emitOpError() // scan C6
                            << "expects pure ops in " << getBodyAttr()
                            << ", and none that communicates, calls, loops or "
                               "updates state";
  diag.attachNote(wrong->getLoc()) << "got '" << wrong->getName() << "'";
  return diag;
}
