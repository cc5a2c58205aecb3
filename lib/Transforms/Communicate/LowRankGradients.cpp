//===- LowRankGradients.cpp - gradients of matrices as two thin ones ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient
// Compression for Distributed Optimization", NeurIPS 2019, algorithms 1 and 2):
// one step of a power iteration a training step, begun from the last one's
// result. What it loses stays with the rank and is added to the next gradient.
// All of it is ops like any other: what is left to send are sums, which go into
// buckets.
//
// With M an n x m gradient, factors are kept as rows, of r elements times n or
// m, so that each is dense.
//
//===----------------------------------------------------------------------===//

#include "Communicate/ErrorFeedback.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPComm/Utils/CastAndReshape.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "mpcomm/Transforms/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_LOWRANKGRADIENTSPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-low-rank-gradients"

using namespace mlir;
using namespace mpcomm;

/// Keeps a norm of zero from dividing by zero; far below any gradient's square.
static constexpr float kTiny = 1e-30f;
/// A sum of so many products is computed by the ops that read it: it is
/// bound by memory either way, and need not be there.
static constexpr int64_t kFewTerms = 4;
/// Of the square of a row: less than this share is what f32 rounds.
static constexpr float kRounding = 1e-10f;

namespace {

/// Ops on tensors of f32.
class MatrixBuilder {
public:
  MatrixBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  RankedTensorType typeOf(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }
  /// Contracts dimension `left` of `a` with `right` of `b`; of both, the other
  /// dimension stays.
  Value multiply(Value a, int64_t left, Value b, int64_t right) {
    auto size = [](Value value, int64_t dim) {
      return cast<RankedTensorType>(value.getType()).getDimSize(1 - dim);
    };
    return DotGeneralOp::create(
        builder, loc, typeOf({size(a, left), size(b, right)}), a, b,
        ArrayRef<int64_t>(), ArrayRef<int64_t>(), ArrayRef<int64_t>(left),
        ArrayRef<int64_t>(right));
  }
  Value sum(Value value, Reduction reduction = Reduction::Sum) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> dims =
        llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    return ReduceOp::create(builder, loc, typeOf({}), reduction, value, dims);
  }
  Value scale(Value value, Value factor) {
    return times(value, BroadcastInDimOp::create(builder, loc, value.getType(),
                                                 factor, ArrayRef<int64_t>()));
  }
  Value times(Value a, Value b) {
    return arith::MulFOp::create(builder, loc, a, b);
  }
  Value minus(Value a, Value b) {
    return arith::SubFOp::create(builder, loc, a, b);
  }
  Value plus(Value a, Value b) {
    return arith::AddFOp::create(builder, loc, a, b);
  }
  Value constant(Type type, float value) {
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(cast<ShapedType>(type),
                               builder.getF32FloatAttr(value)));
  }
  Value shaped(Value value, ArrayRef<int64_t> shape) {
    return reshapeTo(builder, loc, value, shape);
  }
  /// Row `i` of a matrix.
  Value rowOf(Value value, int64_t i) {
    int64_t length = cast<RankedTensorType>(value.getType()).getDimSize(1);
    return shaped(SliceOp::create(builder, loc, typeOf({1, length}), value,
                                  ArrayRef<int64_t>{i, 0},
                                  ArrayRef<int64_t>{i + 1, length},
                                  ArrayRef<int64_t>{1, 1}),
                  {length});
  }
  /// The transpose of `left` times `right`, in `shape`, whose first dimension
  /// is that of the rows.
  Value expand(Value left, Value right, ArrayRef<int64_t> shape);
  /// Rows of length one at right angles to one another, which span what the
  /// rows of `value` do: modified Gram-Schmidt. A row that the ones before it
  /// span becomes zeros.
  Value orthonormalize(Value value);
  /// `value`, or rows of some numbers where it is zero: then nothing is known.
  Value orSeed(Value value);

private:
  OpBuilder &builder;
  Location loc;
};

class LowRankGradients
    : public mpcomm::impl::LowRankGradientsPassBase<LowRankGradients> {
public:
  using LowRankGradientsPassBase::LowRankGradientsPassBase;
  void runOnOperation() override;

private:
  LogicalResult compress(CollectiveOpInterface op, BlockArgument residual,
                         ErrorFeedback &feedback);
};

} // namespace

Value MatrixBuilder::orthonormalize(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t count = type.getDimSize(0), length = type.getDimSize(1);
  SmallVector<Value> rows;
  for (int64_t i = 0; i < count; ++i) {
    Value row = rowOf(value, i);
    Value whole = sum(times(row, row));
    for (Value before : rows)
      row = minus(row, scale(before, sum(times(row, before))));
    // What is left of a row that the others span is rounding.
    Value square = sum(times(row, row));
    Value isLeft = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::OGT, square,
        times(whole, constant(whole.getType(), kRounding)));
    Value factor = math::RsqrtOp::create(
        builder, loc, plus(square, constant(square.getType(), kTiny)));
    factor = times(factor, arith::UIToFPOp::create(builder, loc,
                                                   square.getType(), isLeft));
    rows.push_back(scale(row, factor));
  }
  for (Value &row : rows)
    row = shaped(row, {1, length});
  return count == 1 ? rows.front()
                    : Value(ConcatenateOp::create(builder, loc, type, rows,
                                                  /*dim=*/0));
}

Value MatrixBuilder::expand(Value left, Value right, ArrayRef<int64_t> shape) {
  int64_t terms = cast<RankedTensorType>(left.getType()).getDimSize(0);
  if (terms > kFewTerms)
    return shaped(multiply(left, 0, right, 0), shape);
  auto columns = llvm::to_vector(
      llvm::seq<int64_t>(1, static_cast<int64_t>(shape.size())));
  Value all;
  for (int64_t i = 0; i < terms; ++i) {
    Value row = BroadcastInDimOp::create(builder, loc, typeOf(shape),
                                         rowOf(left, i), ArrayRef<int64_t>(0));
    Value term =
        times(row, BroadcastInDimOp::create(
                       builder, loc, typeOf(shape),
                       shaped(rowOf(right, i), shape.drop_front()), columns));
    all = all ? plus(all, term) : term;
  }
  return all;
}

Value MatrixBuilder::orSeed(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto flat = typeOf({type.getNumElements()});
  // Waves whose frequency grows: rows of them are far from parallel.
  Value number = IotaOp::create(builder, loc, flat, /*dim=*/0);
  Value wave = math::CosOp::create(
      builder, loc, times(times(number, number), constant(flat, 0.61803399f)));
  Value largest =
      sum(math::AbsFOp::create(builder, loc, value), Reduction::Max);
  Value isZero = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ,
                                       largest, constant(largest.getType(), 0));
  Value weight =
      arith::UIToFPOp::create(builder, loc, largest.getType(), isZero);
  return plus(value, scale(shaped(wave, type.getShape()), weight));
}

/// `op` reduces the gradient of the parameter of `residual`.
LogicalResult LowRankGradients::compress(CollectiveOpInterface op,
                                         BlockArgument residual,
                                         ErrorFeedback &feedback) {
  OpBuilder builder(op);
  MatrixBuilder matrices(builder, op.getLoc());
  Value input = op->getOperand(0), output = op->getResult(0);
  auto inputType = cast<RankedTensorType>(input.getType());
  auto outputType = cast<RankedTensorType>(output.getType());
  auto function = cast<FunctionOpInterface>(op->getParentOp());
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(residual.getType()).getShape();
  int64_t rows = shape[0], columns = ShapedType::getNumElements(shape) / rows;
  StringRef parameter =
      mpcomm::getArgumentName(function, findParameterOf(output).getArgNumber());
  FailureOr<BlockArgument> factor = feedback.addBeside(
      residual, op, (parameter + ".low_rank").str(), {rank, columns});
  if (failed(factor))
    return failure();

  input = castFloat(builder, op.getLoc(),
                    inputType.getShape() == shape
                        ? input
                        : unflattenTo(builder, op.getLoc(), input, shape),
                    builder.getF32Type());
  Value corrected = matrices.plus(input, feedback.getKept(builder, residual));
  Value gradient = matrices.shaped(corrected, {rows, columns});
  auto average = [&](Value value) {
    return AllReduceOp::create(
               builder, op.getLoc(), value, op.getMeshAttr(), op.getAxesAttr(),
               ReductionAttr::get(builder.getContext(), Reduction::Mean),
               TypeAttr(), TypeAttr(),
               builder.getI64IntegerAttr(op.getChannel()))
        .getOutputs()
        .front();
  };
  Value left = matrices.orthonormalize(
      average(matrices.multiply(matrices.orSeed(*factor), 1, gradient, 1)));
  Value right = average(matrices.multiply(left, 1, gradient, 0));
  Value mean = matrices.expand(left, right, shape);
  feedback.setLost(builder, residual, matrices.minus(corrected, mean));
  feedback.setNext(*factor, right);

  if (op.getCollectiveKind() == CollectiveKind::ReduceScatter)
    mean = AllSliceOp::create(
        builder, op.getLoc(), outputType.clone(builder.getF32Type()),
        flattenTo(builder, op.getLoc(), mean, inputType.getNumElements()),
        op.getMeshAttr(), op.getAxesAttr(), builder.getI64IntegerAttr(0));
  for (Operation *user : llvm::make_early_inc_range(output.getUsers()))
    if (auto widen = dyn_cast<arith::ExtFOp>(user);
        widen && widen.getType() == mean.getType())
      widen.replaceAllUsesWith(mean);
  output.replaceAllUsesWith(
      castFloat(builder, op.getLoc(), mean, outputType.getElementType()));
  op.erase();
  return success();
}

/// The type of the gradient that `op` reduces to a mean, or a part of it: that
/// of its parameter; null where it reduces none.
static RankedTensorType getGradientType(CollectiveOpInterface op) {
  auto function = dyn_cast<FunctionOpInterface>(op->getParentOp());
  CollectiveKind kind = op.getCollectiveKind();
  bool isReduction = kind == CollectiveKind::AllReduce ||
                     kind == CollectiveKind::ReduceScatter;
  if (!function || !isReduction ||
      op.getCollectiveReduction() != Reduction::Mean ||
      op->getNumOperands() != 1)
    return {};
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  // Parts are flat.
  bool isFlat = type && type.getRank() == 1;
  if (!type || !isa<FloatType>(type.getElementType()) ||
      (kind == CollectiveKind::ReduceScatter && !isFlat))
    return {};
  BlockArgument parameter = findParameterOf(op->getResult(0));
  return parameter ? dyn_cast<RankedTensorType>(getGlobalArgumentType(
                         function, parameter.getArgNumber()))
                   : RankedTensorType();
}

void LowRankGradients::runOnOperation() {
  ModuleOp module = getOperation();
  if (rank < 1 || rank > 64) {
    module.emitError() << "expected a rank from 1 to 64, got " << int64_t(rank);
    return signalPassFailure();
  }
  SmallVector<CollectiveOpInterface> ops;
  module.walk([&](CollectiveOpInterface op) { ops.push_back(op); });
  ErrorFeedback feedback("." + residual, DEBUG_TYPE);
  struct Counts {
    int64_t whole = 0, sent = 0, matrices = 0, others = 0;
  };
  llvm::MapVector<FunctionOpInterface, Counts> counts;
  for (CollectiveOpInterface op : ops) {
    RankedTensorType type = getGradientType(op);
    if (!type)
      continue;
    Counts &count = counts[cast<FunctionOpInterface>(op->getParentOp())];
    int64_t elements = type.getNumElements();
    count.whole += elements;
    int64_t rows = type.getRank() > 1 ? type.getDimSize(0) : 0;
    int64_t thin = rows ? rank * (rows + elements / rows) : elements;
    BlockArgument residual;
    // An all_reduce of the thin ones moves as much as two reduce_scatters.
    bool isScatter = op.getCollectiveKind() == CollectiveKind::ReduceScatter;
    if (rows && static_cast<double>(thin) * (isScatter ? 2 : 1) * leastFactor <=
                    static_cast<double>(elements)) {
      FailureOr<SmallVector<BlockArgument>> added = feedback.add(op);
      if (failed(added))
        return signalPassFailure();
      residual = added->front();
    }
    count.sent += residual ? thin : elements;
    ++(residual ? count.matrices : count.others);
    if (residual && failed(compress(op, residual, feedback)))
      return signalPassFailure();
  }
  feedback.apply();
  for (auto &[function, count] : counts)
    remark::analysis(function.getLoc(), remark::RemarkOpts::name("LowRank")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
        << remark::metric("matrices", count.matrices)
        << remark::metric("others", count.others)
        << remark::metric("elements", count.whole)
        << remark::metric("sent", count.sent);
}
