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
// that results are equal.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "Communicate/Model.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/CostModel/CostModel.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_COMPRESSCOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-compress-collectives"

using namespace mlir;
using namespace mpcomm;
using mpcomm::detail::countElements;

namespace {

class CompressCollectives
    : public mpcomm::impl::CompressCollectivesPassBase<CompressCollectives> {
public:
  using CompressCollectivesPassBase::CompressCollectivesPassBase;
  void runOnOperation() override;

private:
  std::optional<WireFormat> getFormat(AllReduceOp op) const;
  bool isWorthwhile(AllReduceOp op, const WireFormat &wire,
                    const CostModel *model) const;
  Value layOut(OpBuilder &builder, AllReduceOp op, int64_t padded) const;
  Encoded exchange(OpBuilder &builder, AllReduceOp op,
                   const Encoded &mine) const;
  Encoded gather(OpBuilder &builder, AllReduceOp op, int64_t ranks,
                 const Encoded &mine) const;
  void handOut(OpBuilder &builder, AllReduceOp op, Value row) const;
  void rewrite(AllReduceOp op, const WireFormat &wire, int64_t ranks) const;
};

} // namespace

/// How the op's operands are to travel; nothing where they stay as they are.
std::optional<WireFormat> CompressCollectives::getFormat(AllReduceOp op) const {
  if (!isCompressible(op) || !isMovableCollective(op))
    return std::nullopt;
  if (!type.empty())
    return WireFormat::get(op.getContext(), type);
  // What is to travel in 16 bits and be summed in f32.
  Type element = getElementTypeOrSelf(op.getInputs().front().getType());
  Type travels = op.getWire().value_or(element);
  bool isHomogeneous = llvm::all_of(op.getInputs(), [&](Value input) {
    return getElementTypeOrSelf(input.getType()) == element;
  });
  if (!isHomogeneous || travels.getIntOrFloatBitWidth() != 16)
    return std::nullopt;
  return WireFormat(travels);
}

static remark::RemarkOpts remarkNamed(AllReduceOp op, StringRef name) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  return remark::RemarkOpts::name(name)
      .category(DEBUG_TYPE)
      .function(function ? function.getName() : StringRef());
}

/// Whether the op gains: by `min-bytes` if that is given, else in the model. An
/// empty type is asked for the sake of sums, not of time.
bool CompressCollectives::isWorthwhile(AllReduceOp op, const WireFormat &wire,
                                       const CostModel *model) const {
  int64_t bytes = CostModel::getWireBytes(op);
  if (!model)
    return bytes >= minBytes;
  FailureOr<GroupShape> shape = model->getGroupShape(op);
  FailureOr<CostCurve> plain = model->getCollective(op);
  if (failed(shape) || failed(plain))
    return true;
  // Each operand is laid in the row, and its result taken out.
  double seconds =
      getCompressedCost(*model, *shape, {wire, block}, op).at(bytes) +
      2 * static_cast<double>(op.getInputs().size()) *
          model->getCluster().device.launch;
  if (seconds < plain->at(bytes))
    return true;
  remark::missed(op.getLoc(), remarkNamed(op, "NotCompressed"))
      << remark::reason("it would take longer in the model")
      << remark::metric("bytes", bytes)
      << remark::metric("compressed_us", toMicros(seconds))
      << remark::metric("plain_us", toMicros(plain->at(bytes)));
  return false;
}

/// All operands as one row of f32, filled up with zeros.
Value CompressCollectives::layOut(OpBuilder &builder, AllReduceOp op,
                                  int64_t padded) const {
  Location loc = op.getLoc();
  Type f32 = builder.getF32Type();
  SmallVector<Value> rows;
  int64_t elements = 0;
  for (Value input : op.getInputs()) {
    int64_t count = countElements(input.getType());
    rows.push_back(
        reshapeTo(builder, loc, castFloat(builder, loc, input, f32), count));
    elements += count;
  }
  if (padded > elements) {
    auto rest = RankedTensorType::get(padded - elements, f32);
    rows.push_back(arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(rest, builder.getZeroAttr(f32))));
  }
  if (rows.size() == 1)
    return rows.front();
  return ConcatenateOp::create(builder, loc, RankedTensorType::get(padded, f32),
                               rows, /*dim=*/0);
}

/// Block r along the first dimension goes to rank r.
Encoded CompressCollectives::exchange(OpBuilder &builder, AllReduceOp op,
                                      const Encoded &mine) const {
  auto send = [&](Value value) -> Value {
    DenseI64ArrayAttr first = builder.getDenseI64ArrayAttr(0);
    return AllToAllOp::create(builder, op.getLoc(), value.getType(), value,
                              op.getMeshAttr(), op.getAxesAttr(), first, first,
                              op.getChannelAttr())
        .getOutputs()
        .front();
  };
  return {send(mine.payload), mine.scales ? send(mine.scales) : Value()};
}

Encoded CompressCollectives::gather(OpBuilder &builder, AllReduceOp op,
                                    int64_t ranks, const Encoded &mine) const {
  auto send = [&](Value value) -> Value {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.front() *= ranks;
    return AllGatherOp::create(builder, op.getLoc(), type.clone(shape), value,
                               op.getMeshAttr(), op.getAxesAttr(),
                               builder.getDenseI64ArrayAttr(0),
                               op.getChannelAttr())
        .getOutputs()
        .front();
  };
  return {send(mine.payload), mine.scales ? send(mine.scales) : Value()};
}

/// Gives each result its part of the row.
void CompressCollectives::handOut(OpBuilder &builder, AllReduceOp op,
                                  Value row) const {
  Location loc = op.getLoc();
  auto rowType = cast<RankedTensorType>(row.getType());
  int64_t begin = 0;
  for (Value result : op.getOutputs()) {
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

void CompressCollectives::rewrite(AllReduceOp op, const WireFormat &wire,
                                  int64_t ranks) const {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  int64_t elements = 0;
  for (Value input : op.getInputs())
    elements += countElements(input.getType());
  // As many whole blocks for each rank.
  int64_t blocks = llvm::divideCeil(elements, ranks * block);
  int64_t padded = ranks * blocks * block;
  Value row = layOut(builder, op, padded);

  Value shares = reshapeTo(builder, loc, row, {ranks, blocks, block});
  Encoded received = exchange(builder, op, wire.encode(builder, loc, shares));
  if (Operation *late = getLatePlace(op))
    builder.setInsertionPoint(late);
  auto shareType = RankedTensorType::get({blocks, block}, builder.getF32Type());
  Value sum = ReduceOp::create(builder, loc, shareType, Reduction::Sum,
                               wire.decode(builder, loc, received),
                               ArrayRef<int64_t>(0));
  if (op.getReduction() == Reduction::Mean) {
    auto part = DenseElementsAttr::get(
        shareType, builder.getF32FloatAttr(1.0f / static_cast<float>(ranks)));
    sum = arith::MulFOp::create(builder, loc, sum,
                                arith::ConstantOp::create(builder, loc, part));
  }
  Encoded all = gather(builder, op, ranks, wire.encode(builder, loc, sum));
  handOut(builder, op,
          reshapeTo(builder, loc, wire.decode(builder, loc, all), padded));

  remark::passed(op.getLoc(), remarkNamed(op, "Compressed"))
      << remark::metric("bytes", CostModel::getWireBytes(op))
      << remark::metric("compressed", wire.getBytes(padded, block));
  op.erase();
}

void CompressCollectives::runOnOperation() {
  ModuleOp module = getOperation();
  if (!type.empty() && !WireFormat::get(&getContext(), type)) {
    module.emitError() << "cannot send as '" << type.getValue()
                       << "', expected f16, bf16, i8, f8E4M3FN or f8E5M2";
    return signalPassFailure();
  }
  if (block < 1 || block > (1 << 20) || minBytes < -1) {
    module.emitError() << "expected a block of 1 to " << (1 << 20)
                       << " elements and at least 0 bytes (-1: what pays), got "
                       << int64_t(block) << " and " << int64_t(minBytes);
    return signalPassFailure();
  }
  std::optional<CostModel> model;
  if (minBytes < 0 && !type.empty()) {
    FailureOr<CostModel> found = getCostModel(module, cluster, profileFile);
    if (failed(found))
      return signalPassFailure();
    model = std::move(*found);
  }
  SmallVector<AllReduceOp> ops;
  module.walk([&](AllReduceOp op) { ops.push_back(op); });
  bool changed = false;
  for (AllReduceOp op : ops) {
    std::optional<WireFormat> wire = getFormat(op);
    FailureOr<int64_t> ranks =
        cast<CollectiveOpInterface>(op.getOperation()).getGroupSize();
    if (!wire || failed(ranks) || *ranks < 2 ||
        !isWorthwhile(op, *wire, model ? &*model : nullptr))
      continue;
    rewrite(op, *wire, *ranks);
    changed = true;
  }
  if (!changed)
    markAllAnalysesPreserved();
}
