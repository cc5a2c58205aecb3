//===- ShardingRules.cpp - how the dialect's ops may be split -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ShardingOpInterface of all compute ops. A factor that a comment does not
// mention is left out because blocks of it do not give blocks of the results:
// dimensions of windows, of what is normalised, sorted or looked up, positions
// that random numbers depend on.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace mpcomm;

static constexpr int64_t kNone = ShardingFactor::kNone;
static constexpr int64_t kLocal = ShardingFactor::kLocal;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {

/// Adds factors with the sizes that the op's types have.
class RuleBuilder {
public:
  explicit RuleBuilder(Operation *op) : op(op) {}

  RuleBuilder &add(ArrayRef<int64_t> operands, ArrayRef<int64_t> results,
                   std::optional<Reduction> reduction = std::nullopt) {
    ShardingFactor factor;
    factor.operands.assign(operands.begin(), operands.end());
    factor.results.assign(results.begin(), results.end());
    // An optional operand that is not there.
    factor.operands.resize(op->getNumOperands(), kNone);
    factor.reduction = reduction;
    auto take = [&](ValueRange values, ArrayRef<int64_t> dims) {
      for (auto [value, dim] : llvm::zip(values, dims))
        if (dim >= 0)
          factor.size = typeOf(value).getDimSize(dim);
    };
    take(op->getResults(), factor.results);
    take(op->getOperands(), factor.operands);
    rule.factors.push_back(std::move(factor));
    return *this;
  }
  /// Of all operands and results.
  RuleBuilder &addEverywhere(int64_t dim) {
    return add(SmallVector<int64_t>(op->getNumOperands(), dim),
               SmallVector<int64_t>(op->getNumResults(), dim));
  }
  RuleBuilder &addLinear(std::initializer_list<unsigned> operands) {
    rule.linear.emplace_back(operands);
    return *this;
  }
  ShardingRule take() { return std::move(rule); }

private:
  Operation *op;
  ShardingRule rule;
};

} // namespace

/// All dimensions but some, of operands and results of one shape.
static RuleBuilder buildAllBut(Operation *op, ArrayRef<int64_t> whole) {
  RuleBuilder rule(op);
  for (int64_t dim = 0, e = typeOf(op->getResult(0)).getRank(); dim < e; ++dim)
    if (!llvm::is_contained(whole, dim))
      rule.addEverywhere(dim);
  return rule;
}

static ShardingRule linearElementwise(Operation *op,
                                      ArrayRef<unsigned> operands) {
  ShardingRule rule = getElementwiseRule(op);
  for (unsigned operand : operands)
    rule.linear.push_back({operand});
  return rule;
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

//===----------------------------------------------------------------------===//
// Contraction, reduction and data movement
//===----------------------------------------------------------------------===//

ShardingRule DotGeneralOp::getShardingRule() {
  RuleBuilder rule(*this);
  int64_t at = 0;
  for (auto [lhs, rhs] : llvm::zip(getLhsBatchingDims(), getRhsBatchingDims()))
    rule.add({lhs, rhs}, {at++});
  for (int64_t dim : getLhsFreeDims())
    rule.add({dim, kNone}, {at++});
  for (int64_t dim : getRhsFreeDims())
    rule.add({kNone, dim}, {at++});
  for (auto [lhs, rhs] :
       llvm::zip(getLhsContractingDims(), getRhsContractingDims()))
    rule.add({lhs, rhs}, {kNone}, Reduction::Sum);
  return rule.addLinear({0}).addLinear({1}).take();
}

ShardingRule TransposeOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (auto [to, from] : llvm::enumerate(getDims()))
    rule.add({from}, {static_cast<int64_t>(to)});
  ShardingRule made = rule.addLinear({0}).take();
  made.isMonotone = true;
  return made;
}

ShardingRule ReshapeOp::getShardingRule() { return getReshapeRule(*this); }

ShardingRule BroadcastInDimOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t to = 0, e = typeOf(getResult()).getRank(); to < e; ++to) {
    const int64_t *found = llvm::find(getDims(), to);
    int64_t from = found - getDims().begin();
    if (found == getDims().end())
      rule.add({kNone}, {to});
    else if (typeOf(getInput()).getDimSize(from) ==
             typeOf(getResult()).getDimSize(to))
      rule.add({from}, {to});
    else
      rule.add({kNone}, {to}); // of size 1, repeated
  }
  ShardingRule made = rule.addLinear({0}).take();
  made.isMonotone = true;
  return made;
}

ShardingRule ReduceOp::getShardingRule() {
  RuleBuilder rule(*this);
  // Of i1 a sum is a disjunction, which has no name among reductions.
  bool isFlag = getElementTypeOrSelf(getInput().getType()).isInteger(1);
  int64_t at = 0;
  for (int64_t dim = 0, e = typeOf(getInput()).getRank(); dim < e; ++dim)
    if (!llvm::is_contained(getDims(), dim))
      rule.add({dim}, {at++});
    else if (isFlag)
      rule.add({dim}, {kLocal});
    else
      rule.add({dim}, {kNone}, getReduction());
  if (getReduction() == Reduction::Sum && isFloat(getInput()))
    rule.addLinear({0});
  return rule.take();
}

ShardingRule SliceOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = typeOf(getInput()).getRank(); dim < e; ++dim)
    if (getStarts()[dim] == 0 && getStrides()[dim] == 1 &&
        getLimits()[dim] == typeOf(getInput()).getDimSize(dim))
      rule.add({dim}, {dim});
  ShardingRule made = rule.addLinear({0}).take();
  made.isMonotone = true;
  return made;
}

ShardingRule ReverseOp::getShardingRule() {
  ShardingRule made = buildAllBut(*this, getDims()).addLinear({0}).take();
  made.isMonotone = true;
  return made;
}

ShardingRule ConcatenateOp::getShardingRule() {
  ShardingRule made =
      buildAllBut(*this, {static_cast<int64_t>(getDim())}).take();
  made.linear.emplace_back(
      llvm::to_vector<2>(llvm::seq<unsigned>(getNumOperands())));
  return made;
}

ShardingRule PadOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = typeOf(getInput()).getRank(); dim < e; ++dim)
    if (getLow()[dim] == 0 && getHigh()[dim] == 0 && getInterior()[dim] == 0)
      rule.add({dim, kNone}, {dim});
  return rule.addLinear({0, 1}).take();
}

ShardingRule IotaOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())}).take();
}

//===----------------------------------------------------------------------===//
// Convolution and pooling
//===----------------------------------------------------------------------===//

template <typename OpT> static int64_t featureDimOf(OpT op) {
  return op.getChannelsLast() ? 3 : 1;
}

/// Images, and with one group their features: those of the filter's dimension
/// `kept` are the result's, those of `summed` the operand's.
template <typename OpT>
static ShardingRule getConvolutionRule(OpT op, int64_t kept, int64_t summed) {
  RuleBuilder rule(op);
  int64_t features = featureDimOf(op);
  rule.add({0, kNone}, {0});
  if (op.getGroups() == 1)
    rule.add({kNone, kept}, {features})
        .add({features, summed}, {kNone}, Reduction::Sum);
  return rule.addLinear({0}).addLinear({1}).take();
}

ShardingRule ConvolutionOp::getShardingRule() {
  return getConvolutionRule(*this, 0, 1);
}
ShardingRule ConvolutionInputGradOp::getShardingRule() {
  return getConvolutionRule(*this, 1, 0);
}

ShardingRule ConvolutionFilterGradOp::getShardingRule() {
  RuleBuilder rule(*this);
  int64_t features = featureDimOf(*this);
  rule.add({0, 0}, {kNone}, Reduction::Sum);
  if (getGroups() == 1)
    rule.add({features, kNone}, {0}).add({kNone, features}, {1});
  return rule.addLinear({0}).addLinear({1}).take();
}

template <typename OpT> static RuleBuilder buildPool(OpT op) {
  RuleBuilder rule(op);
  rule.addEverywhere(0).addEverywhere(featureDimOf(op));
  return rule;
}

ShardingRule MaxPoolOp::getShardingRule() { return buildPool(*this).take(); }
ShardingRule MaxPoolGradOp::getShardingRule() {
  return buildPool(*this).addLinear({0}).take();
}
ShardingRule AvgPoolOp::getShardingRule() {
  return buildPool(*this).addLinear({0}).take();
}
ShardingRule AvgPoolGradOp::getShardingRule() {
  return buildPool(*this).addLinear({0}).take();
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

ShardingRule BatchNormTrainingOp::getShardingRule() {
  return RuleBuilder(*this)
      .add({static_cast<int64_t>(getFeatureDim()), 0, 0},
           {static_cast<int64_t>(getFeatureDim()), 0, 0})
      .take();
}

ShardingRule BatchNormInferenceOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = typeOf(getInput()).getRank(); dim < e; ++dim)
    if (dim == static_cast<int64_t>(getFeatureDim()))
      rule.add({dim, 0, 0, 0, 0}, {dim});
    else
      rule.add({dim, kNone, kNone, kNone, kNone}, {dim});
  return rule.take();
}

ShardingRule BatchNormGradOp::getShardingRule() {
  int64_t dim = getFeatureDim();
  return RuleBuilder(*this)
      .add({dim, dim, 0, 0, 0}, {dim, 0, 0})
      .addLinear({0})
      .take();
}

/// The number of dimensions that are not normalised.
static int64_t countLeading(Value input, Value gamma) {
  return typeOf(input).getRank() - typeOf(gamma).getRank();
}

ShardingRule LayerNormOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = countLeading(getInput(), getGamma()); dim < e;
       ++dim)
    rule.add({dim, kNone, kNone}, {dim, dim, dim});
  return rule.take();
}

ShardingRule LayerNormGradOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = countLeading(getInput(), getGamma()); dim < e;
       ++dim)
    rule.add({dim, dim, dim, dim, kNone}, {dim, kNone, kNone}, Reduction::Sum);
  return rule.addLinear({0}).take();
}

ShardingRule RMSNormOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = countLeading(getInput(), getGamma()); dim < e;
       ++dim)
    rule.add({dim, kNone}, {dim, dim});
  return rule.take();
}

ShardingRule RMSNormGradOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (int64_t dim = 0, e = countLeading(getInput(), getGamma()); dim < e;
       ++dim)
    rule.add({dim, dim, dim, kNone}, {dim, kNone}, Reduction::Sum);
  return rule.addLinear({0}).take();
}

//===----------------------------------------------------------------------===//
// Layers and losses
//===----------------------------------------------------------------------===//

ShardingRule SoftmaxOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())}).take();
}
ShardingRule LogSoftmaxOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())}).take();
}
ShardingRule SoftmaxGradOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())})
      .addLinear({0})
      .take();
}
ShardingRule LogSoftmaxGradOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())})
      .addLinear({0})
      .take();
}

ShardingRule GeluOp::getShardingRule() { return getElementwiseRule(*this); }
ShardingRule GeluGradOp::getShardingRule() {
  return linearElementwise(*this, {0});
}

/// Rows. How many of a rank's rows count is not known before they are looked
/// at, so the mean over them is no term of the mean over all.
ShardingRule CrossEntropyOp::getShardingRule() {
  RuleBuilder rule(*this);
  if (getReduction() == LossReduction::Sum)
    rule.add({0, 0}, {kNone, 0}, Reduction::Sum);
  else
    rule.add({0, 0}, {kLocal, 0});
  return rule.take();
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  RuleBuilder rule(*this);
  rule.add({kNone, 0, 0, 0},
           {getReduction() == LossReduction::Sum ? 0 : kLocal});
  return rule.addLinear({0}).take();
}

/// Dimensions of attention's operands, then that of its mask and of its bias,
/// one dimension of which may be the same for all.
template <typename Op>
static SmallVector<int64_t> ofAttention(Op op, ArrayRef<int64_t> operands,
                                        int64_t ofMask, int64_t ofBias) {
  SmallVector<int64_t> dims(operands);
  if (op.getMask())
    dims.push_back(ofMask);
  if (Value bias = op.getBias())
    dims.push_back(typeOf(bias).getDimSize(ofBias) == 1 ? kNone : ofBias);
  return dims;
}

/// Samples, heads, and rows of the query.
ShardingRule AttentionOp::getShardingRule() {
  return RuleBuilder(*this)
      .add(ofAttention(*this, {0, 0, 0}, kNone, 0), {0, 0})
      .add(ofAttention(*this, {2, 2, 2}, kNone, 1), {2, 1})
      .add(ofAttention(*this, {1, kNone, kNone}, 0, 2), {1, 2})
      .take();
}

/// Of what is the same for all of a dimension, the gradient is a sum over it.
ShardingRule AttentionGradOp::getShardingRule() {
  auto ofResults = [&](ArrayRef<int64_t> grads, int64_t ofBias) {
    SmallVector<int64_t> dims(grads);
    if (Value bias = getBiasGrad())
      dims.push_back(typeOf(bias).getDimSize(ofBias) == 1 ? kNone : ofBias);
    return dims;
  };
  return RuleBuilder(*this)
      .add(ofAttention(*this, {0, 0, 0, 0, 0, 0}, kNone, 0),
           ofResults({0, 0, 0}, 0), Reduction::Sum)
      .add(ofAttention(*this, {2, 2, 2, 2, 2, 1}, kNone, 1),
           ofResults({2, 2, 2}, 1), Reduction::Sum)
      .add(ofAttention(*this, {1, 1, kNone, kNone, 1, 2}, 0, 2),
           ofResults({1, kNone, kNone}, 2), Reduction::Sum)
      .addLinear({0})
      .take();
}

//===----------------------------------------------------------------------===//
// Indexing
//===----------------------------------------------------------------------===//

namespace {

/// What dimensions gather and its kin have: those of the table, of the
/// indices, and of what is gathered, of a factor each.
struct IndexedDims {
  int64_t table, indices, slices;
};

} // namespace

static SmallVector<IndexedDims> getIndexedDims(const IndexedSlices &slices) {
  SmallVector<IndexedDims> dims;
  int64_t count = slices.indices.getRank() - slices.batchDims;
  for (int64_t dim = 0; dim < slices.dim; ++dim)
    dims.push_back({dim, dim < slices.batchDims ? dim : kNone, dim});
  for (int64_t i = 0; i < count; ++i)
    dims.push_back({kNone, slices.batchDims + i, slices.dim + i});
  for (int64_t dim = slices.dim + 1; dim < slices.operand.getRank(); ++dim)
    dims.push_back({dim, kNone, dim - 1 + count});
  return dims;
}

ShardingRule GatherOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (IndexedDims dims : getIndexedDims(getSlices()))
    rule.add({dims.table, dims.indices}, {dims.slices});
  return rule.addLinear({0}).take();
}

ShardingRule GatherGradOp::getShardingRule() {
  RuleBuilder rule(*this);
  for (IndexedDims dims : getIndexedDims(getSlices()))
    if (dims.table == kNone)
      rule.add({dims.slices, dims.indices}, {kNone}, Reduction::Sum);
    else
      rule.add({dims.slices, dims.indices}, {dims.table});
  return rule.addLinear({0}).take();
}

ShardingRule ScatterOp::getShardingRule() {
  RuleBuilder rule(*this);
  IndexedSlices slices{cast<RankedTensorType>(getOperand().getType()),
                       cast<RankedTensorType>(getIndices().getType()),
                       static_cast<int64_t>(getDim()),
                       static_cast<int64_t>(getBatchDims())};
  // Not the indices: the operand would count on each rank.
  for (IndexedDims dims : getIndexedDims(slices))
    if (dims.table != kNone)
      rule.add({dims.table, dims.indices, dims.slices}, {dims.table});
  std::optional<Reduction> reduction = getReduction();
  if (isFloat(getResult()) && (!reduction || *reduction == Reduction::Sum))
    rule.addLinear({0, 2});
  return rule.take();
}

ShardingRule TopKOp::getShardingRule() {
  return buildAllBut(*this, {static_cast<int64_t>(getDim())}).take();
}

ShardingRule CumulativeOp::getShardingRule() {
  RuleBuilder rule = buildAllBut(*this, {static_cast<int64_t>(getDim())});
  if (getReduction() == Reduction::Sum && isFloat(getResult()))
    rule.addLinear({0});
  return rule.take();
}

ShardingRule RngOp::getShardingRule() { return {}; }

/// How many blocks all ops of `body` can make of a factor of it.
static int64_t countBlocks(const JoinedFactors &factors, Block &body,
                           unsigned joined, int64_t size) {
  for (Operation &op : body.without_terminator()) {
    std::optional<ShardingRule> rule = getShardingRule(&op);
    if (!rule)
      continue;
    auto isOf = [&](Value value, int64_t dim) {
      return dim >= 0 && factors.find(value, dim) == joined;
    };
    for (const ShardingFactor &factor : rule->factors)
      for (auto [values, dims] : {std::pair<ValueRange, ArrayRef<int64_t>>(
                                      op.getOperands(), factor.operands),
                                  std::pair<ValueRange, ArrayRef<int64_t>>(
                                      op.getResults(), factor.results)})
        for (auto [value, dim] : llvm::zip(values, dims))
          if (isOf(value, dim))
            size = std::gcd(size, factor.size);
  }
  return size;
}

/// The rule of an op with the arguments and results of `body`; `more`
/// dimensions of the op's come before those in the body.
static ShardingRule getBodyRule(const JoinedFactors &factors, Block &body,
                                ArrayRef<int64_t> moreOfOperands,
                                ArrayRef<int64_t> moreOfResults) {
  ShardingRule rule;
  llvm::SmallDenseSet<unsigned> seen;
  for (BlockArgument argument : body.getArguments())
    for (int64_t dim = 0, e = typeOf(argument).getRank(); dim < e; ++dim) {
      std::optional<unsigned> found = factors.find(argument, dim);
      if (!found || !seen.insert(*found).second)
        continue;
      auto dimsOf = [&](auto values, ArrayRef<int64_t> more) {
        SmallVector<int64_t, 4> dims;
        for (auto [value, before] : llvm::zip(values, more)) {
          int64_t inner = factors.getDim(value, *found);
          dims.push_back(inner == kNone ? kNone : inner + before);
        }
        return dims;
      };
      ShardingFactor factor;
      factor.size =
          countBlocks(factors, body, *found, typeOf(argument).getDimSize(dim));
      factor.operands = dimsOf(body.getArguments(), moreOfOperands);
      factor.results =
          dimsOf(body.getTerminator()->getOperands(), moreOfResults);
      rule.factors.push_back(std::move(factor));
    }
  return rule;
}

/// What all ops of the body can split, from trip to trip.
ShardingRule ScanOp::getShardingRule() {
  FunctionOpInterface function = getBodyFunction();
  if (!function || !function.getFunctionBody().hasOneBlock())
    return {};
  Block &body = function.getFunctionBody().front();
  Operation *exit = body.getTerminator();
  size_t carries = getCarries().size(), slices = getSlices().size();
  JoinedFactors factors(body);
  for (size_t i = 0; i < carries; ++i)
    for (int64_t dim = 0, e = typeOf(body.getArgument(i)).getRank(); dim < e;
         ++dim)
      factors.join(body.getArgument(i), dim, exit->getOperand(i), dim);
  factors.finish();
  SmallVector<int64_t> sliced(body.getNumArguments());
  std::fill_n(sliced.begin() + carries, slices, 1);
  SmallVector<int64_t> stacked(exit->getNumOperands(), 1);
  std::fill_n(stacked.begin(), carries, 0);
  return getBodyRule(factors, body, sliced, stacked);
}

//===----------------------------------------------------------------------===//
// Optimizers and scaling
//===----------------------------------------------------------------------===//

ShardingRule SgdUpdateOp::getShardingRule() {
  return getElementwiseRule(*this);
}
ShardingRule AdamwUpdateOp::getShardingRule() {
  return getElementwiseRule(*this);
}

/// What all ops of the region can split. Where they work element by element,
/// all is split alike, also what has nothing to do with the parameter.
ShardingRule UpdateOp::getShardingRule() {
  if (isElementwise())
    return getElementwiseRule(*this);
  Block &body = getBody().front();
  JoinedFactors factors(body);
  factors.finish();
  return getBodyRule(factors, body, SmallVector<int64_t>(getNumOperands()),
                     SmallVector<int64_t>(getNumResults()));
}

ShardingRule GradientOp::getShardingRule() {
  return linearElementwise(*this, {0});
}

/// Each gradient may be split in its own way, which no factor says.
ShardingRule UnscaleOp::getShardingRule() { return {}; }
ShardingRule SquaredNormOp::getShardingRule() { return {}; }
ShardingRule ClipByGlobalNormOp::getShardingRule() { return {}; }

ShardingRule UpdateLossScaleOp::getShardingRule() { return {}; }
ShardingRule UpdateFp8ScaleOp::getShardingRule() { return {}; }

ShardingRule DropoutOp::getShardingRule() {
  return RuleBuilder(*this).addLinear({0}).take();
}
ShardingRule DropoutGradOp::getShardingRule() {
  return RuleBuilder(*this).addLinear({0}).take();
}

ShardingRule PredivideOp::getShardingRule() {
  ShardingRule rule = linearElementwise(*this, {0});
  rule.isMonotone = true;
  return rule;
}
