//===- MoveCasts.cpp - float casts to the cheap side of collectives -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cast rounds each element by itself, so that it commutes with what only
// moves elements. Reductions combine elements before the cast sees them: there
// a narrower type goes on the wire, as an attribute, where that is allowed.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_MOVECASTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-move-casts"

using namespace mlir;
using namespace mpcomm;

/// Whether `op` casts the elements of one tensor between float types.
static bool isFloatCast(Operation *op) {
  return isa_and_nonnull<CastOpInterface>(op) &&
         OpTrait::hasElementwiseMappableTraits(op) &&
         op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getOperand(0).getType()) &&
         isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType())) &&
         isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
}

static unsigned getBits(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth();
}

/// Whether `op` moves elements and combines none.
static bool movesElements(CollectiveOpInterface op) {
  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Broadcast:
    return true;
  default:
    return false;
  }
}

namespace {

class CastMover {
public:
  CastMover(FunctionOpInterface function, Numerics numerics)
      : function(function), numerics(numerics) {}

  /// Returns whether anything changed.
  bool run();

private:
  bool widenBehind(CollectiveOpInterface op);
  bool narrowBefore(CollectiveOpInterface op);
  void narrowWire(CollectiveOpInterface op);
  Operation *rebuild(CollectiveOpInterface op, Value input, Type element);
  void passed(Operation *op, StringRef name, int64_t bytes);

  FunctionOpInterface function;
  Numerics numerics;
  int64_t moved = 0, narrowed = 0;
};

} // namespace

void CastMover::passed(Operation *op, StringRef name, int64_t bytes) {
  remark::passed(op->getLoc(), remark::RemarkOpts::name(name)
                                   .category(DEBUG_TYPE)
                                   .function(function.getName()))
      << remark::metric("bytes", bytes);
}

/// The collective `op` on `input`, with results of `element`.
Operation *CastMover::rebuild(CollectiveOpInterface op, Value input,
                              Type element) {
  OperationState state(op->getLoc(), op->getName().getStringRef());
  state.addOperands(input);
  state.addTypes(
      cast<RankedTensorType>(op->getResult(0).getType()).clone(element));
  state.addAttributes(op->getAttrs());
  return OpBuilder(op).create(state);
}

/// collective(widen(x)) to widen(collective(x)).
bool CastMover::widenBehind(CollectiveOpInterface op) {
  Operation *cast = op->getOperand(0).getDefiningOp();
  if (!isFloatCast(cast))
    return false;
  Value narrow = cast->getOperand(0);
  if (getBits(narrow.getType()) >= getBits(op->getOperand(0).getType()))
    return false;
  int64_t before = op.getPayloadBytes();
  Operation *smaller =
      rebuild(op, narrow, getElementTypeOrSelf(narrow.getType()));
  OpBuilder builder(op);
  OperationState state(cast->getLoc(), cast->getName().getStringRef());
  state.addOperands(smaller->getResult(0));
  state.addTypes(op->getResultTypes());
  state.addAttributes(cast->getAttrs());
  Operation *widened = builder.create(state);
  op->replaceAllUsesWith(widened->getResults());
  passed(smaller, "CastMoved",
         before - ::cast<CollectiveOpInterface>(smaller).getPayloadBytes());
  op->erase();
  if (cast->use_empty())
    cast->erase();
  ++moved;
  return true;
}

/// narrow(collective(x)), with no other use, to collective(narrow(x)).
bool CastMover::narrowBefore(CollectiveOpInterface op) {
  Value result = op->getResult(0);
  Operation *cast = result.hasOneUse() ? *result.user_begin() : nullptr;
  if (!isFloatCast(cast))
    return false;
  Type element = getElementTypeOrSelf(cast->getResult(0).getType());
  if (getBits(element) >= getBits(result.getType()))
    return false;
  int64_t before = op.getPayloadBytes();
  OpBuilder builder(op);
  OperationState state(cast->getLoc(), cast->getName().getStringRef());
  state.addOperands(op->getOperand(0));
  state.addTypes(
      ::cast<RankedTensorType>(op->getOperand(0).getType()).clone(element));
  state.addAttributes(cast->getAttrs());
  Operation *narrowed = builder.create(state);
  Operation *smaller = rebuild(op, narrowed->getResult(0), element);
  cast->replaceAllUsesWith(smaller->getResults());
  passed(smaller, "CastMoved",
         before - ::cast<CollectiveOpInterface>(smaller).getPayloadBytes());
  cast->erase();
  op->erase();
  ++moved;
  return true;
}

/// The one narrower float type of all `values`, as `typeOf` sees them, or null.
static Type getNarrowType(ValueRange values,
                          llvm::function_ref<Type(Value)> typeOf) {
  Type narrow;
  for (Value value : values) {
    Type type = typeOf(value);
    if (!type || getBits(type) < 16 || // no runtime reduces 8-bit floats
        getBits(type) >= getBits(value.getType()) || (narrow && narrow != type))
      return Type();
    narrow = type;
  }
  return narrow;
}

/// A reduction of widened values, or one whose results are narrowed, sends the
/// narrow type.
void CastMover::narrowWire(CollectiveOpInterface op) {
  if (op.getWireType() || op.getAccumulateType())
    return;
  Type wire = getNarrowType(op->getOperands(), [](Value value) -> Type {
    Operation *cast = value.getDefiningOp();
    return isFloatCast(cast) ? getElementTypeOrSelf(cast->getOperand(0))
                             : Type();
  });
  if (!wire)
    wire = getNarrowType(op->getResults(), [](Value value) -> Type {
      Type type;
      for (Operation *user : value.getUsers()) {
        Type to = isFloatCast(user) ? getElementTypeOrSelf(user->getResult(0))
                                    : Type();
        if (!to || (type && to != type))
          return Type();
        type = to;
      }
      return type;
    });
  if (!wire)
    return;
  auto narrow = [&](auto reduction) {
    reduction.setWire(wire);
    reduction.setAccumulate(Float32Type::get(op->getContext()));
  };
  int64_t bits = getBits(op->getOperand(0).getType());
  if (auto reduce = dyn_cast<AllReduceOp>(op.getOperation()))
    narrow(reduce);
  else
    narrow(cast<ReduceScatterOp>(op.getOperation()));
  int64_t bytes = op.getPayloadBytes();
  passed(op, "WireNarrowed", bytes - bytes * getBits(wire) / bits);
  ++narrowed;
}

bool CastMover::run() {
  SmallVector<CollectiveOpInterface> collectives;
  function->walk([&](CollectiveOpInterface op) {
    if (isMovableCollective(op))
      collectives.push_back(op);
  });
  for (CollectiveOpInterface op : collectives) {
    if (movesElements(op))
      (void)(widenBehind(op) || narrowBefore(op));
    else if (numerics == Numerics::Lossy)
      narrowWire(op);
  }
  if (!collectives.empty())
    remark::analysis(function.getLoc(), remark::RemarkOpts::name("MoveCasts")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
        << remark::metric("moved", moved)
        << remark::metric("narrowed", narrowed);
  return moved + narrowed > 0;
}

namespace {
struct MoveCasts : mpcomm::impl::MoveCastsPassBase<MoveCasts> {
  using MoveCastsPassBase::MoveCastsPassBase;

  void runOnOperation() override {
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      if (!function.isExternal())
        changed |= CastMover(function, numerics).run();
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
