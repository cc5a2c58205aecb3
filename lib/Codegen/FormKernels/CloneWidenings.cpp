//===- CloneWidenings.cpp - casts to f32 where they are read --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value that is stored in 16 bits is widened in registers by whoever reads
// it: it costs no pass over memory, where one widening for several kernels
// would be written out in f32 for all but one of them. A widening that stands
// far before its reader would join the kernel that makes its operand, and be
// kept in f32 until then: what a forward pass stores narrow would be stored
// wide.
//
//===----------------------------------------------------------------------===//

#include "FormKernels/CloneWidenings.h"
#include "FormKernels/SinkToUses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"

using namespace mlir;
using namespace mpcomm;
using linalg::LinalgOp;

/// A widening of the tensor `narrow`, all of it.
static linalg::GenericOp createWidening(OpBuilder &builder, Location loc,
                                        Value narrow, Type element) {
  auto type = cast<RankedTensorType>(narrow.getType());
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(), element);
  AffineMap map = builder.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> loops(type.getRank(),
                                         utils::IteratorType::parallel);
  return linalg::GenericOp::create(
      builder, loc, empty.getType(), narrow, empty,
      ArrayRef<AffineMap>{map, map}, loops,
      [&](OpBuilder &b, Location l, ValueRange arguments) {
        Value wide = arith::ExtFOp::create(b, l, element, arguments[0]);
        linalg::YieldOp::create(b, l, wide);
      });
}

/// The reshape `like` of `narrow`, before it: one that is there already, so
/// that a kernel that reads both reads one tensor.
static Operation *reshapeNarrow(OpBuilder &builder, Operation *like,
                                Value narrow) {
  auto type = cast<RankedTensorType>(like->getResult(0).getType())
                  .clone(getElementTypeOrSelf(narrow.getType()));
  for (Operation *user : narrow.getUsers())
    if (user->getName() == like->getName() &&
        user->getBlock() == like->getBlock() &&
        user->getResult(0).getType() == type &&
        user->getAttrDictionary() == like->getAttrDictionary()) {
      if (!user->isBeforeInBlock(like))
        user->moveBefore(like);
      return user;
    }
  Operation *reshape = builder.clone(*like);
  reshape->setOperand(0, narrow);
  reshape->getResult(0).setType(type);
  return reshape;
}

/// Lets reshapes of what `op` makes read what it reads, so that no reshape
/// stands between a widening and its reader. The new widenings go to
/// `widenings`.
static void widenAfterReshapes(linalg::GenericOp op,
                               SmallVectorImpl<linalg::GenericOp> &widenings) {
  bool isPlain = llvm::all_of(op.getIndexingMapsArray(),
                              [](AffineMap map) { return map.isIdentity(); });
  if (!isPlain)
    return;
  Value narrow = op.getDpsInputs().front();
  Type element = getElementTypeOrSelf(op.getResult(0));
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    if (!isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(user) ||
        user->getBlock() != op->getBlock())
      continue;
    OpBuilder builder(user);
    Operation *reshape = reshapeNarrow(builder, user, narrow);
    linalg::GenericOp own =
        createWidening(builder, op.getLoc(), reshape->getResult(0), element);
    user->getResult(0).replaceAllUsesWith(own->getResult(0));
    user->erase();
    widenings.push_back(own);
  }
}

/// Gives `users` a copy of `op` of their own, before the first of them.
static void giveOwn(linalg::GenericOp op, ArrayRef<Operation *> users) {
  OpBuilder builder(users.front());
  Operation *own = builder.clone(*op);
  op->getResult(0).replaceUsesWithIf(own->getResult(0), [&](OpOperand &use) {
    return llvm::is_contained(users, use.getOwner());
  });
}

/// Products that read what was 8 bits share one widening as long as no other
/// product stands between them: in 16 bits the tensor would live from a forward
/// pass to its backward pass at twice its size.
static void cloneForProducts(linalg::GenericOp op) {
  llvm::DenseSet<Operation *> users;
  for (Operation *user : op->getUsers())
    if (user->getBlock() == op->getBlock() && isLibraryCall(user))
      users.insert(user);
  SmallVector<SmallVector<Operation *>> runs;
  bool isRun = false;
  for (Operation *at = op; at && !users.empty(); at = at->getNextNode()) {
    if (!isLibraryCall(at))
      continue;
    bool reads = users.erase(at);
    if (reads && !isRun)
      runs.emplace_back();
    if (reads)
      runs.back().push_back(at);
    isRun = reads;
  }
  for (ArrayRef<Operation *> run : llvm::drop_begin(runs, runs.empty() ? 0 : 1))
    giveOwn(op, run);
}

void mpcomm::cloneWidenings(Block &block) {
  SmallVector<linalg::GenericOp> widenings;
  for (auto op : block.getOps<linalg::GenericOp>())
    if (isWidening(op))
      widenings.push_back(op);
  // Grows: of a reshape of a reshape too.
  for (size_t i = 0; i < widenings.size(); ++i)
    widenAfterReshapes(widenings[i], widenings);
  // From the last on: one may read another.
  for (linalg::GenericOp op : llvm::reverse(widenings)) {
    if (op->use_empty()) {
      op.erase();
      continue;
    }
    llvm::SmallSetVector<Operation *, 4> readers;
    for (Operation *user : op->getUsers())
      if (user->getBlock() == &block && isa<LinalgOp>(user) &&
          !isa<linalg::ContractionOpInterface>(user))
        readers.insert(user);
    // One reader may have the original if nobody else does.
    bool hasOthers = llvm::any_of(op->getUsers(), [&](Operation *user) {
      return !readers.contains(user);
    });
    for (Operation *reader :
         readers.getArrayRef().drop_front(hasOthers || readers.empty() ? 0 : 1))
      giveOwn(op, reader);
    if (isWideningOf8Bits(op))
      cloneForProducts(op);
  }
  sinkToUses(block, [](Operation *op) { return isView(op) || isWidening(op); });
}
