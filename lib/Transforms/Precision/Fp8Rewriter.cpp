//===- Fp8Rewriter.cpp - products that read 8 bits ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Fp8Rewriter.h. A reshape or transpose between a tensor and a product
// changes neither elements nor their greatest magnitude: it is done on the
// widened form, where products take it along, and the tensor has one scale and
// one 8-bit form however it is looked at.
//
//===----------------------------------------------------------------------===//

#include "Precision/Fp8Rewriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpcomm;

using B = ImplicitLocOpBuilder;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// A tensor like `like`, all of whose elements are `number`.
static Value splat(B &b, Value like, double number) {
  RankedTensorType type = typeOf(like);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(type,
                                b.getFloatAttr(type.getElementType(), number)));
}

/// The tensor in another type; its own, where it has it.
static Value convert(B &b, Value value, Type element) {
  Type type = typeOf(value).clone(element);
  if (type == value.getType())
    return value;
  unsigned width = element.getIntOrFloatBitWidth();
  if (width > typeOf(value).getElementTypeBitWidth())
    return arith::ExtFOp::create(b, type, value);
  return arith::TruncFOp::create(b, type, value);
}

/// value * factor; the factor is 0-d.
static Value multiply(B &b, Value value, Value factor) {
  if (typeOf(value).getRank() != 0)
    factor =
        BroadcastInDimOp::create(b, typeOf(value), factor, ArrayRef<int64_t>{});
  return arith::MulFOp::create(b, value, factor);
}

/// The greatest magnitude of all elements, NaN if one is NaN; 0-d.
static Value findAmax(B &b, Value value) {
  Value magnitudes = math::AbsFOp::create(b, value);
  int64_t rank = typeOf(value).getRank();
  if (rank == 0)
    return magnitudes;
  return ReduceOp::create(b, Reduction::Max, magnitudes,
                          llvm::to_vector(llvm::seq<int64_t>(0, rank)));
}

static double getLargest(FloatType format) {
  return APFloat::getLargest(format.getFloatSemantics()).convertToDouble();
}

//===----------------------------------------------------------------------===//
// What products read
//===----------------------------------------------------------------------===//

/// Whether the backward pass makes it.
bool Fp8Rewriter::isGradient(Value root) const {
  Operation *maker = root.getDefiningOp();
  return maker && !graph.isForward(maker) && !activations.contains(root);
}

/// Current scaling: as mpcomm.update_fp8_scale with a history of this step
/// alone, 1 where that gives none.
Value Fp8Rewriter::chooseScale(B &b, Value amax, FloatType format) const {
  double numerator =
      std::ldexp(getLargest(format), -static_cast<int>(recipe.margin));
  Value infinite = splat(b, amax, std::numeric_limits<double>::infinity());
  auto isLess = [&](Value x, Value y) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
  };
  Value quotient = arith::DivFOp::create(b, splat(b, amax, numerator), amax);
  Value usable = arith::AndIOp::create(
      b,
      arith::AndIOp::create(b, isLess(splat(b, amax, 0), amax),
                            isLess(amax, infinite)),
      isLess(quotient, infinite));
  return arith::SelectOp::create(b, usable, quotient, splat(b, amax, 1));
}

/// `first`: the first product that reads the tensor.
FailureOr<Fp8Rewriter::Stored *> Fp8Rewriter::getStored(Value root,
                                                        Operation *first) {
  std::unique_ptr<Stored> &entry = stored[root];
  if (entry)
    return entry.get();
  MLIRContext *context = function.getContext();
  bool ofBackward = isGradient(root);
  FloatType format = ofBackward ? FloatType(Float8E5M2Type::get(context))
                                : FloatType(Float8E4M3FNType::get(context));
  B b(root.getLoc(), context);
  if (Operation *maker = root.getDefiningOp())
    b.setInsertionPointAfter(maker);
  else
    b.setInsertionPoint(first);
  Value exact = convert(b, root, b.getF32Type());
  Value amax = findAmax(b, exact), scale;
  if (recipe.isDelayed) {
    FailureOr<Value> added = state.addScale(state.nameOf(root, ofBackward));
    if (failed(added))
      return failure();
    scale = *added;
    state.update(amax, format);
  } else {
    scale = chooseScale(b, amax, format);
  }
  // A scale of an earlier step may be too large for this one's elements. NaN
  // stays.
  Value scaled = multiply(b, exact, scale);
  scaled = arith::MinimumFOp::create(b, scaled,
                                     splat(b, scaled, getLargest(format)));
  scaled = arith::MaximumFOp::create(b, scaled,
                                     splat(b, scaled, -getLargest(format)));
  entry = std::make_unique<Stored>();
  entry->value = convert(b, scaled, format);
  entry->inverse = arith::DivFOp::create(b, splat(b, scale, 1), scale);
  ++tensors;
  bytes += mpcomm::detail::countBytes(entry->value.getType());
  return entry.get();
}

/// Makes `use` read 8 bits, widened to `element`. The factor that its elements
/// are to be multiplied by, 0-d.
FailureOr<Value> Fp8Rewriter::read(OpOperand &use, Type element) {
  Operation *product = use.getOwner();
  SmallVector<Operation *> path;
  FailureOr<Stored *> found =
      getStored(graph.getRoot(use.get(), path), product);
  if (failed(found))
    return failure();
  B b(product->getLoc(), product);
  Value &wide = (*found)->wide[graph.isForward(product)][element];
  if (!wide)
    wide = convert(b, (*found)->value, element);
  Value value = wide;
  for (Operation *movement : llvm::reverse(path)) {
    Operation *own = b.clone(*movement);
    own->setOperand(0, value);
    own->getResult(0).setType(typeOf(own->getResult(0)).clone(element));
    value = own->getResult(0);
  }
  use.set(value);
  return (*found)->inverse;
}

LogicalResult Fp8Rewriter::rewrite(Operation *product) {
  Value result = product->getResult(0);
  Type element = typeOf(result).getElementType();
  SmallVector<Value> factors;
  for (OpOperand &use : product->getOpOperands()) {
    FailureOr<Value> factor = read(use, element);
    if (failed(factor))
      return failure();
    factors.push_back(*factor);
  }
  // One after the other: their product may be too large or small for f32 where
  // the result is not.
  B b(product->getLoc(), function.getContext());
  b.setInsertionPointAfter(product);
  Value value = convert(b, result, b.getF32Type());
  for (Value factor : factors)
    value = multiply(b, value, factor);
  if (graph.isForward(product))
    activations.insert(value);
  value = convert(b, value, element);
  result.replaceUsesWithIf(value, [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return !(user->getBlock() == product->getBlock() &&
             user->isBeforeInBlock(value.getDefiningOp()));
  });
  ++products;
  return success();
}

/// Movements and casts for products that now read something else.
void Fp8Rewriter::eraseUnused() {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (op.use_empty() &&
        (getMoved(&op) || isa<arith::ExtFOp, arith::TruncFOp>(op)))
      op.erase();
}

LogicalResult Fp8Rewriter::run() {
  SmallVector<Operation *> list;
  for (Operation &op : function.getBody().front())
    if (graph.isQuantized(&op))
      list.push_back(&op);
  for (Operation *product : list)
    if (failed(rewrite(product)))
      return failure();
  state.finish();
  eraseUnused();
  return success();
}
