//===- MPCommToMPRT.cpp - collectives to starts and awaits ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives on tensors become mprt.start and mprt.await, still on tensors:
// in destination style, so that bufferization keeps a bucket in one place from
// its gradients to the optimizer. What depends on the rank becomes a copy at
// its coordinate, and the factor of a mean arithmetic.
//
//===----------------------------------------------------------------------===//

#include "BucketLayout.h"
#include "Numbering.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/SignatureEditor.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_CONVERTMPCOMMTOMPRTPASS
#include "mpcomm/Conversion/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "convert-mpcomm-to-mprt"

using namespace mlir;
using namespace mpcomm;

namespace {

/// One start, and how to make the values of the collective from its outputs.
struct Started {
  int64_t event;
  Value input;                 // kept alive until the await; may be null
  SmallVector<Value> outputs;  // results of the start
  SmallVector<unsigned> slots; // the collective's results that they are
  // Makes these results of what is awaited; null where they are the same.
  std::function<SmallVector<Value>(OpBuilder &, Location, ValueRange)> finish;
};

/// Lowers the collectives of a module; counts their events.
class Lowering {
public:
  explicit Lowering(ModuleOp module) : module(module), numbering(module) {}

  LogicalResult run();

private:
  LogicalResult lowerFunction(func::FuncOp function);
  LogicalResult lowerCall(func::CallOp op);
  void donateCarries(ScanOp op);
  void lowerScan(ScanOp op);
  FailureOr<SmallVector<Started>> start(OpBuilder &builder,
                                        CollectiveOpInterface op);
  SmallVector<Value> await(OpBuilder &builder, Location loc,
                           ArrayRef<Started> started, unsigned numResults);
  LogicalResult lowerRankDependent(OpBuilder &builder, Operation *op);
  Started startOne(OpBuilder &builder, CollectiveOpInterface op, int64_t comm,
                   int64_t peer, Value input, ValueRange outputs,
                   Type accumulate, unsigned part = 0);
  FailureOr<SmallVector<Started>> startBucket(OpBuilder &builder,
                                              BucketableOpInterface op,
                                              int64_t comm, int64_t group);

  ModuleOp module;
  Numbering numbering;
  llvm::DenseMap<Operation *, unsigned> carriesOf; // of loops, by body
  int64_t nextEvent = 0;
};

} // namespace

Started Lowering::startOne(OpBuilder &builder, CollectiveOpInterface op,
                           int64_t comm, int64_t peer, Value input,
                           ValueRange outputs, Type accumulate, unsigned part) {
  std::string reduction;
  if (std::optional<Reduction> kind = op.getCollectiveReduction())
    reduction = stringifyReduction(*kind);
  SmallVector<Value> inputs;
  if (input)
    inputs.push_back(input);
  auto startOp = mprt::StartOp::create(
      builder, op->getLoc(), outputs.getTypes(),
      stringifyCollectiveKind(op.getCollectiveKind()), reduction,
      numbering.idOf(op, comm, part), comm, nextEvent, peer, accumulate,
      /*targets=*/nullptr, inputs, outputs);
  if (Attribute tag = op->getAttr(kTagAttr))
    startOp->setAttr(kTagAttr, tag);
  Started started;
  started.event = nextEvent++;
  started.input = input;
  llvm::append_range(started.outputs, startOp.getResults());
  return started;
}

//===----------------------------------------------------------------------===//
// Shapes of what travels
//===----------------------------------------------------------------------===//

static Value emptyLike(OpBuilder &builder, Location loc,
                       ArrayRef<int64_t> shape, Type element) {
  return tensor::EmptyOp::create(builder, loc, shape, element);
}

//===----------------------------------------------------------------------===//
// One collective
//===----------------------------------------------------------------------===//

/// The type in which sums of `element` are kept where nothing else is said.
static Type accumulateType(CollectiveOpInterface op, Type element) {
  if (Type type = op.getAccumulateType())
    return type;
  return mpcomm::detail::getSumType(element);
}

/// Communicators add floats of 16 bits and more: 8 bits have a scale a block,
/// which a sum on the way would have to know.
static LogicalResult checkSum(CollectiveOpInterface op, Type wire) {
  auto type = dyn_cast<FloatType>(wire);
  if (!type || type.getWidth() >= 16)
    return success();
  return op->emitOpError()
         << "sums " << wire
         << " on the wire, which no communicator can: expected f64, f32, f16 "
            "or bf16, or mpcomm-compress-collectives before, which sends 8 "
            "bits with scales";
}

/// One start for each element type.
FailureOr<SmallVector<Started>> Lowering::startBucket(OpBuilder &builder,
                                                      BucketableOpInterface op,
                                                      int64_t comm,
                                                      int64_t group) {
  Location loc = op->getLoc();
  SmallVector<Started> all;
  llvm::MapVector<Type, SmallVector<unsigned>> byType;
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    byType[getElementTypeOrSelf(type)].push_back(i);
  for (auto &[type, slots] : byType) {
    Type wire = op.getWireType() ? op.getWireType() : type;
    if (mpcomm::detail::reduces(op.getCollectiveKind()) &&
        failed(checkSum(op, wire)))
      return failure();
    BucketLayout layout(op, slots, group, wire);
    Value input = layout.pack(builder, loc);
    Value output = emptyLike(builder, loc, layout.getReceivedShape(), wire);
    Started started = startOne(builder, op, comm, -1, input, output,
                               accumulateType(op, wire), all.size());
    started.slots = slots;
    started.finish = [layout](OpBuilder &b, Location l, ValueRange received) {
      return layout.unpack(b, l, received.front());
    };
    all.push_back(std::move(started));
  }
  return all;
}

/// Applies `castFloat` to each value.
static SmallVector<Value> castAll(OpBuilder &builder, Location loc,
                                  ValueRange values, Type type) {
  return llvm::map_to_vector(values, [&](Value value) {
    return castFloat(builder, loc, value, type);
  });
}

FailureOr<SmallVector<Started>> Lowering::start(OpBuilder &builder,
                                                CollectiveOpInterface op) {
  Location loc = op->getLoc();
  FailureOr<int64_t> comm = numbering.communicatorOf(op);
  FailureOr<int64_t> group = op.getGroupSize();
  if (failed(comm))
    return failure();
  if (failed(group))
    return op->emitOpError("has no group: its mesh lacks an axis");
  SmallVector<Started> all;
  auto element = [&](Value v) { return getElementTypeOrSelf(v.getType()); };

  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllReduce: {
    // One start per element type: a bucket is one range of memory.
    llvm::MapVector<Type, SmallVector<unsigned>> byType;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      byType[element(operand)].push_back(i);
    for (auto &[type, slots] : byType) {
      Type wire = op.getWireType() ? op.getWireType() : type;
      if (failed(checkSum(op, wire)))
        return failure();
      SmallVector<Value> outputs;
      for (unsigned i : slots)
        outputs.push_back(castFloat(builder, loc, op->getOperand(i), wire));
      Started started = startOne(builder, op, *comm, -1, {}, outputs,
                                 accumulateType(op, wire), all.size());
      started.slots = slots;
      if (wire != type)
        started.finish = [type = type](OpBuilder &b, Location l, ValueRange v) {
          return castAll(b, l, v, type);
        };
      all.push_back(std::move(started));
    }
    return all;
  }
  case CollectiveKind::Broadcast: {
    auto broadcast = cast<CollectiveBroadcastOp>(op);
    all.push_back(startOne(builder, op, *comm, broadcast.getRoot(), {},
                           broadcast.getInput(),
                           element(broadcast.getInput())));
    all.back().slots = {0};
    return all;
  }
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllGather:
  case CollectiveKind::AllToAll:
    return startBucket(builder, cast<BucketableOpInterface>(op.getOperation()),
                       *comm, *group);
  case CollectiveKind::Reduce: {
    Value whole = op->getOperand(0);
    Type type = element(whole);
    Type wire = op.getWireType() ? op.getWireType() : type;
    if (failed(checkSum(op, wire)))
      return failure();
    Value input = castFloat(builder, loc, whole, wire);
    Value output = emptyLike(
        builder, loc,
        cast<RankedTensorType>(op->getResult(0).getType()).getShape(), wire);
    all.push_back(startOne(builder, op, *comm,
                           cast<CollectiveReduceOp>(op).getRoot(), input,
                           output, accumulateType(op, wire)));
    all.back().slots = {0};
    if (wire != type)
      all.back().finish = [type](OpBuilder &b, Location l, ValueRange v) {
        return castAll(b, l, v, type);
      };
    return all;
  }
  case CollectiveKind::Gather: {
    auto gather = cast<CollectiveGatherOp>(op);
    Value input = gather.getInput();
    SmallVector<int64_t> shape(
        cast<RankedTensorType>(input.getType()).getShape());
    shape.insert(shape.begin(), *group);
    Value output = emptyLike(builder, loc, shape, element(input));
    all.push_back(startOne(builder, op, *comm, gather.getRoot(), input, output,
                           element(input)));
    all.back().slots = {0};
    all.back().finish = [dim = gather.getDim()](OpBuilder &b, Location l,
                                                ValueRange v) {
      return SmallVector<Value>{joinFromFront(b, l, v.front(), dim)};
    };
    return all;
  }
  case CollectiveKind::Scatter: {
    auto scatter = cast<CollectiveScatterOp>(op);
    Value input = splitToFront(builder, loc, scatter.getInput(),
                               scatter.getDim(), *group);
    auto type = cast<RankedTensorType>(scatter.getResult().getType());
    Value output =
        emptyLike(builder, loc, type.getShape(), type.getElementType());
    all.push_back(startOne(builder, op, *comm, scatter.getRoot(), input, output,
                           type.getElementType()));
    all.back().slots = {0};
    return all;
  }
  case CollectiveKind::Permute: {
    auto permute = cast<CollectivePermuteOp>(op);
    auto type = cast<RankedTensorType>(permute.getResult().getType());
    Value output =
        emptyLike(builder, loc, type.getShape(), type.getElementType());
    all.push_back(startOne(builder, op, *comm, -1, permute.getInput(), output,
                           type.getElementType()));
    all.back().slots = {0};
    all.back().outputs.front().getDefiningOp<mprt::StartOp>().setTargetsAttr(
        builder.getDenseI64ArrayAttr(permute.getTargets(*group)));
    return all;
  }
  case CollectiveKind::Send: {
    auto send = cast<SendOp>(op);
    all.push_back(startOne(builder, op, *comm, send.getTo(), send.getInput(),
                           {}, element(send.getInput())));
    return all;
  }
  case CollectiveKind::Recv: {
    auto recv = cast<RecvOp>(op);
    auto type = cast<RankedTensorType>(recv.getResult().getType());
    Value output =
        emptyLike(builder, loc, type.getShape(), type.getElementType());
    all.push_back(startOne(builder, op, *comm, recv.getFrom(), {}, output,
                           type.getElementType()));
    all.back().slots = {0};
    return all;
  }
  case CollectiveKind::Barrier:
    all.push_back(
        startOne(builder, op, *comm, -1, {}, {}, builder.getF32Type()));
    return all;
  }
  return op->emitOpError("is a collective that the runtime does not know");
}

SmallVector<Value> Lowering::await(OpBuilder &builder, Location loc,
                                   ArrayRef<Started> all, unsigned numResults) {
  SmallVector<Value> results(numResults);
  for (const Started &started : all) {
    SmallVector<Value> inputs;
    if (started.input)
      inputs.push_back(started.input);
    auto awaitOp = mprt::AwaitOp::create(
        builder, loc, ValueRange(started.outputs).getTypes(), started.event,
        inputs, started.outputs);
    SmallVector<Value> values(awaitOp.getResults());
    if (started.finish)
      values = started.finish(builder, loc, values);
    for (auto [slot, value] : llvm::zip(started.slots, values))
      results[slot] = value;
  }
  return results;
}

//===----------------------------------------------------------------------===//
// What depends on the rank
//===----------------------------------------------------------------------===//

/// The rank's block of `blocks`, a row of as many as the group has ranks.
static FailureOr<Value> sliceOwn(OpBuilder &builder,
                                 RankDependentOpInterface op, Value blocks,
                                 RankedTensorType type) {
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  if (!mesh)
    return op->emitOpError("has no group: it names no mesh");
  SmallVector<int64_t> sizes, strides;
  int64_t stride = mesh.getNumRanks();
  for (auto [name, size] :
       llvm::zip(mesh.getAxisNames(), mesh.getAxisSizes())) {
    stride /= size;
    if (!llvm::is_contained(op.getAxesAttr(), name))
      continue;
    sizes.push_back(size);
    strides.push_back(stride);
  }
  Location loc = op->getLoc();
  Value output = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                         type.getElementType());
  return mprt::AllSliceOp::create(builder, loc, type, sizes, strides, blocks,
                                  output)
      ->getResult(0);
}

LogicalResult Lowering::lowerRankDependent(OpBuilder &builder, Operation *op) {
  Location loc = op->getLoc();
  auto dependent = cast<RankDependentOpInterface>(op);
  FailureOr<int64_t> group = mpcomm::detail::lookupGroupSize(
      op, dependent.getMeshAttr(), dependent.getAxesAttr());
  if (failed(group))
    return op->emitOpError("has no group: its mesh lacks an axis");
  FailureOr<Value> own = failure();
  if (auto slice = dyn_cast<AllSliceOp>(op)) {
    auto type = cast<RankedTensorType>(slice.getResult().getType());
    Value blocks = slice.getInput();
    if (slice.getDim() != 0)
      blocks = splitToFront(builder, loc, blocks, slice.getDim(), *group);
    own = sliceOwn(builder, dependent, blocks, type);
  } else if (auto index = dyn_cast<AxisIndexOp>(op)) {
    // One of all the numbers that it may be.
    auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, *group));
    auto type = RankedTensorType::get(*group, builder.getI32Type());
    Value all = arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
    own = sliceOwn(builder, dependent, all,
                   cast<RankedTensorType>(index.getResult().getType()));
  } else {
    return op->emitOpError("depends on the rank in a way that the runtime does "
                           "not know");
  }
  if (failed(own))
    return failure();
  op->replaceAllUsesWith(ValueRange{*own});
  op->erase();
  return success();
}

/// A reciprocal is exact for powers of two only, and 16 bits hold few numbers
/// of ranks.
static LogicalResult lowerPredivide(OpBuilder &builder, PredivideOp op) {
  Location loc = op.getLoc();
  FailureOr<int64_t> ranks =
      mpcomm::detail::lookupGroupSize(op, op.getMeshAttr(), op.getAxes());
  if (failed(ranks))
    return op->emitOpError("has no group: its mesh lacks an axis");
  Value value = op.getInput();
  auto type = cast<RankedTensorType>(value.getType());
  auto makeNumber = [&](RankedTensorType type, double number) {
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), number)));
  };
  if (llvm::isPowerOf2_64(*ranks)) {
    if (*ranks > 1)
      value = arith::MulFOp::create(builder, loc, value,
                                    makeNumber(type, 1.0 / double(*ranks)));
  } else {
    RankedTensorType wide = type;
    if (type.getElementTypeBitWidth() < 32)
      wide = type.clone(builder.getF32Type());
    value = castFloat(builder, loc, value, wide.getElementType());
    value = arith::DivFOp::create(builder, loc, value,
                                  makeNumber(wide, double(*ranks)));
    value = castFloat(builder, loc, value, type.getElementType());
  }
  op.replaceAllUsesWith(value);
  op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Calls of private functions
//===----------------------------------------------------------------------===//

/// A call of a private function: results that an argument donates its buffer to
/// are made in the operand that stands for it.
LogicalResult Lowering::lowerCall(func::CallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getCalleeAttr());
  if (!callee || callee.isExternal() || !callee.isPrivate())
    return op.emitOpError() << "expects " << op.getCalleeAttr()
                            << " to be a private function with a body";
  FailureOr<mprt::CalleeSignature> signature = mprt::getCalleeSignature(callee);
  if (failed(signature))
    return op.emitOpError("calls a function whose signature is not known");
  OpBuilder builder(op);
  SmallVector<Value> inputs, outputs(op.getNumResults());
  for (auto [operand, role] : llvm::zip(op.getOperands(), signature->arguments))
    if (role.kind == mprt::CalleeSignature::Output)
      outputs[role.index] = operand;
    else
      inputs.push_back(operand);
  for (auto [output, type] : llvm::zip(outputs, op.getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return op.emitOpError()
             << "expects ranked tensors of static shape, got " << type;
    if (!output)
      output = tensor::EmptyOp::create(builder, op.getLoc(), tensor.getShape(),
                                       tensor.getElementType());
  }
  auto call = mprt::CallOp::create(builder, op.getLoc(), op.getCalleeAttr(),
                                   inputs, outputs);
  // Which pass of a pipeline it is, the program file says.
  for (StringRef name : {kTagAttr, kStageAttr})
    if (Attribute value = op->getAttr(name))
      call->setAttr(name, value);
  op.replaceAllUsesWith(call.getResults());
  op.erase();
  return success();
}

/// A loop updates its carries in place: the body donates each to its next
/// value. A loop with another number of carries gets a body of its own.
void Lowering::donateCarries(ScanOp op) {
  FunctionOpInterface body = op.getBodyFunction();
  unsigned count = op.getCarries().size();
  if (carriesOf.try_emplace(body, count).first->second != count) {
    body = body.clone();
    SignatureEditor editor(body);
    for (unsigned i = 0, e = body.getNumArguments(); i < e; ++i)
      editor.setArgument(i, kDonatedAttr, Attribute());
    editor.apply();
    StringAttr name = SymbolTable(module).insert(body);
    op.setBodyAttr(FlatSymbolRefAttr::get(name));
    carriesOf[body] = count;
  }
  OpBuilder builder(op);
  SignatureEditor editor(body);
  for (unsigned i = 0, e = op.getCarries().size(); i < e; ++i)
    editor.setArgument(i, kDonatedAttr, builder.getI64IntegerAttr(i));
  editor.apply();
}

/// Stacked results are filled row by row.
void Lowering::lowerScan(ScanOp op) {
  OpBuilder builder(op);
  SmallVector<Value> inputs(op.getSlices());
  llvm::append_range(inputs, op.getCaptured());
  SmallVector<Value> outputs(op.getCarries());
  for (Value stacked : op.getStacked())
    outputs.push_back(tensor::EmptyOp::create(
        builder, op.getLoc(), cast<RankedTensorType>(stacked.getType()),
        ValueRange()));
  auto call = mprt::CallOp::create(builder, op.getLoc(), op.getBodyAttr(),
                                   inputs, outputs);
  call.setTripsAttr(op.getTripsAttr());
  call.setReverse(op.getReverse());
  op.replaceAllUsesWith(call.getResults());
  op.erase();
}

//===----------------------------------------------------------------------===//
// A function, a module
//===----------------------------------------------------------------------===//

LogicalResult Lowering::lowerFunction(func::FuncOp function) {
  function->removeAttr(kFingerprintsAttr); // of collectives on tensors
  SmallVector<Operation *> ops;
  SmallVector<func::CallOp> calls;
  function.walk([&](func::CallOp op) { calls.push_back(op); });
  for (func::CallOp op : calls)
    if (failed(lowerCall(op)))
      return failure();
  SmallVector<PredivideOp> divisions;
  function.walk([&](PredivideOp op) { divisions.push_back(op); });
  for (PredivideOp op : divisions) {
    OpBuilder builder(op);
    if (failed(lowerPredivide(builder, op)))
      return failure();
  }
  SmallVector<ScanOp> loops;
  function.walk([&](ScanOp op) { loops.push_back(op); });
  for (ScanOp op : loops)
    lowerScan(op);
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<AsyncOp>(op)) {
      ops.push_back(op);
      return WalkResult::skip();
    }
    if (isa<CollectiveOpInterface, RankDependentOpInterface>(op))
      ops.push_back(op);
    return WalkResult::advance();
  });
  IRRewriter rewriter(function.getContext());
  for (Operation *op : ops) {
    rewriter.setInsertionPoint(op);
    if (isa<RankDependentOpInterface>(op)) {
      if (failed(lowerRankDependent(rewriter, op)))
        return failure();
      continue;
    }
    auto async = dyn_cast<AsyncOp>(op);
    if (!async) {
      auto started = start(rewriter, cast<CollectiveOpInterface>(op));
      if (failed(started))
        return failure();
      rewriter.replaceOp(
          op, await(rewriter, op->getLoc(), *started, op->getNumResults()));
      continue;
    }
    if (!async.getFuture().hasOneUse() ||
        !isa<AwaitOp>(*async.getFuture().user_begin()))
      return async.emitOpError("expects its future to be awaited once, and "
                               "used for nothing else");
    auto awaitOp = cast<AwaitOp>(*async.getFuture().user_begin());
    auto started =
        start(rewriter, cast<CollectiveOpInterface>(async.getCollective()));
    if (failed(started))
      return failure();
    rewriter.setInsertionPoint(awaitOp);
    rewriter.replaceOp(awaitOp, await(rewriter, awaitOp.getLoc(), *started,
                                      awaitOp.getNumResults()));
    rewriter.eraseOp(async);
  }
  return success();
}

LogicalResult Lowering::run() {
  module.walk([&](ScanOp op) { donateCarries(op); });
  for (auto function : module.getOps<func::FuncOp>()) {
    numbering.enter(function);
    if (failed(lowerFunction(function)))
      return failure();
  }
  numbering.note();
  return success();
}

namespace {

struct ConvertMPCommToMPRT
    : public mpcomm::impl::ConvertMPCommToMPRTPassBase<ConvertMPCommToMPRT> {
  void runOnOperation() override {
    if (failed(Lowering(getOperation()).run()))
      signalPassFailure();
  }
};

} // namespace
