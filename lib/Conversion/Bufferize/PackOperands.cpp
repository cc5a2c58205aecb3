//===- PackOperands.cpp - operands that may not be views ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackOperands.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mpcomm/Conversion/GenerateKernels/GenerateKernels.h"
#include "mpcomm/Conversion/MPCommToLinalg/MPCommToLinalg.h"

using namespace mlir;
using namespace mpcomm;

/// Whether the elements of a row are apart; a vector may have any step.
static bool hasSpacedRows(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (type.getRank() < 2 || failed(type.getStridesAndOffset(strides, offset)))
    return false;
  // A dimension of one element has no neighbours.
  for (int64_t d = type.getRank() - 1; d >= 0; --d)
    if (type.getDimSize(d) != 1)
      return strides[d] != 1;
  return false;
}

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
  return !kernel || kernel.isExternal() || kernel->hasAttr(kScatterAddAttr) ||
         canGenerateKernel(kernel, launch);
}

void mpcomm::packOperands(Block &block, RewriterBase &rewriter) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto launch = dyn_cast<mprt::LaunchOp>(op);
    if (!(launch || isa<linalg::ContractOp>(op)) ||
        llvm::none_of(op.getOpOperands(), isView) ||
        (launch && hasCode(launch)))
      continue;
    auto dps = cast<DestinationStyleOpInterface>(op);
    bool overwrites = op.hasAttr(mprt::kOverwriteAttr);
    for (OpOperand &operand : op.getOpOperands())
      if (isView(operand) &&
          (launch || hasSpacedRows(cast<MemRefType>(operand.get().getType()))))
        pack(dps, operand, !(overwrites && dps.isDpsInit(&operand)), rewriter);
  }
}
