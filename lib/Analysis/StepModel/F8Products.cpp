//===- F8Products.cpp - products that read 8 bits -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepModel/F8Products.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"

using namespace mlir;
using namespace mpcomm;

/// The type of 8 bits that `value` is widened from; null if it is not.
static Type getNarrowType(Value value) {
  Operation *op = value.getDefiningOp();
  for (auto move = dyn_cast_or_null<MovementOpInterface>(op);
       move && move.isOneToOne();
       move = dyn_cast_or_null<MovementOpInterface>(op))
    op = move->getOperand(0).getDefiningOp();
  auto widening = dyn_cast_or_null<arith::ExtFOp>(op);
  Type type = widening ? getElementTypeOrSelf(widening.getIn()) : Type();
  return isa_and_nonnull<Float8E4M3FNType, Float8E5M2Type>(type) ? type
                                                                 : Type();
}

std::optional<F8Product> mpcomm::matchF8Product(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  if (!dot)
    return std::nullopt;
  Type left = getNarrowType(dot.getLhs()), right = getNarrowType(dot.getRhs());
  if (!left || !right ||
      (isa<Float8E5M2Type>(left) && isa<Float8E5M2Type>(right)))
    return std::nullopt;
  F8Product found{left};
  ProductLoops loops(dot);
  auto numParallel = static_cast<int64_t>(loops.numParallel);
  for (auto [operand, list] : {std::pair(dot.getLhs(), &loops.lhs),
                               std::pair(dot.getRhs(), &loops.rhs)}) {
    int64_t bytes = mpcomm::detail::countElements(operand.getType());
    found.bytes += bytes;
    if (putSumsLast(*list, numParallel))
      found.transposed.push_back(bytes);
  }
  RankedTensorType result = dot.getType();
  std::optional<StridedGemm> product =
      getStridedProduct(loops.sizes, loops.lhs, loops.rhs, loops.result);
  if (!product ||
      !fitsTensorCoresOfF8(*product, result.getElementTypeBitWidth() / 8))
    return std::nullopt;
  found.bytes += mpcomm::detail::countBytes(result);
  return found;
}

double mpcomm::getSeconds(const CostModel &model, Operation *op,
                          const F8Product &product) {
  double seconds = model.getSeconds(op, product.bytes, /*isLaunched=*/true,
                                    /*share=*/1, product.element);
  for (int64_t bytes : product.transposed)
    seconds += model.getSeconds(op, 2 * bytes, /*isLaunched=*/true,
                                /*share=*/0);
  return seconds;
}
