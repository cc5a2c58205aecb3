//===- ShardingExternalModels.cpp - how upstream's ops may be split -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ShardingOpInterface for arith, math, tensor and linalg. Ops of arith and math
// without a model work element by element, and are linear in nothing.
//
//===----------------------------------------------------------------------===//

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mpcomm/Analysis/ExternalModels.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;

static constexpr int64_t kNone = ShardingFactor::kNone;
static constexpr int64_t kLocal = ShardingFactor::kLocal;

namespace {

//===----------------------------------------------------------------------===//
// arith
//===----------------------------------------------------------------------===//

/// Linear in the operands from `first` to before `end` together.
template <typename OpT, unsigned first, unsigned end>
struct SumModel
    : ShardingOpInterface::ExternalModel<SumModel<OpT, first, end>, OpT> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = getElementwiseRule(op);
    rule.linear.push_back(llvm::to_vector<2>(llvm::seq<unsigned>(first, end)));
    return rule;
  }
};

/// Linear in each of the first `count` operands.
template <typename OpT, unsigned count>
struct ProductModel
    : ShardingOpInterface::ExternalModel<ProductModel<OpT, count>, OpT> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = getElementwiseRule(op);
    for (unsigned operand = 0; operand < count; ++operand)
      rule.linear.push_back({operand});
    return rule;
  }
};

/// Casts of floats: linear up to rounding.
template <typename OpT>
struct CastModel : ShardingOpInterface::ExternalModel<CastModel<OpT>, OpT> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = getElementwiseRule(op);
    rule.linear = {{0}};
    rule.isMonotone = true;
    return rule;
  }
};

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

template <typename OpT>
struct ReshapeModel
    : ShardingOpInterface::ExternalModel<ReshapeModel<OpT>, OpT> {
  ShardingRule getShardingRule(Operation *op) const {
    return getReshapeRule(op);
  }
};

/// The dimensions that are taken whole.
struct ExtractSliceModel
    : ShardingOpInterface::ExternalModel<ExtractSliceModel,
                                         tensor::ExtractSliceOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    RankedTensorType source = slice.getSourceType();
    ShardingRule rule;
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    int64_t to = 0;
    for (int64_t dim = 0; dim < source.getRank(); ++dim) {
      if (dropped.test(dim))
        continue;
      if (slice.getStaticOffsets()[dim] == 0 &&
          slice.getStaticStrides()[dim] == 1 && !source.isDynamicDim(dim) &&
          slice.getStaticSizes()[dim] == source.getDimSize(dim)) {
        ShardingFactor factor;
        factor.size = source.getDimSize(dim);
        factor.operands.assign(op->getNumOperands(), kNone);
        factor.operands[0] = dim;
        factor.results = {to};
        rule.factors.push_back(std::move(factor));
      }
      ++to;
    }
    rule.linear = {{0}};
    rule.isMonotone = op->getNumOperands() == 1;
    return rule;
  }
};

struct ConcatModel
    : ShardingOpInterface::ExternalModel<ConcatModel, tensor::ConcatOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto concat = cast<tensor::ConcatOp>(op);
    RankedTensorType type = concat.getResultType();
    ShardingRule rule;
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      if (dim == static_cast<int64_t>(concat.getDim()))
        continue;
      ShardingFactor factor;
      factor.size = type.getDimSize(dim);
      factor.operands.assign(op->getNumOperands(), dim);
      factor.results = {dim};
      rule.factors.push_back(std::move(factor));
    }
    rule.linear.push_back(
        llvm::to_vector<2>(llvm::seq<unsigned>(op->getNumOperands())));
    return rule;
  }
};

//===----------------------------------------------------------------------===//
// linalg
//===----------------------------------------------------------------------===//

/// The reduction of a result over the loops that are not parallel; nothing if
/// it is none that has a name, or what is reduced so far is read elsewhere.
std::optional<Reduction> getReductionOf(linalg::LinalgOp op, unsigned init) {
  SmallVector<Operation *, 4> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), init, combiners) ||
      combiners.size() != 1)
    return std::nullopt;
  Operation *combiner = combiners.front();
  if (!op.getRegionOutputArgs()[init].hasOneUse() || !combiner->hasOneUse())
    return std::nullopt;
  if (isa<arith::AddFOp, arith::AddIOp>(combiner))
    return Reduction::Sum;
  if (isa<arith::MaximumFOp, arith::MaxSIOp>(combiner))
    return Reduction::Max;
  if (isa<arith::MinimumFOp, arith::MinSIOp>(combiner))
    return Reduction::Min;
  return std::nullopt;
}

/// A factor for each loop that indexes dimensions alone. What is reduced starts
/// from the inits on each rank, so a sum that is split has to start from zero;
/// a maximum may have it several times.
template <typename OpT>
struct LinalgModel : ShardingOpInterface::ExternalModel<LinalgModel<OpT>, OpT> {
  ShardingRule getShardingRule(Operation *op) const {
    auto structured = cast<linalg::LinalgOp>(op);
    ShardingRule rule;
    if (!structured.hasPureTensorSemantics() || structured.hasIndexSemantics())
      return rule;
    SmallVector<AffineMap> maps = structured.getIndexingMapsArray();
    SmallVector<utils::IteratorType> loops = structured.getIteratorTypesArray();
    SmallVector<int64_t> sizes = structured.getStaticLoopRanges();
    for (unsigned loop = 0; loop < loops.size(); ++loop) {
      ShardingFactor factor;
      factor.size = sizes[loop];
      bool isAlone = true;
      auto dimOf = [&](OpOperand &operand) {
        AffineMap map = maps[operand.getOperandNumber()];
        int64_t found = kNone;
        for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
          if (!expr.isFunctionOfDim(loop))
            continue;
          isAlone &= isa<AffineDimExpr>(expr) && found == kNone;
          found = dim;
        }
        return found;
      };
      for (OpOperand &operand : op->getOpOperands())
        factor.operands.push_back(dimOf(operand));
      for (auto [i, init] : llvm::enumerate(structured.getDpsInitsMutable())) {
        int64_t dim = factor.operands[init.getOperandNumber()];
        std::optional<Reduction> reduction =
            dim == kNone ? getReductionOf(structured, i) : std::nullopt;
        // Other results may depend on what is carried over the loop.
        isAlone &= dim != kNone || reduction ||
                   structured.getRegionOutputArgs()[i].use_empty();
        bool isNeutral =
            reduction &&
            (reduction != Reduction::Sum || isZeroFill(init.get())) &&
            (!factor.reduction || factor.reduction == reduction);
        if (isNeutral)
          factor.reduction = reduction;
        factor.results.push_back(dim != kNone ? dim
                                 : isNeutral  ? kNone
                                              : kLocal);
      }
      bool isUsed =
          llvm::any_of(factor.operands, [](int64_t dim) { return dim >= 0; });
      if (isAlone && isUsed)
        rule.factors.push_back(std::move(factor));
    }
    return rule;
  }

private:
  static bool isZeroFill(Value init) {
    if (matchPattern(init, m_AnyZeroFloat()) || matchPattern(init, m_Zero()))
      return true;
    auto fill = init.getDefiningOp<linalg::FillOp>();
    return fill && (matchPattern(fill.value(), m_AnyZeroFloat()) ||
                    matchPattern(fill.value(), m_Zero()));
  }
};

template <typename... Ops> void attachLinalg(MLIRContext *context) {
  (Ops::template attachInterface<LinalgModel<Ops>>(*context), ...);
}

} // namespace

void mpcomm::registerShardingModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    using namespace arith;
    AddFOp::attachInterface<SumModel<AddFOp, 0, 2>>(*context);
    SubFOp::attachInterface<SumModel<SubFOp, 0, 2>>(*context);
    NegFOp::attachInterface<SumModel<NegFOp, 0, 1>>(*context);
    SelectOp::attachInterface<SumModel<SelectOp, 1, 3>>(*context);
    MulFOp::attachInterface<ProductModel<MulFOp, 2>>(*context);
    DivFOp::attachInterface<ProductModel<DivFOp, 1>>(*context);
    ExtFOp::attachInterface<CastModel<ExtFOp>>(*context);
    TruncFOp::attachInterface<CastModel<TruncFOp>>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    using namespace tensor;
    ExpandShapeOp::attachInterface<ReshapeModel<ExpandShapeOp>>(*context);
    CollapseShapeOp::attachInterface<ReshapeModel<CollapseShapeOp>>(*context);
    ExtractSliceOp::attachInterface<ExtractSliceModel>(*context);
    ConcatOp::attachInterface<ConcatModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    // Qualified: this dialect has ops of the same names.
    attachLinalg<linalg::GenericOp, linalg::MapOp, linalg::ReduceOp,
                 linalg::TransposeOp, linalg::BroadcastOp, linalg::FillOp,
                 linalg::MatmulOp, linalg::BatchMatmulOp, linalg::MatvecOp,
                 linalg::VecmatOp, linalg::DotOp>(context);
  });
}
