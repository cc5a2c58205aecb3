//===- ForwardCopies.cpp - results where they are copied to ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Memory/ForwardCopies.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;

bool mpcomm::isSameView(Value a, Value b) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  return left && right && isa<ViewLikeOpInterface>(left) &&
         OperationEquivalence::isEquivalentTo(
             left, right,
             [](Value l, Value r) { return success(isSameView(l, r)); },
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

/// Whether a subview is a box of known place.
static bool isBox(memref::SubViewOp view) {
  return view.getOffsets().empty() && view.getSizes().empty() &&
         view.getStrides().empty() &&
         llvm::all_of(view.getStaticStrides(),
                      [](int64_t stride) { return stride == 1; });
}

/// Whether two boxes of one buffer have no element in common.
static bool areApart(memref::SubViewOp a, memref::SubViewOp b) {
  if (!isBox(a) || !isBox(b))
    return false;
  for (auto [from, size, otherFrom, otherSize] :
       llvm::zip_equal(a.getStaticOffsets(), a.getStaticSizes(),
                       b.getStaticOffsets(), b.getStaticSizes()))
    if (from + size <= otherFrom || otherFrom + otherSize <= from)
      return true;
  return false;
}

/// Whether `user`, or who uses the view of a buffer that it is, is in the
/// block from `first` on and before `last`.
static bool isUsedBetween(Operation *user, Operation *first, Operation *last) {
  if (isa<ViewLikeOpInterface>(user))
    return llvm::any_of(user->getUsers(), [&](Operation *other) {
      return isUsedBetween(other, first, last);
    });
  Operation *at = first->getBlock()->findAncestorOpInBlock(*user);
  return !at || (!at->isBeforeInBlock(first) && at->isBeforeInBlock(last));
}

/// The op that writes `buffer`, if its only other user is `copy`.
static mprt::AttentionOp getWriter(Value buffer, memref::CopyOp copy) {
  mprt::AttentionOp writer;
  for (OpOperand &use : buffer.getUses()) {
    if (use.getOwner() == copy)
      continue;
    auto op = dyn_cast<mprt::AttentionOp>(use.getOwner());
    if (!op || writer || op->getBlock() != copy->getBlock() ||
        !op->isBeforeInBlock(copy) || !op.isDpsInit(&use))
      return nullptr;
    writer = op;
  }
  return writer;
}

static void forward(memref::CopyOp copy, RewriterBase &rewriter) {
  auto source = copy.getSource().getDefiningOp<memref::AllocOp>();
  auto part = copy.getTarget().getDefiningOp<memref::SubViewOp>();
  if (!source || !part || !isBox(part))
    return;
  auto whole = part.getSource().getDefiningOp<memref::AllocOp>();
  mprt::AttentionOp writer = getWriter(source, copy);
  if (!writer || !whole || whole->getBlock() != copy->getBlock())
    return;
  // What happens between has to keep off the part.
  for (Operation *user : whole->getUsers()) {
    auto view = dyn_cast<memref::SubViewOp>(user);
    if (!(view && areApart(view, part)) && isUsedBetween(user, writer, copy))
      return;
  }
  if (writer->isBeforeInBlock(whole))
    rewriter.moveOpBefore(whole, writer);
  rewriter.setInsertionPoint(writer);
  Value target = rewriter.clone(*part)->getResult(0);
  rewriter.replaceAllUsesExcept(source, target, copy);
  rewriter.eraseOp(copy);
  rewriter.eraseOp(source);
}

/// Whether something before `copy` uses `buffer`, but for boxes of it that are
/// apart from the views in `chain`, from the outermost on.
static bool isUsedBefore(Value buffer, ArrayRef<memref::SubViewOp> chain,
                         memref::CopyOp copy) {
  return llvm::any_of(buffer.getUsers(), [&](Operation *user) {
    if (isa<ViewLikeOpInterface>(user)) {
      auto box = dyn_cast<memref::SubViewOp>(user);
      memref::SubViewOp mine = chain.empty() ? nullptr : chain.front();
      if (box && mine && areApart(box, mine))
        return false;
      bool isMine = mine && isSameView(user->getResult(0), mine.getResult());
      return isUsedBefore(
          user->getResult(0),
          isMine ? chain.drop_front() : ArrayRef<memref::SubViewOp>(), copy);
    }
    Operation *at = copy->getBlock()->findAncestorOpInBlock(*user);
    return !at || at->isBeforeInBlock(copy);
  });
}

/// Whether nothing has written what `copy` reads: bufferization makes such
/// copies where the place of a result is a part of a new buffer.
static bool isUndefined(memref::CopyOp copy) {
  SmallVector<memref::SubViewOp> chain;
  Value source = copy.getSource();
  while (auto view = source.getDefiningOp<memref::SubViewOp>()) {
    chain.push_back(view);
    source = view.getSource();
  }
  std::reverse(chain.begin(), chain.end());
  auto alloc = source.getDefiningOp<memref::AllocOp>();
  return alloc && alloc->getBlock() == copy->getBlock() &&
         !isUsedBefore(alloc, chain, copy);
}

void mpcomm::forwardCopies(Block &block, RewriterBase &rewriter) {
  for (auto copy : llvm::make_early_inc_range(block.getOps<memref::CopyOp>())) {
    if (isSameView(copy.getSource(), copy.getTarget()) || isUndefined(copy))
      rewriter.eraseOp(copy);
    else
      forward(copy, rewriter);
  }
}
