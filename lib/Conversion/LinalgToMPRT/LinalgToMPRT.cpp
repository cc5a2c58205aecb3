//===- LinalgToMPRT.cpp - contractions and copies to runtime calls --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On buffers: linalg.contract to mprt.gemm, fills and copies to mprt.zero,
// mprt.copy, or a kernel where the buffers are strided.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Matchers.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Conversion/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_CONVERTLINALGTOMPRTPASS
#include "mpcomm/Conversion/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "convert-linalg-to-mprt"

using namespace mlir;
using namespace mpcomm;

namespace {

class Lowering {
public:
  Lowering(ModuleOp module, int64_t copyKernelBytes)
      : module(module), symbols(module), rewriter(module.getContext()),
        copyKernelBytes(copyKernelBytes) {}
  LogicalResult run();

private:
  LogicalResult lowerContraction(linalg::LinalgOp op);
  LogicalResult lowerFill(linalg::FillOp op);
  LogicalResult lowerCopy(Operation *op, Value source, Value target);
  func::FuncOp elementwiseKernel(StringRef base, ArrayRef<Type> inputs,
                                 MemRefType target, Attribute fill);

  ModuleOp module;
  SymbolTable symbols;
  IRRewriter rewriter;
  int64_t copyKernelBytes;
  llvm::DenseMap<Attribute, func::FuncOp> kernels;
};

} // namespace

/// The rest of `buffer` from `offset` elements after its first on, as a list.
static Value offsetBuffer(OpBuilder &builder, Location loc, Value buffer,
                          int64_t offset) {
  if (offset == 0)
    return buffer;
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> strides;
  int64_t base;
  (void)type.getStridesAndOffset(strides, base);
  int64_t rest = mprt::spanOf(type).value_or(offset + 1) - offset;
  auto moved = MemRefType::get(
      {rest}, type.getElementType(),
      StridedLayoutAttr::get(builder.getContext(), base + offset, {1}));
  return memref::ReinterpretCastOp::create(
      builder, loc, moved, buffer, base + offset, ArrayRef<int64_t>{rest},
      ArrayRef<int64_t>{1});
}

LogicalResult Lowering::lowerContraction(linalg::LinalgOp op) {
  // By what it computes, too, not by its indices alone.
  if (!isa<linalg::ContractOp>(op) && !linalg::isaContractionOpInterface(op))
    return op->emitOpError("is no contraction: it should be in a kernel");
  SmallVector<Value, 3> operands(op->getOperands());
  if (llvm::is_contained(op.getStaticLoopRanges(),
                         0)) { // an empty sum, or nothing at all
    auto target = cast<MemRefType>(operands[2].getType());
    rewriter.setInsertionPoint(op);
    if (op->hasAttr(mprt::kOverwriteAttr) && target.getNumElements() > 0)
      mprt::ZeroOp::create(rewriter, op->getLoc(), operands[2]);
    rewriter.eraseOp(op);
    return success();
  }
  for (Value operand : operands)
    if (Type element = getElementTypeOrSelf(operand); !element.isIntOrFloat())
      return op->emitOpError() << "has elements of type " << element
                               << ", expected floats or integers";
  SmallVector<ContractionDim> dims;
  std::string reason;
  if (failed(getContractionDims(op, SmallVector<Type>(op->getOperandTypes()),
                                dims, reason)))
    return op->emitOpError(reason);
  bool accumulate = !op->hasAttr(mprt::kOverwriteAttr);
  SmallVector<StridedGemm, 0> products;
  if (!planContraction(dims, accumulate, products, reason))
    return op->emitOpError() << "cannot be a matrix product: " << reason;
  // Products that add up in C each round what they leave there.
  Type element = getElementTypeOrSelf(operands[2].getType());
  auto numSummed = llvm::count_if(products, [&](const StridedGemm &p) {
    return p.offsetC == products.front().offsetC;
  });
  if (numSummed > 1 && element.getIntOrFloatBitWidth() < 32)
    return op->emitOpError()
           << "would round its sum to " << element << " in each of "
           << numSummed << " matrix products: expects operands, or copies of "
           << "them, that one product can read";
  rewriter.setInsertionPoint(op);
  for (const StridedGemm &p : products) {
    auto list = [&](int64_t ContractionDim::*field) {
      return llvm::map_to_vector(
          p.batch, [&](const ContractionDim &d) { return d.*field; });
    };
    Value a = operands[p.swapped ? 1 : 0], b = operands[p.swapped ? 0 : 1];
    a = offsetBuffer(rewriter, op->getLoc(), a, p.offsetA);
    b = offsetBuffer(rewriter, op->getLoc(), b, p.offsetB);
    Value c = offsetBuffer(rewriter, op->getLoc(), operands[2], p.offsetC);
    mprt::GemmOp::create(
        rewriter, op->getLoc(), a, b, c, p.m.size, p.n.size, p.k.size,
        ArrayRef<int64_t>{p.m.a, p.k.a}, ArrayRef<int64_t>{p.k.b, p.n.b},
        ArrayRef<int64_t>{p.m.c, p.n.c}, list(&ContractionDim::size),
        list(&ContractionDim::a), list(&ContractionDim::b),
        list(&ContractionDim::c), p.accumulate);
  }
  rewriter.eraseOp(op);
  return success();
}

/// A kernel, in the form that mpcomm-generate-kernels takes, that copies its
/// input to its output or, with `fill`, writes a constant.
func::FuncOp Lowering::elementwiseKernel(StringRef base, ArrayRef<Type> inputs,
                                         MemRefType target, Attribute fill) {
  auto tensorType =
      RankedTensorType::get(target.getShape(), target.getElementType());
  Attribute key = rewriter.getArrayAttr({rewriter.getStringAttr(base),
                                         TypeAttr::get(tensorType),
                                         fill ? fill : rewriter.getUnitAttr()});
  func::FuncOp &kernel = kernels[key];
  if (kernel)
    return kernel;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types(inputs.size() + 1, tensorType);
  Location loc = module.getLoc();
  kernel = func::FuncOp::create(rewriter, loc, base,
                                rewriter.getFunctionType(types, tensorType));
  kernel.setPrivate();
  kernel->setAttr(mprt::kKernelAttr, rewriter.getUnitAttr());
  symbols.insert(kernel);
  Block *body = kernel.addEntryBlock();
  rewriter.setInsertionPointToStart(body);
  AffineMap identity = rewriter.getMultiDimIdentityMap(tensorType.getRank());
  SmallVector<AffineMap> maps(types.size(), identity);
  SmallVector<utils::IteratorType> iterators(tensorType.getRank(),
                                             utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      rewriter, loc, tensorType, body->getArguments().drop_back(),
      body->getArguments().take_back(), maps, iterators,
      [&](OpBuilder &b, Location l, ValueRange args) {
        Value value = args.front();
        if (fill)
          value = arith::ConstantOp::create(b, l, cast<TypedAttr>(fill));
        linalg::YieldOp::create(b, l, value);
      });
  func::ReturnOp::create(rewriter, loc, generic.getResults());
  return kernel;
}

LogicalResult Lowering::lowerFill(linalg::FillOp op) {
  Value target = op.getDpsInits()[0];
  auto type = cast<MemRefType>(target.getType());
  Attribute value;
  if (!matchPattern(op.getInputs()[0], m_Constant(&value)))
    return op.emitOpError("expects a constant");
  rewriter.setInsertionPoint(op);
  bool zero = matchPattern(op.getInputs()[0], m_PosZeroFloat()) ||
              matchPattern(op.getInputs()[0], m_Zero());
  if (zero && mprt::isContiguous(type)) {
    rewriter.replaceOpWithNewOp<mprt::ZeroOp>(op, target);
    return success();
  }
  func::FuncOp kernel = elementwiseKernel("fill", {}, type, value);
  rewriter.replaceOpWithNewOp<mprt::LaunchOp>(
      op, TypeRange(), FlatSymbolRefAttr::get(kernel.getSymNameAttr()),
      ValueRange(), ValueRange(target));
  return success();
}

LogicalResult Lowering::lowerCopy(Operation *op, Value source, Value target) {
  auto from = dyn_cast<MemRefType>(source.getType());
  auto to = dyn_cast<MemRefType>(target.getType());
  if (!from || !to || !from.hasStaticShape() ||
      from.getShape() != to.getShape())
    return op->emitOpError("expects buffers of one static shape");
  rewriter.setInsertionPoint(op);
  if (source == target || from.getNumElements() == 0) {
    rewriter.eraseOp(op);
    return success();
  }
  bool isFew = isElementOfKernels(from.getElementType()) &&
               mpcomm::detail::countBytes(from) <= copyKernelBytes;
  if (!isFew && mprt::isContiguous(from) && mprt::isContiguous(to)) {
    rewriter.replaceOpWithNewOp<mprt::CopyOp>(op, source, target);
    return success();
  }
  func::FuncOp kernel = elementwiseKernel("copy", {from}, to, {});
  rewriter.replaceOpWithNewOp<mprt::LaunchOp>(
      op, TypeRange(), FlatSymbolRefAttr::get(kernel.getSymNameAttr()), source,
      target);
  return success();
}

LogicalResult Lowering::run() {
  SmallVector<Operation *> ops;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(mprt::kKernelAttr))
      continue;
    function.walk([&](Operation *op) {
      if (isa<linalg::LinalgOp, memref::CopyOp>(op))
        ops.push_back(op);
    });
  }
  for (Operation *op : ops) {
    LogicalResult lowered = success();
    if (auto fill = dyn_cast<linalg::FillOp>(op))
      lowered = lowerFill(fill);
    else if (auto copy = dyn_cast<memref::CopyOp>(op))
      lowered = lowerCopy(op, copy.getSource(), copy.getTarget());
    else if (auto copy = dyn_cast<linalg::CopyOp>(op))
      lowered = lowerCopy(op, copy.getInputs()[0], copy.getOutputs()[0]);
    else
      lowered = lowerContraction(cast<linalg::LinalgOp>(op));
    if (failed(lowered))
      return failure();
  }
  return success();
}

namespace {

struct ConvertLinalgToMPRT
    : public mpcomm::impl::ConvertLinalgToMPRTPassBase<ConvertLinalgToMPRT> {
  using ConvertLinalgToMPRTPassBase::ConvertLinalgToMPRTPassBase;

  void runOnOperation() override {
    if (failed(Lowering(getOperation(), copyKernelBytes).run()))
      signalPassFailure();
  }
};

} // namespace
