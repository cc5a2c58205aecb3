//===- FormKernels.cpp - linalg ops in kernels ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Grouping.h for what runs in one kernel, Outline.h for what becomes of it.
//
//===----------------------------------------------------------------------===//

#include "FormKernels/CloneWidenings.h"
#include "FormKernels/Grouping.h"
#include "FormKernels/KernelLibrary.h"
#include "FormKernels/KernelName.h"
#include "FormKernels/Outline.h"
#include "FormKernels/SinkToUses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-form-kernels"

using namespace mlir;
using namespace mpcomm;

namespace {

/// What became of one function.
struct Counts {
  unsigned ops = 0, launches = 0;
  int64_t bytesBefore = 0, bytesAfter = 0;
};

/// How a group becomes a kernel: with results where operands are; with results
/// in tensors of their own, where the kernel's code cannot be generated
/// otherwise; or so, and what cannot be generated is reported by who does it.
enum class Attempt { Reuse, Fresh, Last };

/// Replaces the groups of one block by launches.
class BlockRewriter {
public:
  BlockRewriter(Block &block, KernelLibrary &library, Counts &counts,
                unsigned maxOperands, bool reuseOperands)
      : block(block), library(library), counts(counts),
        grouping(block, maxOperands), donations(block),
        reuseOperands(reuseOperands) {}

  LogicalResult run();

private:
  LogicalResult rewrite(KernelGroup &group);
  LogicalResult rewriteScatter(KernelGroup &group);
  FailureOr<bool> rewriteGroup(KernelGroup &group, Operation *slot,
                               Attempt attempt);
  LogicalResult rewriteMembers(KernelGroup &group, Operation *slot);
  void launch(KernelGroup &group, Operation *slot, func::FuncOp kernel,
              ArrayRef<Value> inputs, ArrayRef<Destination> destinations);

  Block &block;
  KernelLibrary &library;
  Counts &counts;
  Grouping grouping;
  Donations donations;
  bool reuseOperands;
};

struct FormKernels : public mpcomm::impl::FormKernelsPassBase<FormKernels> {
  using FormKernelsPassBase::FormKernelsPassBase;
  void runOnOperation() override;
};

} // namespace

/// Where the ops of the group come from, all of it.
static Location fuseLocations(const KernelGroup &group) {
  SmallVector<Location> locations;
  for (const KernelMember &member : group.members)
    locations.push_back(member.op->getLoc());
  return FusedLoc::get(locations.front().getContext(), locations);
}

/// Launches the kernel of a group before `slot`.
void BlockRewriter::launch(KernelGroup &group, Operation *slot,
                           func::FuncOp kernel, ArrayRef<Value> inputs,
                           ArrayRef<Destination> destinations) {
  Location loc = fuseLocations(group);
  OpBuilder builder(slot);
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  for (const Destination &destination : destinations) {
    auto type = cast<RankedTensorType>(destination.result.getType());
    types.push_back(type);
    Value output = destination.tensor;
    if (!output)
      output = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                       type.getElementType());
    outputs.push_back(output);
  }
  auto op = mprt::LaunchOp::create(
      builder, loc, types, FlatSymbolRefAttr::get(kernel), inputs, outputs);
  for (auto [destination, result] :
       llvm::zip_equal(destinations, op.getResults())) {
    if (BlockArgument donor = donations.ofResult.lookup(destination.result))
      donations.ofResult[result] = donor;
    Value(destination.result).replaceUsesWithIf(result, [&](OpOperand &use) {
      return grouping.lookup(use.getOwner()) != &group;
    });
  }
}

LogicalResult BlockRewriter::rewriteScatter(KernelGroup &group) {
  Operation *loop = group.members.front().op;
  Value donor = donations.ofResult.lookup(loop->getResult(0));
  if (donor && grouping.getLastUse(nullptr, donor) >= group.slot)
    donor = nullptr;
  SmallVector<Value> inputs;
  SmallVector<Destination> destinations{{loop->getOpResult(0), donor}};
  FailureOr<func::FuncOp> kernel = outlineScatter(loop, inputs);
  if (failed(kernel))
    return failure();
  counts.bytesBefore += mpcomm::detail::countBytes(loop->getResultTypes());
  counts.bytesAfter += mpcomm::detail::countBytes(loop->getResultTypes());
  ++counts.launches;
  launch(group, loop, library.add(*kernel, "scatter_add"), inputs,
         destinations);
  return success();
}

/// Launches a kernel for the group before `slot`, unless its code cannot be
/// generated: then false.
FailureOr<bool> BlockRewriter::rewriteGroup(KernelGroup &group, Operation *slot,
                                            Attempt attempt) {
  KernelOperands operands = getOperands(group, [&](OpResult result) {
    return grouping.isUsedOutside(&group, result);
  });
  // What a result starts from stays its destination in any case.
  bool reuses = attempt == Attempt::Reuse;
  SmallVector<Destination> destinations = chooseDestinations(
      grouping, group, operands, reuses ? donations : Donations(),
      reuses && reuseOperands);
  llvm::DenseSet<Value> updated;
  for (const Destination &destination : destinations)
    if (destination.tensor && !destination.isInput)
      updated.insert(destination.tensor);
  SmallVector<Value> inputs;
  for (Value input : operands.inputs)
    if (!updated.contains(input))
      inputs.push_back(input);
  FailureOr<func::FuncOp> kernel = outlineGroup(group, inputs, destinations);
  if (failed(kernel))
    return failure();
  if (attempt != Attempt::Last && !canGenerateKernel(*kernel)) {
    kernel->erase();
    return false;
  }
  counts.bytesAfter += operands.countBytes();
  ++counts.launches;
  launch(group, slot, library.add(*kernel, nameGroup(group)), inputs,
         destinations);
  return true;
}

/// Each member as a kernel of its own, at the place of the group.
LogicalResult BlockRewriter::rewriteMembers(KernelGroup &group,
                                            Operation *slot) {
  for (const KernelMember &member : group.members) {
    auto op = cast<linalg::LinalgOp>(member.op);
    KernelGroup alone;
    alone.space = op.getStaticLoopRanges();
    alone.slot = group.slot;
    alone.members.push_back(
        {op, member.position,
         llvm::to_vector(llvm::seq<int64_t>(0, alone.space.size()))});
    if (failed(rewriteGroup(alone, slot, Attempt::Last)))
      return failure();
  }
  return success();
}

LogicalResult BlockRewriter::rewrite(KernelGroup &group) {
  counts.ops += group.members.size();
  if (group.isScatter)
    return rewriteScatter(group);
  for (const KernelMember &member : group.members) {
    KernelGroup alone{{member}, group.space, 0};
    counts.bytesBefore +=
        getOperands(alone, [](OpResult) { return true; }).countBytes();
  }
  const KernelMember *last =
      llvm::find_if(group.members, [&](const KernelMember &m) {
        return m.position == group.slot;
      });
  for (Attempt attempt : {Attempt::Reuse, Attempt::Fresh}) {
    FailureOr<bool> isDone = rewriteGroup(group, last->op, attempt);
    if (failed(isDone) || *isDone)
      return isDone;
  }
  return rewriteMembers(group, last->op);
}

LogicalResult BlockRewriter::run() {
  if (failed(grouping.run()))
    return failure();
  SmallVector<Operation *> dead;
  for (KernelGroup *group : grouping.getGroups()) {
    if (failed(rewrite(*group)))
      return failure();
    for (const KernelMember &member : llvm::reverse(group->members))
      dead.push_back(member.op);
  }
  for (Operation *op : dead)
    op->dropAllReferences();
  for (Operation *op : dead)
    op->erase();
  // Fills and allocations that kernels took along.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  // A launch may be before a view that it reads, or after one that reads
  // it.
  sinkToUses(block, isView);
  return success();
}

void FormKernels::runOnOperation() {
  ModuleOp module = getOperation();
  KernelLibrary library(module);
  remark::RemarkOpts opts =
      remark::RemarkOpts::name("Kernels").category(DEBUG_TYPE);
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (function.isExternal() || function->hasAttr(mprt::kKernelAttr))
      continue;
    Counts counts;
    llvm::SetVector<Block *> blocks;
    function.walk([&](Operation *op) {
      bool isCandidate =
          isa<linalg::LinalgOp>(op) || op->hasAttr(kScatterAddAttr);
      for (Operation *parent = op->getParentOp(); isCandidate && parent;
           parent = parent->getParentOp())
        isCandidate = !parent->hasAttr(kScatterAddAttr);
      if (isCandidate)
        blocks.insert(op->getBlock());
    });
    for (Block *block : blocks) {
      cloneWidenings(*block);
      if (failed(
              BlockRewriter(*block, library, counts, maxOperands, reuseOperands)
                  .run()))
        return signalPassFailure();
    }
    remark::analysis(function.getLoc(), opts.function(function.getName()))
        << remark::metric("Function", function.getName())
        << remark::metric("Ops", counts.ops)
        << remark::metric("Launches", counts.launches)
        << remark::metric("BytesSaved", counts.bytesBefore - counts.bytesAfter);
  }
  remark::analysis(module.getLoc(), opts)
      << remark::metric("Kernels", library.size());
}
