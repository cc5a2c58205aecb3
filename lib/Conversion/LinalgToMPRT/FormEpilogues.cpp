//===- FormEpilogues.cpp - kernels behind products to epilogues -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: marks launches right behind a matrix product whose kernel adds a
// bias to the result, and applies gelu to the sum.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mpcomm/Conversion/Passes.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "mpcomm/Runtime/mprt.h"
#include "llvm/Support/MathExtras.h"

#define DEBUG_TYPE "mpcomm-form-epilogues"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_FORMEPILOGUESPASS
#include "mpcomm/Conversion/Passes.h.inc"

namespace {
using mprt::Epilogue;
using mprt::GemmOp;
using mprt::LaunchOp;

struct FormEpiloguesPass : impl::FormEpiloguesPassBase<FormEpiloguesPass> {
  using FormEpiloguesPassBase::FormEpiloguesPassBase;
  void runOnOperation() override;
};

/// What a kernel does with one of its destinations: adds a bias along its last
/// dimension, and takes gelu of the sum.
struct BiasKernel {
  unsigned product, bias;
  /// Where gelu goes: the product's place, another destination, or nowhere.
  std::optional<unsigned> gelu;
};
} // namespace

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// The operands of a commutative op, the one that `isSecond` accepts behind the
/// other; nulls where none is.
template <typename Op>
static std::pair<Value, Value>
operandsOf(Value value, llvm::function_ref<bool(Value)> isSecond) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return {};
  if (isSecond(op.getRhs()))
    return {op.getLhs(), op.getRhs()};
  if (isSecond(op.getLhs()))
    return {op.getRhs(), op.getLhs()};
  return {};
}

/// A number rounded to f32 is near enough to what it is made of.
static bool isNumber(Value value, double expected) {
  APFloat number(0.0);
  return matchPattern(value, m_ConstantFloat(&number)) &&
         std::abs(number.convertToDouble() - expected) <=
             std::abs(expected) * 1e-7;
}

template <typename Op> static Value besideNumber(Value value, double expected) {
  return operandsOf<Op>(value, [&](Value v) { return isNumber(v, expected); })
      .first;
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
static bool isTanhGelu(Value value, Value x) {
  auto isX = [&](Value v) { return v == x; };
  auto isHalf = [&](Value v) {
    return besideNumber<arith::MulFOp>(v, 0.5) == x;
  };
  Value sum = operandsOf<arith::MulFOp>(value, isHalf).first;
  Value tanh = sum ? besideNumber<arith::AddFOp>(sum, 1.0) : Value();
  auto op = tanh ? tanh.getDefiningOp<math::TanhOp>() : math::TanhOp();
  if (!op)
    return false;
  Value inner = besideNumber<arith::MulFOp>(
      op.getOperand(), llvm::numbers::sqrt2 * llvm::numbers::inv_sqrtpi);
  Value cubic = inner ? operandsOf<arith::AddFOp>(inner, isX).first : Value();
  Value cube = cubic ? besideNumber<arith::MulFOp>(cubic, 0.044715) : Value();
  Value square = cube ? operandsOf<arith::MulFOp>(cube, isX).first : Value();
  return square && operandsOf<arith::MulFOp>(square, isX).first == x;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static Value yielded(linalg::GenericOp op) {
  return op.getBody()->getTerminator()->getOperand(0);
}

/// Where the op's only result goes among the kernel's arguments.
static std::optional<unsigned>
destinationOf(linalg::GenericOp op, func::ReturnOp end, unsigned inputs) {
  for (auto [i, value] : llvm::enumerate(end.getOperands()))
    if (value == op.getResult(0))
      return inputs + static_cast<unsigned>(i);
  return std::nullopt;
}

/// `launches` have `inputs` inputs.
static std::optional<BiasKernel> matchKernel(func::FuncOp kernel,
                                             unsigned inputs) {
  if (kernel.isExternal() || !kernel.getBody().hasOneBlock())
    return std::nullopt;
  SmallVector<linalg::GenericOp> ops;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      ops.push_back(generic);
    else if (!isa<tensor::EmptyOp>(op) && !op.hasTrait<OpTrait::ConstantLike>())
      return std::nullopt;
  }
  if (ops.empty() || ops.size() > 2)
    return std::nullopt;
  for (linalg::GenericOp op : ops)
    if (op.getNumResults() != 1 || op.getNumParallelLoops() != op.getNumLoops())
      return std::nullopt;
  auto end = cast<func::ReturnOp>(kernel.getBody().front().getTerminator());

  // The sum of the product, read where it is written, and the bias.
  linalg::GenericOp sum = ops.front();
  if (sum.getNumDpsInputs() != 2)
    return std::nullopt;
  BiasKernel found{};
  unsigned loops = sum.getNumLoops();
  SmallVector<AffineMap> maps = sum.getIndexingMapsArray();
  Type element = getElementTypeOrSelf(sum.getResult(0));
  if (loops == 0 || !isa<Float32Type, BFloat16Type, Float16Type>(element) ||
      !maps[2].isIdentity())
    return std::nullopt;
  bool hasBoth = false;
  for (unsigned i : {0u, 1u}) {
    auto product = dyn_cast<BlockArgument>(sum.getInputs()[i]);
    auto bias = dyn_cast<BlockArgument>(sum.getInputs()[1 - i]);
    AffineMap last = AffineMap::get(
        loops, 0, {getAffineDimExpr(loops - 1, kernel.getContext())},
        kernel.getContext());
    if (product && bias && product != bias && maps[i].isIdentity() &&
        maps[1 - i] == last && product.getArgNumber() >= inputs &&
        bias.getArgNumber() < inputs &&
        getElementTypeOrSelf(product) == element &&
        getElementTypeOrSelf(bias) == element) {
      found.product = product.getArgNumber();
      found.bias = bias.getArgNumber();
      hasBoth = true;
      break;
    }
  }
  auto add = yielded(sum).getDefiningOp<arith::AddFOp>();
  Block *body = sum.getBody();
  auto isAdded = [&](unsigned a, unsigned b) {
    return add && add.getLhs() == body->getArgument(a) &&
           add.getRhs() == body->getArgument(b);
  };
  if (!hasBoth || !(isAdded(0, 1) || isAdded(1, 0)))
    return std::nullopt;
  std::optional<unsigned> sumTo = destinationOf(sum, end, inputs);
  if (ops.size() == 1)
    return end.getNumOperands() == 1 && sumTo == found.product
               ? std::optional(found)
               : std::nullopt;

  linalg::GenericOp gelu = ops.back();
  if (gelu.getNumDpsInputs() != 1 || gelu.getInputs()[0] != sum.getResult(0) ||
      llvm::any_of(gelu.getIndexingMapsArray(),
                   [](AffineMap map) { return !map.isIdentity(); }) ||
      getElementTypeOrSelf(gelu.getResult(0)) != element)
    return std::nullopt;
  Value x = gelu.getBody()->getArgument(0), value = yielded(gelu);
  if (!element.isF32()) {
    auto narrow = value.getDefiningOp<arith::TruncFOp>();
    if (!narrow || !narrow.getIn().getType().isF32())
      return std::nullopt;
    value = narrow.getIn();
    auto wide = llvm::find_if(x.getUsers(), [](Operation *user) {
      return isa<arith::ExtFOp>(user) && user->getResult(0).getType().isF32();
    });
    if (wide == x.getUsers().end())
      return std::nullopt;
    x = (*wide)->getResult(0);
  }
  if (!isTanhGelu(value, x))
    return std::nullopt;
  found.gelu = destinationOf(gelu, end, inputs);
  // Either gelu alone is kept, in the product's place, or the sum is there.
  bool keepsGelu = !sumTo && found.gelu == found.product;
  bool keepsBoth =
      sumTo == found.product && found.gelu && found.gelu != found.product;
  if (!found.gelu || end.getNumOperands() != (sumTo ? 2u : 1u) ||
      !(keepsGelu || keepsBoth))
    return std::nullopt;
  return found;
}

/// Whether what the library writes to while it reads A and B is no memory of
/// theirs: between the product and the launch theirs may have become free.
static bool isApart(LaunchOp launch, unsigned result, GemmOp product) {
  FailureOr<SmallVector<Access, 4>> written = accessesOf(launch);
  FailureOr<SmallVector<Access, 4>> read = accessesOf(product);
  return succeeded(written) && succeeded(read) &&
         llvm::none_of(*read, [&](const Access &operand) {
           return (*written)[result].touches(operand);
         });
}

/// Whether `launch` does with the product what `kernel` is.
static std::optional<Epilogue> match(GemmOp product, LaunchOp launch,
                                     const BiasKernel &kernel) {
  auto type = cast<MemRefType>(product.getC().getType());
  int64_t rows = product.getM(), columns = product.getN();
  if (!product.getBatch().empty() || product.getAccumulate() ||
      product.getCStrides()[0] != columns || !mprt::isContiguous(type) ||
      type.getNumElements() != rows * columns || type.getRank() == 0 ||
      type.getShape().back() != columns ||
      launch->getOperand(kernel.product) != product.getC())
    return std::nullopt;
  auto isDense = [&](unsigned operand) {
    return mprt::isContiguous(
        cast<MemRefType>(launch->getOperand(operand).getType()));
  };
  Epilogue epilogue;
  epilogue.bias = kernel.bias;
  epilogue.kind = MPRT_BIAS;
  if (kernel.gelu && *kernel.gelu == kernel.product)
    epilogue.kind = MPRT_BIAS_GELU;
  else if (kernel.gelu) {
    epilogue.kind = MPRT_BIAS_GELU_AUX;
    epilogue.result = *kernel.gelu;
    if (!isDense(*kernel.gelu) || !isApart(launch, *kernel.gelu, product))
      return std::nullopt;
  }
  return isDense(kernel.bias) ? std::optional(epilogue) : std::nullopt;
}

void FormEpiloguesPass::runOnOperation() {
  SymbolTable symbols(getOperation());
  llvm::StringMap<std::optional<BiasKernel>> kernels;
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function->hasAttr(mprt::kKernelAttr))
      continue;
    int64_t products = 0, formed = 0;
    function.walk([&](GemmOp product) {
      ++products;
      auto launch = dyn_cast_or_null<LaunchOp>(mprt::nextOnStream(product));
      if (!launch)
        return;
      auto [entry, isNew] = kernels.try_emplace(launch.getKernel());
      if (isNew)
        if (auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel()))
          entry->second = matchKernel(
              kernel, static_cast<unsigned>(launch.getInputs().size()));
      if (!entry->second)
        return;
      if (std::optional<Epilogue> epilogue =
              match(product, launch, *entry->second)) {
        epilogue->set(launch);
        ++formed;
      }
    });
    if (formed)
      remark::passed(function.getLoc(), remark::RemarkOpts::name("Epilogues")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
          << remark::metric("products", products)
          << remark::metric("epilogues", formed);
  }
}

} // namespace mpcomm
