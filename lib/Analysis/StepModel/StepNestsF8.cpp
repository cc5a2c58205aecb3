//===- StepNestsF8.cpp - products of 8 bits among the nests of a step -----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What convert-mpcomm-to-linalg makes of a product whose operands are widened
// from 8 bits (NarrowProducts.cpp there).
//
//===----------------------------------------------------------------------===//

#include "StepModel/StepNests.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"

using namespace mlir;
using namespace mpcomm;
using OpKind = KernelProblem::OpKind;

/// A value with its dimensions in the order `dims`, by a kernel.
int StepNests::transpose(int source, ArrayRef<int64_t> dims) {
  SmallVector<int> key{source};
  llvm::append_range(key, dims);
  auto [entry, isNew] =
      findEqual(llvm::hash_value(StringRef("transpose")), key);
  if (!isNew)
    return entry.front();
  auto type = cast<RankedTensorType>(types[source]);
  LoopNest nest;
  LoopIndex from(dims.size());
  for (auto [loop, dim] : llvm::enumerate(dims)) {
    nest.sizes.push_back(type.getDimSize(dim));
    from[dim] = static_cast<int64_t>(loop);
  }
  Type moved = type.clone(nest.sizes);
  int memory = addValue(moved), result = addValue(moved);
  entry.push_back(result);
  problem.values[memory].isFilled = true;
  addResult(addOp(OpKind::View, position, {}), memory);
  nest.isReduction.assign(dims.size(), false);
  nest.isCheap = true;
  nest.reads.push_back({source, std::move(from)});
  nest.writes.push_back(
      {result, llvm::to_vector(llvm::seq<int64_t>(0, dims.size())), memory});
  int op = addOp(OpKind::Nest, position, {source, memory});
  problem.ops[op].nest = static_cast<int>(problem.nests.size());
  problem.nests.push_back(std::move(nest));
  addResult(op, result);
  return result;
}

namespace {
/// A transpose, of which `dims` are, or a reshape.
struct Move {
  SmallVector<int64_t> dims;
  RankedTensorType type;
};

/// What an operand of a product is widened from.
struct NarrowSource {
  Value value; // null: from nothing of 8 bits
  /// What moves it before the product, the last first.
  SmallVector<Move> path;
};
} // namespace

static NarrowSource findNarrowSource(Value operand) {
  NarrowSource source;
  Value value = operand;
  for (;;) {
    Move move{{}, cast<RankedTensorType>(value.getType())};
    if (auto transpose = value.getDefiningOp<TransposeOp>()) {
      value = transpose.getOperand();
      move.dims = llvm::to_vector(transpose.getDims());
    } else if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      value = reshape.getOperand();
    } else {
      break;
    }
    source.path.push_back(std::move(move));
  }
  auto widening = value.getDefiningOp<arith::ExtFOp>();
  if (widening && isF8OfTensorCores(widening.getIn().getType()))
    source.value = widening.getIn();
  return source;
}

/// A value of 8 bits with its dimensions in the order `dims`. Transposes of
/// transposes are one, or none.
int StepNests::transposeNarrow(Value value, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> order(dims);
  while (auto before = value.getDefiningOp<TransposeOp>()) {
    for (int64_t &dim : order)
      dim = before.getDims()[dim];
    value = before.getOperand();
  }
  return isIdentityPermutation(order) ? lookup(value)
                                      : transpose(lookup(value), order);
}

/// Adds a product of two tensors widened from 8 bits that tensor cores can
/// multiply, each along what is summed; false if `op` is none.
bool StepNests::addF8Product(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  if (!dot)
    return false;
  ProductLoops loops(dot);
  OperandLoops lists = {loops.lhs, loops.rhs};
  std::array<NarrowSource, 2> sources;
  for (auto [operand, list, source] :
       llvm::zip_equal(dot->getOperands(), lists, sources)) {
    source = findNarrowSource(operand);
    if (!source.value || broadcasts.contains(lookup(source.value)))
      return false;
    // The last transposes are strides.
    auto *end = llvm::find_if(
        source.path, [](const Move &move) { return move.dims.empty(); });
    for (const Move &move : llvm::make_range(source.path.begin(), end)) {
      SmallVector<int64_t> own(list.size());
      for (auto [i, dim] : llvm::enumerate(move.dims))
        own[dim] = list[i];
      list = std::move(own);
    }
    source.path.erase(source.path.begin(), end);
  }
  std::optional<OperandLoops> ordered = orderForTensorCoresOfF8(
      loops.sizes, loops.numParallel, lists, loops.result,
      sources[0].value.getType(), sources[1].value.getType(), dot.getType());
  if (!ordered)
    return false;
  F8Product product{getElementTypeOrSelf(sources[0].value)};
  product.bytes = mpcomm::detail::countBytes(TypeRange{dot.getType()});
  SmallVector<int, 2> operands;
  for (auto [source, list, order] : llvm::zip_equal(sources, lists, *ordered)) {
    Type element = getElementTypeOrSelf(source.value);
    int value = -1; // none: what it is widened from
    auto transposed = [&](ArrayRef<int64_t> dims) {
      return value < 0 ? transposeNarrow(source.value, dims)
                       : transpose(value, dims);
    };
    for (const Move &move : llvm::reverse(source.path))
      value =
          !move.dims.empty()
              ? transposed(move.dims)
              : reshape(value < 0 ? lookup(source.value) : value,
                        RankedTensorType::get(move.type.getShape(), element),
                        position);
    if (list != order) {
      SmallVector<int64_t> dims;
      for (int64_t loop : order)
        dims.push_back(llvm::find(list, loop) - list.begin());
      value = transposed(dims);
    }
    if (value < 0)
      value = lookup(source.value);
    product.bytes += problem.values[value].bytes;
    operands.push_back(value);
  }
  ++numProducts;
  int added = addOp(OpKind::Other, position, operands);
  problem.ops[added].isLibraryCall = true;
  addResult(added, lookup(dot.getResult()));
  f8Products[position] = std::move(product);
  return true;
}
