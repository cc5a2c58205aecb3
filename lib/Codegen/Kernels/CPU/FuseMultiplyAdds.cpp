//===- FuseMultiplyAdds.cpp - products and sums that round once -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM fuses a product and a sum where the code around them lets it, and so may
// round the ends of a tensor, which are not computed in lanes, otherwise than
// its middle. Which ones are fused is a matter of the expression alone here.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Codegen/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_FUSEMULTIPLYADDSPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

static bool mayContract(Operation *op) {
  auto floats = dyn_cast<arith::ArithFastMathInterface>(op);
  // Casts have no flags by default.
  arith::FastMathFlagsAttr flags =
      floats ? floats.getFastMathFlagsAttr() : arith::FastMathFlagsAttr();
  return flags &&
         bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::contract);
}

static bool isSum(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp>(op) && mayContract(op);
}

/// Whether sums take `product`. What is also needed rounded, as it is stored or
/// multiplied again, is rounded in sums, too.
static bool isTaken(arith::MulFOp product) {
  return mayContract(product) && llvm::all_of(product->getUsers(), isSum);
}

/// Puts `product` and `z`, each with its sign, rounded once, in place of `sum`.
static void replaceSum(Operation *sum, arith::MulFOp product, bool isNegative,
                       Value z, bool isSubtracted) {
  OpBuilder builder(sum);
  Location loc = sum->getLoc();
  Value x = product.getLhs();
  if (isNegative)
    x = arith::NegFOp::create(builder, loc, x);
  if (isSubtracted)
    z = arith::NegFOp::create(builder, loc, z);
  sum->getResult(0).replaceAllUsesWith(
      math::FmaOp::create(builder, loc, x, product.getRhs(), z));
  sum->erase();
}

namespace {

struct FuseMultiplyAdds
    : public mpcomm::impl::FuseMultiplyAddsPassBase<FuseMultiplyAdds> {
  void runOnOperation() override {
    SmallVector<Operation *> sums;
    llvm::DenseSet<Operation *> taken;
    getOperation()->walk([&](Operation *op) {
      if (auto product = dyn_cast<arith::MulFOp>(op);
          product && isTaken(product))
        taken.insert(op);
      if (!isSum(op))
        return;
      Type element = getElementTypeOrSelf(op->getResult(0));
      if (element.isF32() || element.isF64())
        sums.push_back(op);
    });
    auto getProduct = [&](Value value) {
      Operation *def = value.getDefiningOp();
      return taken.contains(def) ? cast<arith::MulFOp>(def) : arith::MulFOp();
    };
    for (Operation *sum : sums) {
      Value lhs = sum->getOperand(0), rhs = sum->getOperand(1);
      bool subtracts = isa<arith::SubFOp>(sum);
      if (lhs == rhs) // a difference of nothing stays one
        continue;
      if (arith::MulFOp product = getProduct(rhs))
        replaceSum(sum, product, subtracts, lhs, /*isSubtracted=*/false);
      else if (arith::MulFOp product = getProduct(lhs))
        replaceSum(sum, product, /*isNegative=*/false, rhs, subtracts);
    }
    // Not before: another op may be made where one is erased.
    for (Operation *product : taken)
      if (product->use_empty())
        product->erase();
    // What is left stays apart.
    getOperation()->walk([](Operation *op) {
      if (!mayContract(op))
        return;
      auto floats = cast<arith::ArithFastMathInterface>(op);
      auto flags = floats.getFastMathFlagsAttr().getValue() &
                   ~arith::FastMathFlags::contract;
      op->setAttr(floats.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(op->getContext(), flags));
    });
  }
};

} // namespace
