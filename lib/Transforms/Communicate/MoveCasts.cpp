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

#include "Communicate/CastChain.h"
#include "Communicate/Communicator.h"
#include "Communicate/MoveMessageCasts.h"
#include "Communicate/Replicas.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mpcomm {
#define GEN_PASS_DEF_MOVECASTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-move-casts"

using namespace mlir;
using namespace mpcomm;

/// Whether `op` moves elements and combines none.
static bool movesElements(CollectiveOpInterface op) {
  return !mpcomm::detail::reduces(op.getCollectiveKind());
}

namespace {

class CastMover {
public:
  /// `moved` counts the casts that were moved across messages.
  CastMover(FunctionOpInterface function, const RankFunctions &ranks,
            Numerics numerics, int64_t moved)
      : function(function), numerics(numerics), replicas(function, ranks),
        ranks(ranks), moved(moved) {}

  /// Returns whether anything changed.
  bool run();

private:
  bool widenAfter(CollectiveOpInterface op);
  bool narrowBefore(CollectiveOpInterface op);
  void narrowWire(CollectiveOpInterface op);
  bool isSameOnAll(const Factor &factor, CollectiveOpInterface op);
  Operation *rebuildWith(OpBuilder &builder, CollectiveOpInterface op,
                         Value input, Type element);
  void passed(Operation *op, StringRef name, int64_t bytes);
  void eraseUnused(ArrayRef<Operation *> ops);

  FunctionOpInterface function;
  Numerics numerics;
  Replicas replicas;
  const RankFunctions &ranks;
  int64_t moved = 0, narrowed = 0;
};

} // namespace

/// Says how many bytes fewer `op` sends.
static void remarkPassed(Operation *op, StringRef function, StringRef name,
                         int64_t bytes) {
  remark::passed(
      op->getLoc(),
      remark::RemarkOpts::name(name).category(DEBUG_TYPE).function(function))
      << remark::metric("bytes", bytes);
}

void CastMover::passed(Operation *op, StringRef name, int64_t bytes) {
  remarkPassed(op, function.getName(), name, bytes);
}

void CastMover::eraseUnused(ArrayRef<Operation *> ops) {
  mpcomm::eraseUnused(
      ops, [&](Operation *op) { replicas.notifyOperationErased(op); });
}

/// Whether the factor may change sides of `op`: all ranks have the same, and
/// before `op`; and it keeps the zeros of ranks that nothing reaches.
bool CastMover::isSameOnAll(const Factor &factor, CollectiveOpInterface op) {
  CollectiveKind kind = op.getCollectiveKind();
  if (kind == CollectiveKind::Permute || kind == CollectiveKind::Gather) {
    auto number = dyn_cast_or_null<FloatAttr>(factor.splat);
    return number && number.getValue().isFiniteNonZero() &&
           !number.getValue().isNegative();
  }
  if (factor.splat)
    return true;
  Operation *def = factor.scalar.getDefiningOp();
  bool isThere =
      def ? def->getBlock() == op->getBlock() && def->isBeforeInBlock(op)
          : op->getBlock()->getParentOp() == function &&
                op->getBlock()->isEntryBlock();
  return isThere && replicas.isReplicated(factor.scalar, op);
}

/// The collective `op` on `input`, with results of `element`.
Operation *CastMover::rebuildWith(OpBuilder &builder, CollectiveOpInterface op,
                                  Value input, Type element) {
  OperationState state(op->getLoc(), op->getName().getStringRef());
  state.addOperands(input);
  state.addTypes(
      cast<RankedTensorType>(op->getResult(0).getType()).clone(element));
  state.addAttributes(op->getAttrs());
  return builder.create(state);
}

/// collective(widen(x)) to widen(collective(x)).
bool CastMover::widenAfter(CollectiveOpInterface op) {
  if (op->getNumOperands() != 1) // a bucket: casts move before it is filled
    return false;
  std::optional<CastChain> chain =
      findCastBefore(op->getOperand(0), [&](const Factor &factor) {
        return isSameOnAll(factor, op);
      });
  if (!chain || !chain->widens())
    return false;
  int64_t before = op.getPayloadBytes();
  OpBuilder builder(op, &replicas);
  auto ops = llvm::to_vector(llvm::reverse(chain->between));
  Value narrow =
      rebuild(builder, ops, ChainOps::Moves, chain->cast->getOperand(0));
  Operation *smaller = rebuildWith(builder, op, narrow, chain->getFrom());
  Value widened = rebuildCast(builder, *chain, smaller->getResult(0));
  widened = rebuild(builder, ops, ChainOps::Factors, widened);
  op->replaceAllUsesWith(ValueRange(widened));
  passed(smaller, "CastMoved",
         before - cast<CollectiveOpInterface>(smaller).getPayloadBytes());
  SmallVector<Operation *> old{op};
  llvm::append_range(old, chain->between);
  old.push_back(chain->cast);
  eraseUnused(old);
  ++moved;
  return true;
}

/// narrow(collective(x)), with no other use, to collective(narrow(x)).
bool CastMover::narrowBefore(CollectiveOpInterface op) {
  if (op->getNumOperands() != 1)
    return false;
  Value result = op->getResult(0);
  if (!result.hasOneUse())
    return false;
  std::optional<CastChain> chain =
      findCastAfter(*result.use_begin(), [&](const Factor &factor) {
        return isSameOnAll(factor, op);
      });
  if (!chain || !chain->narrows())
    return false;
  int64_t before = op.getPayloadBytes();
  OpBuilder builder(op, &replicas);
  Value value =
      rebuild(builder, chain->between, ChainOps::Factors, op->getOperand(0));
  value = rebuildCast(builder, *chain, value);
  Operation *smaller = rebuildWith(builder, op, value, chain->getTo());
  Value moved =
      rebuild(builder, chain->between, ChainOps::Moves, smaller->getResult(0));
  chain->cast->replaceAllUsesWith(ValueRange(moved));
  passed(smaller, "CastMoved",
         before - cast<CollectiveOpInterface>(smaller).getPayloadBytes());
  SmallVector<Operation *> old{chain->cast};
  llvm::append_range(old, llvm::reverse(chain->between));
  old.push_back(op);
  eraseUnused(old);
  ++this->moved;
  return true;
}

/// Whether all exponents of `wide` are exponents of `narrow`.
static bool hasAllExponents(Type narrow, Type wide) {
  const llvm::fltSemantics &a = cast<FloatType>(narrow).getFloatSemantics();
  const llvm::fltSemantics &b = cast<FloatType>(wide).getFloatSemantics();
  return APFloat::semanticsMaxExponent(a) >= APFloat::semanticsMaxExponent(b) &&
         APFloat::semanticsMinExponent(a) <= APFloat::semanticsMinExponent(b);
}

/// Whether multiplying by the factor, or dividing by it, keeps the bits of a
/// number's significand.
static bool isPowerOfTwo(const Factor &factor) {
  auto number = dyn_cast_or_null<FloatAttr>(factor.splat);
  return number && number.getValue().getExactLog2Abs() != INT_MIN;
}

/// The element type that `cast` has at its narrow end, if all exponents of the
/// wide one are among its where a factor is between.
static Type getNarrow(const CastChain &chain, bool hasFactors) {
  Type narrow = chain.widens() ? chain.getFrom() : chain.getTo();
  Type wide = chain.widens() ? chain.getTo() : chain.getFrom();
  return hasFactors && !hasAllExponents(narrow, wide) ? Type() : narrow;
}

/// The narrower type that holds what `value` is computed from.
static Type getNarrowSource(Value value) {
  bool hasFactors = false;
  std::optional<CastChain> chain =
      findCastBefore(value, [&](const Factor &factor) {
        hasFactors = true;
        return isPowerOfTwo(factor);
      });
  return chain && chain->widens() ? getNarrow(*chain, hasFactors) : Type();
}

/// The narrower type into which all that use `value` put it.
static Type getNarrowTarget(Value value) {
  Type type;
  for (OpOperand &use : value.getUses()) {
    bool hasFactors = false;
    std::optional<CastChain> chain =
        findCastAfter(use, [&](const Factor &) { return hasFactors = true; });
    Type to =
        chain && chain->narrows() ? getNarrow(*chain, hasFactors) : Type();
    if (!to || (type && to != type))
      return Type();
    type = to;
  }
  return type;
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
  Type wire = getNarrowType(op->getOperands(), getNarrowSource);
  if (!wire)
    wire = getNarrowType(op->getResults(), getNarrowTarget);
  if (!wire)
    return;
  int64_t bits = getBits(op->getOperand(0).getType());
  llvm::TypeSwitch<Operation *>(op)
      .Case<AllReduceOp, ReduceScatterOp, CollectiveReduceOp>([&](auto reduce) {
        reduce.setWire(wire);
        reduce.setAccumulate(Float32Type::get(op->getContext()));
      });
  int64_t bytes = op.getPayloadBytes();
  passed(op, "WireNarrowed", bytes - bytes * getBits(wire) / bits);
  ++narrowed;
}

bool CastMover::run() {
  SmallVector<CollectiveOpInterface> collectives;
  function->walk([&](CollectiveOpInterface op) {
    // Functions of other ranks would not change with it.
    if (isMovableCollective(op) && ranks.areShared(op.getAxesAttr()))
      collectives.push_back(op);
  });
  for (CollectiveOpInterface op : collectives) {
    if (movesElements(op))
      (void)(widenAfter(op) || narrowBefore(op));
    else if (numerics == Numerics::Lossy)
      narrowWire(op);
  }
  if (!collectives.empty() || moved)
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
    llvm::DenseMap<Operation *, int64_t> messages;
    moveMessageCasts(getOperation(), [&](Operation *op, int64_t bytes) {
      auto function = op->getParentOfType<FunctionOpInterface>();
      remarkPassed(op, function.getName(), "CastMoved", bytes);
      ++messages[function];
    });
    RankFunctions ranks(getOperation());
    bool changed = false;
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      if (!function.isExternal())
        changed |=
            CastMover(function, ranks, numerics, messages.lookup(function))
                .run();
    });
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
