//===- LinalgBuilder.cpp - linalg ops over one row space ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinalgBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mpcomm;

Value mpcomm::makeConstant(OpBuilder &builder, Location loc, Type type,
                           double value) {
  TypedAttr attr;
  if (isa<FloatType>(type))
    attr = builder.getFloatAttr(type, value);
  else
    attr = builder.getIntegerAttr(type, static_cast<int64_t>(value));
  return arith::ConstantOp::create(builder, loc, attr);
}

Location mpcomm::markOrigin(Location loc, StringRef name) {
  return FusedLoc::get(loc.getContext(), {loc},
                       StringAttr::get(loc.getContext(), name));
}

Location mpcomm::markOrigin(Operation *op) {
  return markOrigin(op->getLoc(), op->getName().stripDialect());
}

TypedAttr mpcomm::getIdentity(Reduction reduction, Type type) {
  Builder builder(type.getContext());
  bool smallest = reduction == Reduction::Max;
  bool extreme = smallest || reduction == Reduction::Min;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    if (!extreme)
      return builder.getFloatAttr(type, reduction == Reduction::Prod ? 1 : 0);
    return builder.getFloatAttr(
        type, APFloat::getInf(floatType.getFloatSemantics(), smallest));
  }
  unsigned width = type.getIntOrFloatBitWidth();
  APInt value(width, reduction == Reduction::Prod ? 1 : 0);
  if (extreme && width == 1)
    value = APInt(1, smallest ? 0 : 1);
  else if (extreme)
    value = smallest ? APInt::getSignedMinValue(width)
                     : APInt::getSignedMaxValue(width);
  return IntegerAttr::get(type, value);
}

Value mpcomm::reshapeTensor(OpBuilder &builder, Location loc, Value value,
                            ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  ArrayRef<int64_t> from = type.getShape();
  if (from == shape)
    return value;
  if (type.getNumElements() == 0)
    return tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  // One entry per group of corresponding dimensions, and its size.
  SmallVector<ReassociationIndices> collapse, expand;
  SmallVector<int64_t> sizes;
  size_t i = 0, j = 0;
  while (i < from.size() && j < shape.size()) {
    ReassociationIndices left{static_cast<int64_t>(i)},
        right{static_cast<int64_t>(j)};
    int64_t p = from[i++], q = shape[j++];
    while (p != q) {
      if (p < q) {
        left.push_back(i);
        p *= from[i++];
      } else {
        right.push_back(j);
        q *= shape[j++];
      }
    }
    collapse.push_back(left);
    expand.push_back(right);
    sizes.push_back(p);
  }
  // Only dimensions of size 1 can be left on either side.
  if (!sizes.empty()) {
    for (; i < from.size(); ++i)
      collapse.back().push_back(i);
    for (; j < shape.size(); ++j)
      expand.back().push_back(j);
  }
  auto middle = RankedTensorType::get(sizes, type.getElementType());
  if (sizes.size() != from.size())
    value =
        tensor::CollapseShapeOp::create(builder, loc, middle, value, collapse);
  auto result = RankedTensorType::get(shape, type.getElementType());
  if (sizes.size() != shape.size())
    value = tensor::ExpandShapeOp::create(builder, loc, result, value, expand);
  return value;
}

Value mpcomm::transposeTensor(OpBuilder &builder, Location loc, Value value,
                              ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  if (llvm::equal(dims, llvm::seq<int64_t>(0, dims.size())))
    return value;
  SmallVector<int64_t> shape;
  for (int64_t d : dims)
    shape.push_back(type.getDimSize(d));
  Value init =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  return linalg::TransposeOp::create(builder, loc, value, init, dims)
      ->getResult(0);
}

Value mpcomm::sortByLoop(OpBuilder &builder, Location loc, Value value,
                         SmallVector<int64_t> &loops) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, loops.size()));
  llvm::sort(order, [&](int64_t a, int64_t b) { return loops[a] < loops[b]; });
  llvm::sort(loops);
  return transposeTensor(builder, markOrigin(loc, "transpose"), value, order);
}

Value mpcomm::makeFilled(OpBuilder &builder, Location loc,
                         ArrayRef<int64_t> shape, TypedAttr value) {
  Value init = tensor::EmptyOp::create(builder, loc, shape, value.getType());
  Value scalar = arith::ConstantOp::create(builder, loc, value);
  return linalg::FillOp::create(builder, loc, scalar, init).getResult(0);
}

Value mpcomm::castTensor(OpBuilder &builder, Location loc, Value value,
                         Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  LinalgBuilder linalg(builder, loc, type.getShape());
  return linalg.map(
      {linalg.full(value)}, element,
      [&](ImplicitLocOpBuilder &b, ArrayRef<Value> v) { return v[0]; });
}

LinalgBuilder::Operand LinalgBuilder::dims(Value value, unsigned begin,
                                           unsigned end) {
  SmallVector<AffineExpr> exprs;
  for (unsigned d = begin; d < end; ++d)
    exprs.push_back(builder.getAffineDimExpr(d));
  return {value, AffineMap::get(space.size(), 0, exprs, builder.getContext())};
}

SmallVector<Value> LinalgBuilder::generic(
    ArrayRef<Operand> inputs, ArrayRef<Value> inits,
    ArrayRef<AffineMap> initMaps, ArrayRef<bool> reduced,
    function_ref<SmallVector<Value>(Builder &, ArrayRef<Value>,
                                    ArrayRef<Value>)>
        body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const Operand &input : inputs) {
    values.push_back(input.value);
    maps.push_back(input.map);
  }
  maps.append(initMaps.begin(), initMaps.end());
  SmallVector<utils::IteratorType> iterators;
  for (bool isReduced : reduced)
    iterators.push_back(isReduced ? utils::IteratorType::reduction
                                  : utils::IteratorType::parallel);
  auto build = [&](OpBuilder &nested, Location loc, ValueRange args) {
    Builder b(loc, nested);
    SmallVector<Value> ins, outs;
    for (Value arg : args.take_front(inputs.size()))
      ins.push_back(castFloat(b, loc, arg, getComputeType(arg.getType())));
    llvm::append_range(outs, args.drop_front(inputs.size()));
    SmallVector<Value> yielded = body(b, ins, outs);
    for (auto [value, out] : llvm::zip_equal(yielded, outs))
      value = castFloat(b, loc, value, out.getType());
    linalg::YieldOp::create(b, yielded);
  };
  auto op = linalg::GenericOp::create(builder, TypeRange(ValueRange(inits)),
                                      values, inits, maps, iterators, build);
  return llvm::to_vector_of<Value>(op.getResults());
}

SmallVector<Value> LinalgBuilder::mapSeveral(ArrayRef<Operand> inputs,
                                             ArrayRef<Type> elements,
                                             BodyOfSeveral body) {
  SmallVector<Value> inits;
  for (Type element : elements)
    inits.push_back(tensor::EmptyOp::create(builder, space, element));
  SmallVector<AffineMap> maps(elements.size(),
                              builder.getMultiDimIdentityMap(space.size()));
  SmallVector<bool> reduced(space.size(), false);
  return generic(inputs, inits, maps, reduced,
                 [&](Builder &b, ArrayRef<Value> ins, ArrayRef<Value>) {
                   return body(b, ins);
                 });
}

Value LinalgBuilder::map(ArrayRef<Operand> inputs, Type element, Body body) {
  return mapSeveral(inputs, {element},
                    [&](Builder &b, ArrayRef<Value> ins) {
                      return SmallVector<Value>{body(b, ins)};
                    })
      .front();
}

Value LinalgBuilder::reduce(Reduction reduction, ArrayRef<Operand> inputs,
                            ArrayRef<bool> reduced, Type element, Body body) {
  SmallVector<AffineExpr> exprs;
  SmallVector<int64_t> shape;
  for (auto [d, isReduced] : llvm::enumerate(reduced)) {
    if (isReduced)
      continue;
    exprs.push_back(builder.getAffineDimExpr(d));
    shape.push_back(space[d]);
  }
  AffineMap map = AffineMap::get(space.size(), 0, exprs, builder.getContext());
  Value init = makeFilled(builder, builder.getLoc(), shape,
                          getIdentity(reduction, element));
  return generic(inputs, {init}, {map}, reduced,
                 [&](Builder &b, ArrayRef<Value> ins, ArrayRef<Value> outs) {
                   return SmallVector<Value>{combine(b, b.getLoc(), reduction,
                                                     outs[0], body(b, ins))};
                 })
      .front();
}

Value LinalgBuilder::reduceColumns(Reduction reduction,
                                   ArrayRef<Operand> inputs, Type element,
                                   Body body) {
  SmallVector<bool> reduced(space.size(), false);
  reduced.back() = true;
  return reduce(reduction, inputs, reduced, element, body);
}

Value LinalgBuilder::maximumOfRows(Operand input, Type element) {
  SmallVector<bool> reduced(space.size(), false);
  reduced.back() = true;
  Operand result = row(Value());
  Value init =
      makeFilled(builder, builder.getLoc(), ArrayRef(space).drop_back(),
                 getIdentity(Reduction::Max, element));
  return generic({input}, {init}, {result.map}, reduced,
                 [](Builder &b, ArrayRef<Value> ins, ArrayRef<Value> outs) {
                   return SmallVector<Value>{
                       arith::MaxNumFOp::create(b, outs[0], ins[0])};
                 })
      .front();
}

Value LinalgBuilder::reduceRows(Reduction reduction, ArrayRef<Operand> inputs,
                                Type element, Body body) {
  SmallVector<bool> reduced(space.size(), true);
  reduced.back() = false;
  return reduce(reduction, inputs, reduced, element, body);
}
