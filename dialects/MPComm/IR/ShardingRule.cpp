//===- ShardingRule.cpp - how an op may be split over ranks ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the rules of ShardingRules.cpp are made of.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Dialect/MPComm/IR/ShardingRule.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <numeric>

using namespace mlir;
using namespace mpcomm;

static ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getShape() : ArrayRef<int64_t>();
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

const ShardingFactor *ShardingRule::findOfOperand(unsigned operand,
                                                  int64_t dim) const {
  for (const ShardingFactor &factor : factors)
    if (factor.operands[operand] == dim)
      return &factor;
  return nullptr;
}

const ShardingFactor *ShardingRule::findOfResult(unsigned result,
                                                 int64_t dim) const {
  for (const ShardingFactor &factor : factors)
    if (factor.results[result] == dim)
      return &factor;
  return nullptr;
}

ShardingRule mpcomm::getElementwiseRule(Operation *op) {
  ShardingRule rule;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  for (int64_t dim = 0, e = shape.size(); dim < e; ++dim) {
    auto dimOf = [&](Value value) {
      return shapeOf(value) == shape ? dim : ShardingFactor::kNone;
    };
    ShardingFactor factor;
    factor.size = shape[dim];
    factor.operands = llvm::map_to_vector<4>(op->getOperands(), dimOf);
    factor.results = llvm::map_to_vector<4>(op->getResults(), dimOf);
    rule.factors.push_back(std::move(factor));
  }
  return rule;
}

std::optional<ShardingRule> mpcomm::getShardingRule(Operation *op) {
  if (auto sharded = dyn_cast<ShardingOpInterface>(op))
    return sharded.getShardingRule();
  if (op->getNumRegions() == 0 && op->getNumResults() > 0 &&
      OpTrait::hasElementwiseMappableTraits(op))
    return getElementwiseRule(op);
  return std::nullopt;
}

/// Runs of dimensions with equally many elements, each split at its slowest
/// dimension greater than 1.
SmallVector<ReshapeFactor> mpcomm::getReshapeFactors(ArrayRef<int64_t> operand,
                                                     ArrayRef<int64_t> result) {
  SmallVector<ReshapeFactor> factors;
  if (llvm::any_of(operand, ShapedType::isDynamic) ||
      llvm::any_of(result, ShapedType::isDynamic) ||
      llvm::is_contained(operand, 0) || llvm::is_contained(result, 0))
    return factors;
  size_t i = 0, j = 0;
  while (true) {
    while (i < operand.size() && operand[i] == 1)
      ++i;
    while (j < result.size() && result[j] == 1)
      ++j;
    if (i == operand.size() || j == result.size())
      break;
    factors.push_back({static_cast<int64_t>(i), static_cast<int64_t>(j),
                       std::gcd(operand[i], result[j])});
    int64_t left = operand[i++], right = result[j++];
    while (left != right) {
      if (left < right)
        left *= operand[i++];
      else
        right *= result[j++];
    }
  }
  llvm::erase_if(factors,
                 [](const ReshapeFactor &factor) { return factor.size == 1; });
  return factors;
}

ShardingRule mpcomm::getReshapeRule(Operation *op) {
  ShardingRule rule;
  for (const ReshapeFactor &pair :
       getReshapeFactors(shapeOf(op->getOperand(0)), shapeOf(op->getResult(0))))
    rule.factors.push_back(
        {pair.size, {pair.operand}, {pair.result}, std::nullopt});
  rule.linear = {{0}};
  rule.isMonotone = true;
  return rule;
}

//===----------------------------------------------------------------------===//
// Factors of a block
//===----------------------------------------------------------------------===//

static bool isSplat(Operation *op) {
  DenseElementsAttr constant;
  return matchPattern(op, m_Constant(&constant)) && constant.isSplat();
}

JoinedFactors::JoinedFactors(Block &block) : block(block) {
  auto add = [&](Value value) {
    firstNodes[value] = parents.size();
    for (size_t dim = 0; dim < shapeOf(value).size(); ++dim)
      parents.push_back(parents.size());
  };
  for (BlockArgument argument : block.getArguments())
    add(argument);
  for (Operation &op : block.without_terminator())
    for (Value result : op.getResults())
      add(result);
  excluded.resize(parents.size());
}

unsigned JoinedFactors::getLeader(unsigned node) const {
  while (parents[node] != node)
    node = parents[node] = parents[parents[node]];
  return node;
}

void JoinedFactors::join(Value a, int64_t dimOfA, Value b, int64_t dimOfB) {
  parents[getLeader(firstNodes.lookup(a) + dimOfA)] =
      getLeader(firstNodes.lookup(b) + dimOfB);
}

void JoinedFactors::exclude(Value value) {
  for (size_t dim = 0; dim < shapeOf(value).size(); ++dim)
    excluded[firstNodes.lookup(value) + dim] = true;
}

void JoinedFactors::finish() {
  // The dimensions of each op's factors; one that needs a reduction, or gives
  // what is no part, is out.
  SmallVector<SmallVector<unsigned>> byOp; // a node of each factor
  for (Operation &op : block.without_terminator()) {
    if (isSplat(&op))
      continue;
    // What a region of it reads from outside has no place in its rule.
    for (Region &region : op.getRegions())
      region.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          if (firstNodes.contains(operand))
            exclude(operand);
      });
    auto all = llvm::to_vector(op.getOperands());
    llvm::append_range(all, op.getResults());
    std::optional<ShardingRule> rule = getShardingRule(&op);
    if (!rule) {
      for (Value value : all)
        exclude(value);
      continue;
    }
    llvm::DenseSet<unsigned> covered;
    SmallVector<unsigned> &nodes = byOp.emplace_back();
    for (const ShardingFactor &factor : rule->factors) {
      auto dims = llvm::to_vector<8>(factor.operands);
      dims.append(factor.results.begin(), factor.results.end());
      bool isClosed =
          !factor.reduction &&
          !llvm::is_contained(factor.results, ShardingFactor::kLocal);
      std::optional<unsigned> first;
      for (auto [value, dim] : llvm::zip(all, dims)) {
        if (dim < 0)
          continue;
        unsigned node = firstNodes.lookup(value) + dim;
        covered.insert(node);
        if (first)
          parents[getLeader(node)] = getLeader(*first);
        else
          nodes.push_back(*(first = node));
        if (!isClosed)
          excluded[node] = true;
      }
    }
    for (Value value : all)
      for (size_t dim = 0; dim < shapeOf(value).size(); ++dim)
        if (unsigned node = firstNodes.lookup(value) + dim;
            !covered.contains(node))
          excluded[node] = true;
  }
  for (auto [node, isOut] : llvm::enumerate(excluded))
    if (isOut)
      unsplittable.insert(getLeader(node));
  // Two factors of one op, or dimensions of one value, cannot be split
  // together.
  auto excludeTwice = [&](ArrayRef<unsigned> nodes) {
    llvm::SmallDenseSet<unsigned> seen;
    for (unsigned node : nodes)
      if (!seen.insert(getLeader(node)).second)
        unsplittable.insert(getLeader(node));
  };
  for (ArrayRef<unsigned> nodes : byOp)
    excludeTwice(nodes);
  for (auto [value, first] : firstNodes)
    excludeTwice(llvm::to_vector(
        llvm::seq<unsigned>(first, first + shapeOf(value).size())));
}

std::optional<unsigned> JoinedFactors::find(Value value, int64_t dim) const {
  unsigned leader = getLeader(firstNodes.lookup(value) + dim);
  if (unsplittable.contains(leader))
    return std::nullopt;
  return leader;
}

int64_t JoinedFactors::getDim(Value value, unsigned factor) const {
  for (int64_t dim = 0, e = shapeOf(value).size(); dim < e; ++dim)
    if (find(value, dim) == factor)
      return dim;
  return ShardingFactor::kNone;
}
