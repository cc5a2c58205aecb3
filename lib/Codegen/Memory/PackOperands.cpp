//===- PackOperands.cpp - operands that may not be views ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory/PackOperands.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"
#include "mpcomm/Analysis/Contraction/StridedProduct.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Dialect/MPComm/Utils/F8Products.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace mpcomm;

/// Gives `operand` a contiguous buffer; `isRead`: with what the view holds.
static void pack(DestinationStyleOpInterface op, OpOperand &operand,
                 bool isRead, RewriterBase &rewriter) {
  Value view = operand.get();
  auto type = cast<MemRefType>(view.getType());
  rewriter.setInsertionPoint(op);
  Value packed = memref::AllocOp::create(
      rewriter, op.getLoc(),
      MemRefType::get(type.getShape(), type.getElementType()));
  if (isRead)
    memref::CopyOp::create(rewriter, op.getLoc(), view, packed);
  operand.set(packed);
  if (!op.isDpsInit(&operand))
    return;
  rewriter.setInsertionPointAfter(op);
  memref::CopyOp::create(rewriter, op.getLoc(), packed, view);
}

static bool isView(OpOperand &operand) {
  auto type = dyn_cast<MemRefType>(operand.get().getType());
  return type && !type.getLayout().isIdentity();
}

/// Whether code can be generated for a launch's kernel on these buffers;
/// unknown kernels are left to who looks for them.
static bool hasCode(mprt::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  return !kernel || kernel.isExternal() || canGenerateKernel(kernel, launch);
}

/// Bytes that packing `operand` copies.
static int64_t getPackingCost(OpOperand &operand, bool isInit,
                              bool overwrites) {
  auto type = cast<MemRefType>(operand.get().getType());
  // Others than numbers have no product: an error later on.
  Type element = type.getElementType();
  int64_t width = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 1;
  int64_t bits = type.getNumElements() * width;
  return llvm::divideCeil(bits, 8) * (isInit && !overwrites ? 2 : 1);
}

/// A call of a matrix product takes about as long as copying this.
static constexpr int64_t kBytesOfACall = 1 << 16;

/// Whether products of 8 bits on buffers of `types` are some that tensor cores
/// can do.
static bool fitsTensorCores(ArrayRef<ContractionDim> dims,
                            ArrayRef<Type> types) {
  SmallVector<StridedGemm, 0> products;
  std::string reason;
  if (!planContraction(dims, /*accumulate=*/false, products, reason))
    return false;
  int64_t bytes[3] = {1, 1,
                      cast<MemRefType>(types[2]).getElementTypeBitWidth() / 8};
  for (auto [type, size] : llvm::zip_equal(types, bytes)) {
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(cast<MemRefType>(type).getStridesAndOffset(strides, offset)) ||
        offset * size % 16 != 0)
      return false;
  }
  return llvm::all_of(products, [&](const StridedGemm &product) {
    return fitsTensorCoresOfF8(product, bytes[2]) &&
           product.offsetA % 16 == 0 && product.offsetB % 16 == 0 &&
           product.offsetC * bytes[2] % 16 == 0;
  });
}

/// The views among a contraction's operands that are packed, as a set of bits:
/// those with which its products take the least time. Products that add up in
/// less than 32 bits each round: there the fewest are best.
static unsigned choosePacked(linalg::ContractOp op) {
  unsigned views = 0, best = 0;
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::pair<int64_t, int64_t> bestCost{kNone, kNone};
  auto result = dyn_cast<FloatType>(
      getElementTypeOrSelf(op.getDpsInits().front().getType()));
  bool rounds = result && result.getWidth() < 32;
  bool isForTensorCores = multipliesF8(op) &&
                          isF8OfTensorCores(op.getInputs()[0].getType()) &&
                          isF8OfTensorCores(op.getInputs()[1].getType());
  for (OpOperand &operand : op->getOpOperands())
    views |= isView(operand) << operand.getOperandNumber();
  for (unsigned packed = 0; packed <= views; ++packed) {
    if (packed & ~views)
      continue;
    SmallVector<Type> types(op->getOperandTypes());
    int64_t bytes = 0;
    for (OpOperand &operand : op->getOpOperands())
      if (packed >> operand.getOperandNumber() & 1) {
        Type &type = types[operand.getOperandNumber()];
        auto view = cast<MemRefType>(type);
        type = MemRefType::get(view.getShape(), view.getElementType());
        bytes += getPackingCost(operand, op.isDpsInit(&operand),
                                op->hasAttr(mprt::kOverwriteAttr));
      }
    SmallVector<ContractionDim> dims;
    std::string reason;
    if (failed(getContractionDims(op, types, dims, reason)))
      continue;
    std::optional<int64_t> products = countProducts(dims);
    if (!products)
      continue;
    if (isForTensorCores && *products > 0 && !fitsTensorCores(dims, types))
      continue;
    std::pair cost{rounds ? *products : 0, bytes + *products * kBytesOfACall};
    if (cost < bestCost) {
      best = packed;
      bestCost = cost;
    }
  }
  return best;
}

void mpcomm::packOperands(Block &block, RewriterBase &rewriter) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto launch = dyn_cast<mprt::LaunchOp>(op);
    auto contract = dyn_cast<linalg::ContractOp>(op);
    // A copy of bytes: they lie in one piece.
    if (auto slice = dyn_cast<mprt::AllSliceOp>(op)) {
      for (OpOperand &operand : op.getOpOperands())
        if (!mprt::isContiguous(cast<MemRefType>(operand.get().getType())))
          pack(slice, operand, /*isRead=*/!slice.isDpsInit(&operand), rewriter);
      continue;
    }
    if (!(launch || contract) || llvm::none_of(op.getOpOperands(), isView) ||
        (launch && hasCode(launch)))
      continue;
    unsigned packed = contract ? choosePacked(contract) : 0;
    auto dps = cast<DestinationStyleOpInterface>(op);
    bool overwrites = op.hasAttr(mprt::kOverwriteAttr);
    for (OpOperand &operand : op.getOpOperands())
      if (isView(operand) &&
          (launch || packed >> operand.getOperandNumber() & 1))
        pack(dps, operand, !(overwrites && dps.isDpsInit(&operand)), rewriter);
  }
}
