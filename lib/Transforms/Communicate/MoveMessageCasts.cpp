//===- MoveMessageCasts.cpp - casts across send and receive ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which send meets which receive depends on the ranks. That both change their
// type does not have to ask: a message meets one of its own communicator,
// channel, number of elements and element type, so all of a kind change, or
// none.
//
//===----------------------------------------------------------------------===//

#include "Communicate/MoveMessageCasts.h"
#include "Communicate/CastChain.h"
#include "Communicate/Communicator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::isMessage;

namespace {

/// All messages that may meet.
struct MessageKind {
  SmallVector<SendOp> sends;
  SmallVector<RecvOp> recvs;
};

} // namespace

/// No factor: it would have to move to another rank.
static bool isNoFactor(const Factor &) { return false; }

/// Whether `castFloat` makes the same cast.
static bool isPlain(const CastChain &chain) {
  if (auto narrowing = dyn_cast<arith::TruncFOp>(chain.cast))
    return !narrowing.getRoundingmode();
  return isa<arith::ExtFOp>(chain.cast);
}

/// `op`, or the async that it runs in.
static Operation *getStart(Operation *op) {
  AsyncOp async = getAsync(op);
  return async ? async.getOperation() : op;
}

/// What a receive gives to the ops that follow: its result, or that of the one
/// await of its future; null where the future goes elsewhere.
static Value getReceived(RecvOp op) {
  AsyncOp async = getAsync(op);
  if (!async)
    return op.getResult();
  Value future = async.getFuture();
  auto await =
      future.hasOneUse() ? dyn_cast<AwaitOp>(*future.user_begin()) : AwaitOp();
  return await ? await->getResult(0) : Value();
}

/// What is received has elements of `element` from now on.
static void setReceived(RecvOp op, Type element) {
  Value received = getReceived(op);
  auto type = cast<RankedTensorType>(received.getType()).clone(element);
  op.getResult().setType(type);
  if (AsyncOp async = getAsync(op))
    async.getFuture().setType(FutureType::get(op->getContext(), type));
  received.setType(type);
}

/// The one type from which all that is sent is widened, or null.
static Type getNarrowSource(const MessageKind &kind) {
  Type narrow;
  for (SendOp send : kind.sends) {
    std::optional<CastChain> chain =
        findCastBefore(send.getInput(), isNoFactor);
    if (!chain || !chain->widens() || !isPlain(*chain) ||
        (narrow && chain->getFrom() != narrow))
      return Type();
    narrow = chain->getFrom();
  }
  return narrow;
}

/// The one type to which all that is received is narrowed, or null.
static Type getNarrowTarget(const MessageKind &kind) {
  Type narrow;
  for (RecvOp recv : kind.recvs)
    for (OpOperand &use : getReceived(recv).getUses()) {
      std::optional<CastChain> chain = findCastAfter(use, isNoFactor);
      if (!chain || !chain->narrows() || !isPlain(*chain) ||
          (narrow && chain->getTo() != narrow))
        return Type();
      narrow = chain->getTo();
    }
  return narrow;
}

/// send(widen(x)), and y = recv, to send(x), and y = widen(recv).
static void widenAfter(const MessageKind &kind, Type narrow) {
  for (SendOp send : kind.sends) {
    CastChain chain = *findCastBefore(send.getInput(), isNoFactor);
    OpBuilder builder(getStart(send));
    auto moves = llvm::to_vector(llvm::reverse(chain.between));
    send.getInputMutable().assign(
        rebuild(builder, moves, ChainOps::Moves, chain.cast->getOperand(0)));
    chain.between.push_back(chain.cast);
    eraseUnused(chain.between);
  }
  for (RecvOp recv : kind.recvs) {
    Value received = getReceived(recv);
    Type wide = getElementTypeOrSelf(received);
    setReceived(recv, narrow);
    OpBuilder builder(recv->getContext());
    builder.setInsertionPointAfterValue(received);
    Value widened = castFloat(builder, recv.getLoc(), received, wide);
    received.replaceAllUsesExcept(widened, widened.getDefiningOp());
  }
}

/// send(x), and narrow(recv), to send(narrow(x)), and recv.
static void narrowBefore(const MessageKind &kind, Type narrow) {
  for (SendOp send : kind.sends) {
    OpBuilder builder(getStart(send));
    send.getInputMutable().assign(
        castFloat(builder, send.getLoc(), send.getInput(), narrow));
  }
  for (RecvOp recv : kind.recvs) {
    Value received = getReceived(recv);
    setReceived(recv, narrow);
    OpBuilder builder(recv->getContext());
    builder.setInsertionPointAfterValue(received);
    for (OpOperand &use : llvm::make_early_inc_range(received.getUses())) {
      CastChain chain = *findCastAfter(use, isNoFactor);
      chain.cast->replaceAllUsesWith(ValueRange(
          rebuild(builder, chain.between, ChainOps::Moves, received)));
      SmallVector<Operation *> old{chain.cast};
      llvm::append_range(old, llvm::reverse(chain.between));
      eraseUnused(old);
    }
  }
}

/// Whether a program runs functions that are not there to be changed.
static bool runsDeclarations(ModuleOp module) {
  return llvm::any_of(module.getOps<ProgramOp>(), [&](ProgramOp program) {
    return llvm::any_of(program.getFunctions(), [&](Attribute name) {
      auto function = SymbolTable::lookupNearestSymbolFrom<FunctionOpInterface>(
          program, cast<FlatSymbolRefAttr>(name));
      return !function || function.isExternal();
    });
  });
}

void mpcomm::moveMessageCasts(
    ModuleOp module,
    llvm::function_ref<void(Operation *op, int64_t bytes)> passed) {
  using Key = std::tuple<Operation *, Attribute, int64_t, int64_t, Type>;
  llvm::MapVector<Key, MessageKind> kinds;
  auto getKind = [&](CollectiveOpInterface op, Value payload) -> MessageKind & {
    auto type = cast<RankedTensorType>(payload.getType());
    return kinds[{op->getParentOfType<ModuleOp>(), getCommunicator(op),
                  op.getChannel(), type.getNumElements(),
                  type.getElementType()}];
  };
  llvm::SmallPtrSet<Operation *, 2> open;
  module.walk([&](Operation *op) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (collective && isMessage(collective.getCollectiveKind()) &&
        !op->getParentOfType<FunctionOpInterface>())
      open.insert(op->getParentOfType<ModuleOp>()); // of no rank
    else if (auto send = dyn_cast<SendOp>(op))
      getKind(send, send.getInput()).sends.push_back(send);
    else if (auto recv = dyn_cast<RecvOp>(op))
      getKind(recv, recv.getResult()).recvs.push_back(recv);
    else if (auto inner = dyn_cast<ModuleOp>(op);
             inner && runsDeclarations(inner))
      open.insert(inner);
  });
  for (auto &[key, kind] : kinds) {
    if (open.contains(std::get<Operation *>(key)) || kind.sends.empty() ||
        kind.recvs.empty() || !llvm::all_of(kind.recvs, getReceived))
      continue;
    Type wide = std::get<Type>(key), narrow = getNarrowSource(kind);
    if (narrow)
      widenAfter(kind, narrow);
    else if ((narrow = getNarrowTarget(kind)))
      narrowBefore(kind, narrow);
    else
      continue;
    auto count = [&](CollectiveOpInterface op) {
      int64_t bytes = op.getPayloadBytes();
      passed(op, bytes * getBits(wide) / getBits(narrow) - bytes);
    };
    llvm::for_each(kind.sends, count);
    llvm::for_each(kind.recvs, count);
  }
}
