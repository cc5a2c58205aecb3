//===- EpilogueKernels.cpp - kernels that a product may do ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See EpilogueKernels.h.
//
//===----------------------------------------------------------------------===//

#include "Epilogues/EpilogueKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <optional>

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// The operand of a commutative op beside one that `isOther` accepts; null
/// where `value` is null or no such op.
template <typename Op>
static Value beside(Value value, llvm::function_ref<bool(Value)> isOther) {
  auto op = value ? value.getDefiningOp<Op>() : Op();
  if (!op)
    return {};
  return isOther(op.getRhs())   ? op.getLhs()
         : isOther(op.getLhs()) ? op.getRhs()
                                : Value();
}

template <typename Op> static Value beside(Value value, Value other) {
  return beside<Op>(value, [&](Value v) { return v == other; });
}

/// A number rounded to f32 is near enough to what it is made of.
static bool isNumber(Value value, double expected) {
  APFloat number(0.0);
  return matchPattern(value, m_ConstantFloat(&number)) &&
         std::abs(number.convertToDouble() - expected) <=
             std::abs(expected) * 1e-7;
}

template <typename Op> static Value beside(Value value, double other) {
  return beside<Op>(value, [&](Value v) { return isNumber(v, other); });
}

static bool isSquare(Value value, Value of) {
  return of && beside<arith::MulFOp>(value, of) == of;
}

/// sqrt(2 / pi), and the factor of the cube.
static constexpr double kRoot =
    llvm::numbers::sqrt2 * llvm::numbers::inv_sqrtpi;
static constexpr double kCubic = 0.044715;

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))
static bool isTanhOfGelu(Value value, Value x) {
  auto op = value ? value.getDefiningOp<math::TanhOp>() : math::TanhOp();
  if (!op)
    return false;
  Value sum = beside<arith::MulFOp>(op.getOperand(), kRoot);
  Value cube = beside<arith::MulFOp>(beside<arith::AddFOp>(sum, x), kCubic);
  return isSquare(beside<arith::MulFOp>(cube, x), x);
}

/// x / 2 (1 + t), t the tanh.
static bool isTanhGelu(Value value, Value x) {
  Value sum = beside<arith::MulFOp>(
      value, [&](Value v) { return beside<arith::MulFOp>(v, 0.5) == x; });
  return isTanhOfGelu(beside<arith::AddFOp>(sum, 1.0), x);
}

/// (1 + t) / 2 + x / 2 (1 - t^2) u', t the tanh of u.
static bool isTanhGeluSlope(Value value, Value x) {
  Value t;
  auto isHalfOfSum = [&](Value v) {
    t = beside<arith::AddFOp>(beside<arith::MulFOp>(v, 0.5), 1.0);
    return isTanhOfGelu(t, x);
  };
  auto isSlopeOfTanh = [&](Value v) {
    auto difference = v.getDefiningOp<arith::SubFOp>();
    return difference && isNumber(difference.getLhs(), 1.0) &&
           isSquare(difference.getRhs(), t);
  };
  auto isSlopeOfU = [&](Value v) {
    Value sum = beside<arith::MulFOp>(v, kRoot);
    return isSquare(
        beside<arith::MulFOp>(beside<arith::AddFOp>(sum, 1.0), 3 * kCubic), x);
  };
  Value product = beside<arith::AddFOp>(value, isHalfOfSum);
  Value left = beside<arith::MulFOp>(product, isSlopeOfU);
  Value half = beside<arith::MulFOp>(left, isSlopeOfTanh);
  return half && beside<arith::MulFOp>(half, 0.5) == x;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static Value yielded(linalg::GenericOp op) {
  return op.getBody()->getTerminator()->getOperand(0);
}

static bool isElementwise(linalg::GenericOp op) {
  return op.getNumResults() == 1 &&
         op.getNumParallelLoops() == op.getNumLoops();
}

static bool isFloatOfProduct(Type type) {
  return isa<Float32Type, BFloat16Type, Float16Type>(type);
}

/// `argument` of a body as it is computed with, in f32.
static Value inF32(Value argument) {
  if (argument.getType().isF32())
    return argument;
  for (Operation *user : argument.getUsers())
    if (isa<arith::ExtFOp>(user) && user->getResult(0).getType().isF32())
      return user->getResult(0);
  return {};
}

/// What is rounded to the type of `value`; `value` itself of f32.
static Value beforeRounding(Value value) {
  if (value.getType().isF32())
    return value;
  auto narrow = value.getDefiningOp<arith::TruncFOp>();
  return narrow && narrow.getIn().getType().isF32() ? narrow.getIn() : Value();
}

static func::ReturnOp endOf(func::FuncOp kernel) {
  return cast<func::ReturnOp>(kernel.getBody().front().getTerminator());
}

/// The argument that the op's only result goes to.
static std::optional<unsigned> destinationOf(linalg::GenericOp op,
                                             unsigned inputs) {
  auto kernel = op->getParentOfType<func::FuncOp>();
  for (auto [i, value] : llvm::enumerate(endOf(kernel).getOperands()))
    if (value == op.getResult(0))
      return inputs + static_cast<unsigned>(i);
  return std::nullopt;
}

namespace {
/// The product, read where it is written, times one or two numbers.
struct Scaled {
  Value value; // of the product's type
  unsigned matrix = 0;
  SmallVector<int64_t, 2> scales;
  size_t count = 0; // of the ops that make it
};
} // namespace

static bool hasIdentityMaps(linalg::GenericOp op) {
  return llvm::all_of(op.getIndexingMapsArray(),
                      [](AffineMap map) { return map.isIdentity(); });
}

/// The only op in the body of an elementwise `op`, if it is an `Op` of its
/// inputs in their order.
template <typename Op> static Op onlyOpIn(linalg::GenericOp op) {
  Block *body = op.getBody();
  auto only = yielded(op).getDefiningOp<Op>();
  return only && body->getOperations().size() == 2 && isElementwise(op) &&
                 llvm::equal(
                     only->getOperands(),
                     body->getArguments().take_front(op.getNumDpsInputs()))
             ? only
             : Op();
}

/// The argument that `op` multiplies `value` by, a number in f32.
static std::optional<int64_t> scaleOf(linalg::GenericOp op, Value value,
                                      unsigned inputs) {
  if (!onlyOpIn<arith::MulFOp>(op) || op.getNumDpsInputs() != 2)
    return std::nullopt;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (unsigned i : {0u, 1u}) {
    auto number = dyn_cast<BlockArgument>(op.getInputs()[1 - i]);
    if (op.getInputs()[i] != value || !maps[i].isIdentity() ||
        !maps[2].isIdentity() || !number || number.getArgNumber() >= inputs)
      continue;
    auto type = cast<RankedTensorType>(number.getType());
    if (type.getRank() == 0 && type.getElementType().isF32())
      return number.getArgNumber();
  }
  return std::nullopt;
}

static std::optional<Scaled> matchScaled(ArrayRef<linalg::GenericOp> ops,
                                         unsigned inputs) {
  Scaled found;
  linalg::GenericOp first = ops.front();
  if (first.getNumDpsInputs() < 1 || first.getNumResults() != 1)
    return std::nullopt;
  bool isWidened = onlyOpIn<arith::ExtFOp>(first) && hasIdentityMaps(first);
  Value value = isWidened ? first.getResult(0) : Value();
  found.count = isWidened;
  auto product = dyn_cast<BlockArgument>(first.getInputs()[0]);
  if (!isWidened && product && product.getArgNumber() < inputs &&
      first.getNumDpsInputs() == 2) // the number comes first
    product = dyn_cast<BlockArgument>(first.getInputs()[1]);
  if (!product || product.getArgNumber() < inputs)
    return std::nullopt;
  if (!isWidened)
    value = product;
  Type element = getElementTypeOrSelf(product);
  if (!isFloatOfProduct(element) || !getElementTypeOrSelf(value).isF32())
    return std::nullopt;
  for (; found.scales.size() < 2 && found.count < ops.size(); ++found.count) {
    linalg::GenericOp op = ops[found.count];
    std::optional<int64_t> scale = scaleOf(op, value, inputs);
    if (!scale)
      break;
    found.scales.push_back(*scale);
    value = op.getResult(0);
  }
  if (found.scales.empty())
    return std::nullopt;
  if (isWidened) {
    if (found.count == ops.size())
      return std::nullopt;
    linalg::GenericOp last = ops[found.count++];
    if (!onlyOpIn<arith::TruncFOp>(last) || !hasIdentityMaps(last) ||
        last.getInputs()[0] != value ||
        getElementTypeOrSelf(last.getResult(0)) != element)
      return std::nullopt;
    value = last.getResult(0);
  }
  found.value = value;
  found.matrix = product.getArgNumber();
  return found;
}

/// The product, read where it is written, and scaled or not, and a bias along
/// its last dimension, and gelu of it or not.
static std::optional<EpilogueKernel> matchBias(ArrayRef<linalg::GenericOp> ops,
                                               unsigned inputs) {
  EpilogueKernel found;
  std::optional<Scaled> scaled = matchScaled(ops, inputs);
  if (scaled) {
    found.matrix = scaled->matrix;
    found.epilogue.scales = scaled->scales;
    linalg::GenericOp last = ops[scaled->count - 1];
    ops = ops.drop_front(scaled->count);
    if (ops.empty()) {
      found.epilogue.kind = MPRT_SCALE;
      auto kernel = last->getParentOfType<func::FuncOp>();
      return kernel.getNumResults() == 1 &&
                     destinationOf(last, inputs) == found.matrix
                 ? std::optional(found)
                 : std::nullopt;
    }
  }
  linalg::GenericOp sum = ops.front();
  if (ops.size() > 2 || !llvm::all_of(ops, isElementwise) ||
      sum.getNumDpsInputs() != 2)
    return std::nullopt;
  unsigned loops = sum.getNumLoops();
  SmallVector<AffineMap> maps = sum.getIndexingMapsArray();
  Type element = getElementTypeOrSelf(sum.getResult(0));
  if (loops == 0 || !isFloatOfProduct(element) || !maps[2].isIdentity())
    return std::nullopt;
  MLIRContext *context = sum.getContext();
  AffineMap last =
      AffineMap::get(loops, 0, {getAffineDimExpr(loops - 1, context)}, context);
  bool hasBoth = false;
  for (unsigned i : {0u, 1u}) {
    Value product = sum.getInputs()[i];
    auto argument = dyn_cast<BlockArgument>(product);
    auto bias = dyn_cast<BlockArgument>(sum.getInputs()[1 - i]);
    bool isProduct = scaled ? product == scaled->value
                            : argument && argument.getArgNumber() >= inputs;
    if (isProduct && bias && product != bias && maps[i].isIdentity() &&
        maps[1 - i] == last && bias.getArgNumber() < inputs &&
        getElementTypeOrSelf(product) == element &&
        getElementTypeOrSelf(bias) == element) {
      if (!scaled)
        found.matrix = argument.getArgNumber();
      found.epilogue.bias = bias.getArgNumber();
      hasBoth = true;
      break;
    }
  }
  Block *body = sum.getBody();
  if (!hasBoth || beside<arith::AddFOp>(yielded(sum), body->getArgument(0)) !=
                      body->getArgument(1))
    return std::nullopt;
  auto kernel = sum->getParentOfType<func::FuncOp>();
  std::optional<unsigned> sumTo = destinationOf(sum, inputs);
  found.epilogue.kind = MPRT_BIAS;
  if (ops.size() == 1)
    return kernel.getNumResults() == 1 && sumTo == found.matrix
               ? std::optional(found)
               : std::nullopt;

  linalg::GenericOp gelu = ops.back();
  if (gelu.getNumDpsInputs() != 1 || gelu.getInputs()[0] != sum.getResult(0) ||
      llvm::any_of(gelu.getIndexingMapsArray(),
                   [](AffineMap map) { return !map.isIdentity(); }) ||
      getElementTypeOrSelf(gelu.getResult(0)) != element)
    return std::nullopt;
  Value x = inF32(gelu.getBody()->getArgument(0));
  Value value = beforeRounding(yielded(gelu));
  if (!x || !value || !isTanhGelu(value, x))
    return std::nullopt;
  // Either gelu alone is kept, in the product's place, or the sum is there.
  std::optional<unsigned> geluTo = destinationOf(gelu, inputs);
  if (!geluTo || kernel.getNumResults() != (sumTo ? 2u : 1u))
    return std::nullopt;
  if (!sumTo && geluTo == found.matrix) {
    found.epilogue.kind = MPRT_BIAS_GELU;
    return found;
  }
  if (sumTo != found.matrix || geluTo == found.matrix)
    return std::nullopt;
  found.epilogue.kind = MPRT_BIAS_GELU_AUX;
  found.epilogue.matrix = *geluTo;
  return found;
}

/// The product, read where it is written, times gelu' of an input, and
/// whatever comes after that.
static std::optional<EpilogueKernel>
matchGeluGrad(ArrayRef<linalg::GenericOp> ops, unsigned inputs) {
  linalg::GenericOp op = ops.front();
  if (!isElementwise(op) || op.getNumDpsInputs() != 2 ||
      llvm::any_of(op.getIndexingMapsArray(),
                   [](AffineMap map) { return !map.isIdentity(); }))
    return std::nullopt;
  Type element = getElementTypeOrSelf(op.getResult(0));
  Value slope = beforeRounding(yielded(op));
  for (unsigned i : {0u, 1u}) {
    auto product = dyn_cast<BlockArgument>(op.getInputs()[i]);
    auto of = dyn_cast<BlockArgument>(op.getInputs()[1 - i]);
    if (!product || !of || product.getArgNumber() < inputs ||
        of.getArgNumber() >= inputs || !isFloatOfProduct(element) ||
        getElementTypeOrSelf(product) != element ||
        getElementTypeOrSelf(of) != element ||
        destinationOf(op, inputs) != product.getArgNumber() ||
        llvm::count(endOf(op->getParentOfType<func::FuncOp>()).getOperands(),
                    op.getResult(0)) != 1 ||
        // Nothing else reads what is overwritten.
        llvm::any_of(product.getUsers(),
                     [&](Operation *user) { return user != op; }))
      continue;
    Value dy = inF32(op.getBody()->getArgument(i));
    Value x = inF32(op.getBody()->getArgument(1 - i));
    if (!dy || !x || !isTanhGeluSlope(beside<arith::MulFOp>(slope, dy), x))
      continue;
    EpilogueKernel found;
    found.epilogue.kind = MPRT_GELU_GRAD;
    found.epilogue.matrix = of.getArgNumber();
    found.matrix = product.getArgNumber();
    if (op->getParentOfType<func::FuncOp>().getNumResults() > 1)
      found.goesOn = op;
    return found;
  }
  return std::nullopt;
}

/// The sum of an input over all its dimensions but the last, in f32.
static std::optional<EpilogueKernel>
matchBiasGrad(ArrayRef<linalg::GenericOp> ops, unsigned inputs) {
  linalg::GenericOp sum = ops.back();
  unsigned loops = sum.getNumLoops();
  auto kernel = sum->getParentOfType<func::FuncOp>();
  if (ops.size() > 2 || sum.getNumResults() != 1 ||
      sum.getNumDpsInputs() != 1 || loops < 2 ||
      sum.getNumReductionLoops() != loops - 1 ||
      sum.getIteratorTypesArray().back() != utils::IteratorType::parallel ||
      !getElementTypeOrSelf(sum.getResult(0)).isF32() ||
      kernel.getNumResults() != 1 || !destinationOf(sum, inputs))
    return std::nullopt;
  MLIRContext *context = sum.getContext();
  AffineMap last =
      AffineMap::get(loops, 0, {getAffineDimExpr(loops - 1, context)}, context);
  SmallVector<AffineMap> maps = sum.getIndexingMapsArray();
  auto fill = sum.getOutputs()[0].getDefiningOp<linalg::FillOp>();
  Block *body = sum.getBody();
  Value value = inF32(body->getArgument(0));
  if (!maps[0].isIdentity() || maps[1] != last || !fill ||
      !matchPattern(fill.getInputs()[0], m_PosZeroFloat()) || !value ||
      beside<arith::AddFOp>(yielded(sum), body->getArgument(1)) != value)
    return std::nullopt;

  // What is summed up may be widened before.
  Value matrix = sum.getInputs()[0];
  if (ops.size() == 2) {
    linalg::GenericOp wide = ops.front();
    if (!isElementwise(wide) || wide.getNumDpsInputs() != 1 ||
        matrix != wide.getResult(0) ||
        llvm::any_of(wide.getIndexingMapsArray(),
                     [](AffineMap map) { return !map.isIdentity(); }) ||
        yielded(wide) != inF32(wide.getBody()->getArgument(0)))
      return std::nullopt;
    matrix = wide.getInputs()[0];
  }
  auto argument = dyn_cast<BlockArgument>(matrix);
  if (!argument || argument.getArgNumber() >= inputs ||
      !isFloatOfProduct(getElementTypeOrSelf(matrix)))
    return std::nullopt;
  EpilogueKernel found;
  found.epilogue.kind = MPRT_BIAS_GRAD_A;
  found.epilogue.bias = *destinationOf(sum, inputs);
  found.matrix = argument.getArgNumber();
  return found;
}

std::optional<EpilogueKernel> mpcomm::matchEpilogueKernel(func::FuncOp kernel,
                                                          unsigned inputs) {
  if (kernel.isExternal() || !kernel.getBody().hasOneBlock())
    return std::nullopt;
  SmallVector<linalg::GenericOp> ops;
  bool isKnown = true;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      ops.push_back(generic);
    else if (!isa<tensor::EmptyOp, linalg::FillOp>(op) &&
             !op.hasTrait<OpTrait::ConstantLike>())
      isKnown = false;
  }
  if (ops.empty())
    return std::nullopt;
  // What comes after gelu's gradient may be anything.
  if (auto found = matchGeluGrad(ops, inputs))
    return found;
  if (!isKnown)
    return std::nullopt;
  if (auto found = matchBias(ops, inputs))
    return found;
  return matchBiasGrad(ops, inputs);
}

//===----------------------------------------------------------------------===//
// Parts of kernels
//===----------------------------------------------------------------------===//

/// A kernel with what `results` of `kernel` are made of, except that `given`
/// is argument `from`, an input.
static SplitKernel cloneSplit(func::FuncOp kernel, unsigned inputs,
                              ArrayRef<unsigned> results, Value given,
                              unsigned from, StringRef suffix,
                              SymbolTable &symbols) {
  Block &body = kernel.getBody().front();
  func::ReturnOp end = endOf(kernel);
  llvm::SetVector<Operation *> needed;
  llvm::SmallDenseSet<Value> used;
  SmallVector<Value> worklist;
  for (unsigned result : results)
    worklist.push_back(end.getOperand(result));
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value == given || !used.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || !needed.insert(op))
      continue;
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (operand.getParentBlock() == &body)
          worklist.push_back(operand);
    });
  }

  SplitKernel split;
  SmallVector<Type> arguments, types;
  auto take = [&](unsigned argument) {
    split.operands.push_back(argument);
    arguments.push_back(kernel.getArgumentTypes()[argument]);
  };
  for (unsigned i = 0; i < inputs; ++i)
    if (used.contains(body.getArgument(i)))
      take(i);
  if (given)
    take(from);
  split.inputs = static_cast<unsigned>(arguments.size());
  for (unsigned result : results) {
    take(inputs + result);
    types.push_back(end.getOperand(result).getType());
  }
  OpBuilder b(kernel.getContext());
  split.kernel = func::FuncOp::create(b, kernel.getLoc(),
                                      (kernel.getSymName() + suffix).str(),
                                      b.getFunctionType(arguments, types));
  split.kernel.setPrivate();
  split.kernel->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
  symbols.insert(split.kernel, std::next(kernel->getIterator()));
  Block *block = split.kernel.addEntryBlock();
  b.setInsertionPointToStart(block);
  IRMapping mapping;
  for (auto [argument, old] : llvm::zip(block->getArguments(), split.operands))
    mapping.map(body.getArgument(old), argument);
  if (given)
    mapping.map(given, block->getArgument(split.inputs - 1));
  for (Operation &op : body.without_terminator())
    if (needed.contains(&op))
      b.clone(op, mapping);
  SmallVector<Value> values;
  for (unsigned result : results)
    values.push_back(mapping.lookup(end.getOperand(result)));
  func::ReturnOp::create(b, end.getLoc(), values);
  return split;
}

std::pair<SplitKernel, SplitKernel>
mpcomm::splitGeluGrad(func::FuncOp kernel, const EpilogueKernel &found,
                      unsigned inputs, SymbolTable &symbols) {
  unsigned gradient = found.matrix - inputs;
  SmallVector<unsigned> others;
  for (unsigned i = 0; i < kernel.getNumResults(); ++i)
    if (i != gradient)
      others.push_back(i);
  linalg::GenericOp op = found.goesOn;
  SplitKernel rest = cloneSplit(kernel, inputs, others, op.getResult(0),
                                found.matrix, "_rest", symbols);
  return {cloneSplit(kernel, inputs, gradient, {}, 0, "_product", symbols),
          rest};
}
