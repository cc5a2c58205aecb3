//===- CompressCollectives.cpp - reductions in fewer bits, summed in f32 --===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each rank gets its share of everybody's encoded values, decodes and sums them
// in f32, encodes the sum once, and gives it to all: two roundings whatever the
// number of ranks, at the volume of a ring. All ranks decode the same bytes, so
// that results are equal. A reduce_scatter ends with the sums: one rounding.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "Communicate/ErrorFeedback.h"
#include "Communicate/Model.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"

#include <limits>

namespace mpcomm {
#define GEN_PASS_DEF_COMPRESSCOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-compress-collectives"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countElements;

namespace {

/// How a collective is sent, and why.
struct WireChoice {
  WireFormat format;
  /// What each form takes in the model, by its name; none without a model.
  SmallVector<std::pair<std::string, double>> seconds;

  /// Adds them.
  void explain(remark::detail::InFlightRemark &remark) const;
  /// Emits the remark for `op`, which has become `compressed` bytes.
  void report(CollectiveOpInterface op, int64_t compressed) const;
};

class CompressCollectives
    : public mpcomm::impl::CompressCollectivesPassBase<CompressCollectives> {
public:
  using CompressCollectivesPassBase::CompressCollectivesPassBase;
  void runOnOperation() override;

private:
  std::optional<WireChoice> choose(CollectiveOpInterface op,
                                   const CostModel *model) const;
  std::vector<WireFormat> getFormats(CollectiveOpInterface op) const;
  Value layOut(OpBuilder &builder, CollectiveOpInterface op,
               ArrayRef<int64_t> shape,
               ArrayRef<BlockArgument> residuals) const;
  Value layOutShares(OpBuilder &builder, CollectiveOpInterface op,
                     int64_t ranks, int64_t padded,
                     ArrayRef<BlockArgument> residuals) const;
  Value sumShares(OpBuilder &builder, CollectiveOpInterface op,
                  const WireFormat &wire, const Encoded &received,
                  int64_t ranks) const;
  Encoded gather(OpBuilder &builder, CollectiveOpInterface op, int64_t ranks,
                 const Encoded &mine) const;
  void handOut(OpBuilder &builder, CollectiveOpInterface op, Value row) const;
  FailureOr<SmallVector<BlockArgument>> addResiduals(CollectiveOpInterface op);
  void keepLost(OpBuilder &builder, Value lost,
                ArrayRef<BlockArgument> residuals, ValueRange inputs);
  LogicalResult rewriteReduction(CollectiveOpInterface op,
                                 const WireChoice &choice, int64_t ranks);
  LogicalResult rewriteScatter(CollectiveOpInterface op,
                               const WireChoice &choice, int64_t ranks);

  /// By the names in `type`.
  std::vector<WireFormat> formats;
  std::optional<ErrorFeedback> feedback;
};

} // namespace

/// How the op's operands may travel; in no way where they stay as they are.
std::vector<WireFormat>
CompressCollectives::getFormats(CollectiveOpInterface op) const {
  if (!isCompressible(op) || !isMovableCollective(op))
    return {};
  if (!type.empty())
    return formats;
  // What is to travel in 16 bits and be summed in f32.
  if (op.getCollectiveKind() != CollectiveKind::AllReduce)
    return {};
  Type element = getElementTypeOrSelf(op->getOperand(0).getType());
  Type travels = op.getWireType() ? op.getWireType() : element;
  bool isHomogeneous = llvm::all_of(op->getOperands(), [&](Value input) {
    return getElementTypeOrSelf(input.getType()) == element;
  });
  if (!isHomogeneous || travels.getIntOrFloatBitWidth() != 16)
    return {};
  return {WireFormat(travels, block)};
}

static remark::RemarkOpts remarkNamed(Operation *op, StringRef name) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  return remark::RemarkOpts::name(name)
      .category(DEBUG_TYPE)
      .function(function ? function.getName() : StringRef());
}

void WireChoice::explain(remark::detail::InFlightRemark &remark) const {
  for (const auto &[name, value] : seconds)
    remark << remark::metric(name + "_us", toMicros(value));
}

void WireChoice::report(CollectiveOpInterface op, int64_t compressed) const {
  auto remark = remark::passed(op.getLoc(), remarkNamed(op, "Compressed"));
  remark << remark::metric("bytes", CostModel::getWireBytes(op))
         << remark::metric("compressed", compressed)
         << remark::metric("type", format.getName());
  explain(remark);
}

/// The fastest format in the model; nothing if the op stays as it is, by
/// `min-bytes` if that is given, else because nothing is faster. An empty type
/// is asked for the sake of sums, not of time.
std::optional<WireChoice>
CompressCollectives::choose(CollectiveOpInterface op,
                            const CostModel *model) const {
  std::vector<WireFormat> candidates = getFormats(op);
  int64_t bytes = CostModel::getWireBytes(op);
  if (candidates.empty() || bytes < minBytes)
    return std::nullopt;
  WireChoice choice{candidates.front(), {}};
  FailureOr<GroupShape> shape = failure();
  FailureOr<CostCurve> plain = failure();
  if (model) {
    shape = model->getGroupShape(op);
    plain = model->getCollective(op);
  }
  if (failed(shape) || failed(plain))
    return choice;
  choice.seconds.emplace_back("plain", plain->at(bytes));
  double least = std::numeric_limits<double>::infinity();
  for (const WireFormat &format : candidates) {
    // Each operand is laid in the row, and its result taken out.
    double seconds = getCompressedCost(*model, *shape, format, op).at(bytes) +
                     2 * static_cast<double>(op->getNumOperands()) *
                         model->getCluster().device.launch;
    choice.seconds.emplace_back(format.getName(), seconds);
    if (seconds < least) {
      least = seconds;
      choice.format = format;
    }
  }
  if (minBytes >= 0 || least < plain->at(bytes))
    return choice;
  auto remark = remark::missed(op.getLoc(), remarkNamed(op, "NotCompressed"));
  remark << remark::reason("it would take longer in the model")
         << remark::metric("bytes", bytes);
  choice.explain(remark);
  return std::nullopt;
}

/// All operands, and what was lost of them before, as one row of f32, filled up
/// with zeros, in the shape `shape`.
Value CompressCollectives::layOut(OpBuilder &builder, CollectiveOpInterface op,
                                  ArrayRef<int64_t> shape,
                                  ArrayRef<BlockArgument> residuals) const {
  Location loc = op.getLoc();
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  int64_t elements = 0;
  for (Value input : op->getOperands())
    elements += countElements(input.getType());
  // One operand gets its shape before it is added to, so that one kernel adds
  // and encodes.
  bool isWhole = op->getNumOperands() == 1 && elements == type.getNumElements();
  SmallVector<Value> rows;
  for (auto [i, input] : llvm::enumerate(op->getOperands())) {
    SmallVector<int64_t> rowShape{countElements(input.getType())};
    if (isWhole)
      rowShape.assign(shape.begin(), shape.end());
    Value wide = castFloat(builder, loc, input, type.getElementType());
    wide = reshapeTo(builder, loc, wide, rowShape);
    if (!residuals.empty() && residuals[i]) {
      Value kept = feedback->getKept(builder, residuals[i]);
      wide = arith::AddFOp::create(builder, loc, wide,
                                   reshapeTo(builder, loc, kept, rowShape));
    }
    rows.push_back(wide);
  }
  if (isWhole)
    return rows.front();
  if (type.getNumElements() > elements) {
    auto rest = RankedTensorType::get(type.getNumElements() - elements,
                                      type.getElementType());
    rows.push_back(arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(rest,
                               builder.getZeroAttr(type.getElementType()))));
  }
  Value row = ConcatenateOp::create(
      builder, loc,
      RankedTensorType::get(type.getNumElements(), type.getElementType()), rows,
      /*dim=*/0);
  return reshapeTo(builder, loc, row, shape);
}

/// What rank r gets of all operands as row r of f32, filled up with zeros.
Value CompressCollectives::layOutShares(
    OpBuilder &builder, CollectiveOpInterface op, int64_t ranks, int64_t padded,
    ArrayRef<BlockArgument> residuals) const {
  Location loc = op.getLoc();
  Type f32 = builder.getF32Type();
  SmallVector<Value> columns;
  int64_t elements = 0;
  auto fill = [&](ArrayRef<int64_t> shape) -> Value {
    auto rest = RankedTensorType::get(shape, f32);
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(rest, builder.getZeroAttr(f32)));
  };
  for (auto [i, input] : llvm::enumerate(op->getOperands())) {
    int64_t count = countElements(input.getType());
    Value wide = castFloat(builder, loc, input, f32);
    if (!residuals.empty() && residuals[i]) {
      // The row that is scattered has zeros behind the gradient.
      int64_t own = countElements(residuals[i].getType());
      Value left = reshapeTo(builder, loc,
                             feedback->getKept(builder, residuals[i]), own);
      if (count > own)
        left = ConcatenateOp::create(
            builder, loc, cast<RankedTensorType>(wide.getType()),
            ValueRange{left, fill(count - own)}, /*dim=*/0);
      wide = arith::AddFOp::create(builder, loc, wide, left);
    }
    columns.push_back(reshapeTo(builder, loc, wide, {ranks, count / ranks}));
    elements += count / ranks;
  }
  if (padded > elements)
    columns.push_back(fill({ranks, padded - elements}));
  if (columns.size() == 1)
    return columns.front();
  return ConcatenateOp::create(builder, loc,
                               RankedTensorType::get({ranks, padded}, f32),
                               columns, /*dim=*/1);
}

/// Block r along the first dimension goes to rank r.
static Encoded exchange(OpBuilder &builder, CollectiveOpInterface op,
                        const Encoded &mine) {
  auto send = [&](Value value) -> Value {
    DenseI64ArrayAttr first = builder.getDenseI64ArrayAttr(0);
    return AllToAllOp::create(builder, op.getLoc(), value.getType(), value,
                              op.getMeshAttr(), op.getAxesAttr(), first, first,
                              builder.getI64IntegerAttr(op.getChannel()))
        .getOutputs()
        .front();
  };
  return {send(mine.payload), mine.ofBlocks ? send(mine.ofBlocks) : Value()};
}

/// The sum, or the mean, of what all ranks have sent this one.
Value CompressCollectives::sumShares(OpBuilder &builder,
                                     CollectiveOpInterface op,
                                     const WireFormat &wire,
                                     const Encoded &received,
                                     int64_t ranks) const {
  Location loc = op.getLoc();
  Value all = wire.decode(builder, loc, received);
  auto type = cast<RankedTensorType>(all.getType());
  auto shareType = RankedTensorType::get(type.getShape().drop_front(),
                                         type.getElementType());
  Value sum = ReduceOp::create(builder, loc, shareType, Reduction::Sum, all,
                               ArrayRef<int64_t>(0));
  if (op.getCollectiveReduction() != Reduction::Mean)
    return sum;
  Value share = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          shareType, builder.getF32FloatAttr(
                         static_cast<float>(1 / static_cast<double>(ranks)))));
  return arith::MulFOp::create(builder, loc, sum, share);
}

Encoded CompressCollectives::gather(OpBuilder &builder,
                                    CollectiveOpInterface op, int64_t ranks,
                                    const Encoded &mine) const {
  auto send = [&](Value value) -> Value {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.front() *= ranks;
    return AllGatherOp::create(builder, op.getLoc(), type.clone(shape), value,
                               op.getMeshAttr(), op.getAxesAttr(),
                               builder.getDenseI64ArrayAttr(0),
                               builder.getI64IntegerAttr(op.getChannel()))
        .getOutputs()
        .front();
  };
  return {send(mine.payload), mine.ofBlocks ? send(mine.ofBlocks) : Value()};
}

/// Gives each result its part of the row.
void CompressCollectives::handOut(OpBuilder &builder, CollectiveOpInterface op,
                                  Value row) const {
  Location loc = op.getLoc();
  auto rowType = cast<RankedTensorType>(row.getType());
  int64_t begin = 0;
  for (Value result : op->getResults()) {
    auto resultType = cast<RankedTensorType>(result.getType());
    int64_t count = resultType.getNumElements();
    Value part = row;
    if (count != rowType.getNumElements())
      part = SliceOp::create(
          builder, loc, rowType.clone({count}), row, ArrayRef<int64_t>(begin),
          ArrayRef<int64_t>(begin + count), ArrayRef<int64_t>(1));
    begin += count;
    part = reshapeTo(builder, loc, part, resultType.getShape());
    result.replaceAllUsesWith(
        castFloat(builder, loc, part, resultType.getElementType()));
  }
}

/// State for what is lost of each operand; none without `error-feedback`.
FailureOr<SmallVector<BlockArgument>>
CompressCollectives::addResiduals(CollectiveOpInterface op) {
  if (!feedback)
    return SmallVector<BlockArgument>();
  return feedback->add(op);
}

/// The step returns what of the row `lost` is of each operand.
void CompressCollectives::keepLost(OpBuilder &builder, Value lost,
                                   ArrayRef<BlockArgument> residuals,
                                   ValueRange inputs) {
  auto type = cast<RankedTensorType>(lost.getType());
  int64_t begin = 0;
  for (auto [residual, input] : llvm::zip(residuals, inputs)) {
    int64_t end = begin + countElements(input.getType());
    if (residual) {
      Value part =
          SliceOp::create(builder, lost.getLoc(), type.clone({end - begin}),
                          lost, ArrayRef<int64_t>(begin),
                          ArrayRef<int64_t>(end), ArrayRef<int64_t>(1));
      auto shape = cast<RankedTensorType>(residual.getType()).getShape();
      feedback->setLost(builder, residual,
                        reshapeTo(builder, lost.getLoc(), part, shape));
    }
    begin = end;
  }
}

/// `share`, of blocks, at the place of this rank in a row for all ranks, with
/// zeros elsewhere.
static Value placeShare(OpBuilder &builder, CollectiveOpInterface op,
                        Value share, int64_t ranks) {
  Location loc = op.getLoc();
  auto shareType = cast<RankedTensorType>(share.getType());
  auto i32 = builder.getI32Type();
  auto numbers = RankedTensorType::get({ranks}, i32);
  Value own = AxisIndexOp::create(builder, loc, RankedTensorType::get({}, i32),
                                  op.getMeshAttr(), op.getAxesAttr());
  Value isOwn =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                            IotaOp::create(builder, loc, numbers, /*dim=*/0),
                            BroadcastInDimOp::create(builder, loc, numbers, own,
                                                     ArrayRef<int64_t>()));
  Value weight = arith::UIToFPOp::create(
      builder, loc, RankedTensorType::get({ranks}, builder.getF32Type()),
      isOwn);
  SmallVector<int64_t> shape(shareType.getShape());
  shape.insert(shape.begin(), ranks);
  auto rowType = shareType.clone(shape);
  return arith::MulFOp::create(
      builder, loc,
      BroadcastInDimOp::create(builder, loc, rowType, weight,
                               ArrayRef<int64_t>(0)),
      BroadcastInDimOp::create(builder, loc, rowType, share,
                               ArrayRef<int64_t>{1, 2}));
}

LogicalResult CompressCollectives::rewriteReduction(CollectiveOpInterface op,
                                                    const WireChoice &choice,
                                                    int64_t ranks) {
  const WireFormat &wire = choice.format;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  int64_t elements = 0;
  for (Value input : op->getOperands())
    elements += countElements(input.getType());
  FailureOr<SmallVector<BlockArgument>> residuals = addResiduals(op);
  if (failed(residuals))
    return failure();
  bool keepsLost =
      llvm::any_of(*residuals, [](BlockArgument r) { return !!r; });
  // As many whole blocks for each rank.
  int64_t block = wire.getBlock();
  int64_t blocks = llvm::divideCeil(elements, ranks * block);
  int64_t padded = ranks * blocks * block;
  Value shares = layOut(builder, op, {ranks, blocks, block}, *residuals);
  Encoded mine = wire.encode(builder, loc, shares);
  Encoded received = exchange(builder, op, mine);
  if (Operation *late = getLatePlace(op))
    builder.setInsertionPoint(late);
  Value sum = sumShares(builder, op, wire, received, ranks);
  Encoded sumEncoded = wire.encode(builder, loc, sum);
  Encoded all = gather(builder, op, ranks, sumEncoded);
  handOut(builder, op,
          reshapeTo(builder, loc, wire.decode(builder, loc, all), padded));
  if (keepsLost) {
    // What the rank's own encoding lost, and what it lost of its share of the
    // sum, which it makes up for alone.
    Value lost = arith::SubFOp::create(builder, loc, shares,
                                       wire.decode(builder, loc, mine));
    Value ofSum = arith::SubFOp::create(builder, loc, sum,
                                        wire.decode(builder, loc, sumEncoded));
    if (op.getCollectiveReduction() == Reduction::Mean)
      ofSum = arith::MulFOp::create(
          builder, loc, ofSum,
          arith::ConstantOp::create(
              builder, loc,
              DenseElementsAttr::get(
                  cast<ShapedType>(sum.getType()),
                  builder.getF32FloatAttr(static_cast<float>(ranks)))));
    lost = arith::AddFOp::create(builder, loc, lost,
                                 placeShare(builder, op, ofSum, ranks));
    keepLost(builder, reshapeTo(builder, loc, lost, padded), *residuals,
             op->getOperands());
  }

  choice.report(op, wire.getBytes(padded));
  op->erase();
  return success();
}

LogicalResult CompressCollectives::rewriteScatter(CollectiveOpInterface op,
                                                  const WireChoice &choice,
                                                  int64_t ranks) {
  const WireFormat &wire = choice.format;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  int64_t elements = 0; // of a rank's share
  for (Value output : op->getResults())
    elements += countElements(output.getType());
  FailureOr<SmallVector<BlockArgument>> residuals = addResiduals(op);
  if (failed(residuals))
    return failure();
  int64_t block = wire.getBlock();
  int64_t blocks = llvm::divideCeil(elements, block);
  int64_t padded = blocks * block;
  Value shares = reshapeTo(builder, loc,
                           layOutShares(builder, op, ranks, padded, *residuals),
                           {ranks, blocks, block});
  Encoded mine = wire.encode(builder, loc, shares);
  Encoded received = exchange(builder, op, mine);
  if (Operation *late = getLatePlace(op))
    builder.setInsertionPoint(late);
  Value sum = reshapeTo(builder, loc,
                        sumShares(builder, op, wire, received, ranks), padded);
  auto cut = [&](Value value, ArrayRef<int64_t> starts,
                 ArrayRef<int64_t> limits) -> Value {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape, strides(starts.size(), 1);
    for (auto [start, limit] : llvm::zip(starts, limits))
      shape.push_back(limit - start);
    if (type.getShape() == ArrayRef<int64_t>(shape))
      return value;
    return SliceOp::create(builder, loc, type.clone(shape), value, starts,
                           limits, strides);
  };
  bool keepsLost =
      llvm::any_of(*residuals, [](BlockArgument r) { return !!r; });
  Value lost;
  if (keepsLost)
    lost = reshapeTo(builder, loc,
                     arith::SubFOp::create(builder, loc, shares,
                                           wire.decode(builder, loc, mine)),
                     {ranks, padded});
  int64_t begin = 0;
  for (auto [i, output] : llvm::enumerate(op->getResults())) {
    int64_t end = begin + countElements(output.getType());
    Value part = cut(sum, begin, end);
    output.replaceAllUsesWith(
        castFloat(builder, loc, part, getElementTypeOrSelf(output.getType())));
    if (keepsLost && (*residuals)[i]) {
      BlockArgument residual = (*residuals)[i];
      auto type = cast<RankedTensorType>(residual.getType());
      Value own = cut(lost, {0, begin}, {ranks, end});
      own = reshapeTo(builder, loc, own, ranks * (end - begin));
      own = cut(own, 0, type.getNumElements());
      feedback->setLost(builder, residual,
                        reshapeTo(builder, loc, own, type.getShape()));
    }
    begin = end;
  }
  choice.report(op, wire.getBytes(ranks * padded));
  op->erase();
  return success();
}

void CompressCollectives::runOnOperation() {
  ModuleOp module = getOperation();
  feedback.reset();
  if (errorFeedback)
    feedback.emplace("." + residual, DEBUG_TYPE);
  if (!type.empty()) {
    auto named = WireFormat::getAll(&getContext(), type, block);
    if (!named) {
      module.emitError() << "cannot send as '" << type.getValue()
                         << "', expected " << WireFormat::kNames;
      return signalPassFailure();
    }
    for (const WireFormat &format : *named)
      if (block % format.getElementsPerByte()) {
        module.emitError() << "expected a block of whole bytes, got "
                           << int64_t(block) << " elements of "
                           << format.getName();
        return signalPassFailure();
      }
    formats = std::move(*named);
  }
  if (block < 1 || block > (1 << 20) || minBytes < -1) {
    module.emitError() << "expected a block of 1 to " << (1 << 20)
                       << " elements and at least 0 bytes (-1: what pays), got "
                       << int64_t(block) << " and " << int64_t(minBytes);
    return signalPassFailure();
  }
  std::optional<CostModel> model;
  if (!type.empty() && (minBytes < 0 || formats.size() > 1)) {
    FailureOr<CostModel> found = getCostModel(module, cluster, profileFile);
    if (failed(found))
      return signalPassFailure();
    model = std::move(*found);
  }
  SmallVector<CollectiveOpInterface> ops;
  module.walk([&](CollectiveOpInterface op) { ops.push_back(op); });
  bool changed = false;
  for (CollectiveOpInterface op : ops) {
    FailureOr<int64_t> ranks = op.getGroupSize();
    if (failed(ranks) || *ranks < 2)
      continue;
    std::optional<WireChoice> choice = choose(op, model ? &*model : nullptr);
    if (!choice)
      continue;
    if (failed(op.getCollectiveKind() == CollectiveKind::AllReduce
                   ? rewriteReduction(op, *choice, *ranks)
                   : rewriteScatter(op, *choice, *ranks)))
      return signalPassFailure();
    changed = true;
  }
  if (feedback)
    feedback->apply();
  if (!changed)
    markAllAnalysesPreserved();
}
