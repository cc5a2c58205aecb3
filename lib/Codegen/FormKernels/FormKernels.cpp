//===- FormKernels.cpp - linalg ops in kernels ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See KernelGroups.h for what runs in one kernel, Outline.h for what becomes of
// it.
//
//===----------------------------------------------------------------------===//

#include "FormKernels/CloneWidenings.h"
#include "FormKernels/HoistScalars.h"
#include "FormKernels/KernelLibrary.h"
#include "FormKernels/KernelName.h"
#include "FormKernels/Outline.h"
#include "FormKernels/SinkToUses.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"
#include "mpcomm/Analysis/KernelGroups/Destinations.h"
#include "mpcomm/Codegen/Kernels.h"
#include "mpcomm/Codegen/Passes.h"

namespace mpcomm {
#define GEN_PASS_DEF_FORMKERNELSPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-form-kernels"

using namespace mlir;
using namespace mpcomm;

/// Finds the donated results of a function with the block as its body.
static Donations findDonations(Block &block, const BlockNests &nests) {
  Donations donations;
  auto function = dyn_cast<FunctionOpInterface>(block.getParentOp());
  if (!function || !block.isEntryBlock())
    return donations;
  Operation *terminator = block.getTerminator();
  if (!terminator->hasTrait<OpTrait::ReturnLike>())
    return donations;
  for (BlockArgument argument : block.getArguments()) {
    auto result = function.getArgAttrOfType<IntegerAttr>(
        argument.getArgNumber(), kDonatedAttr);
    if (!result || !result.getValue().isSignedIntN(32))
      continue;
    int64_t number = result.getInt();
    if (number >= 0 && number < terminator->getNumOperands() &&
        terminator->getOperand(number).getType() == argument.getType())
      donations.try_emplace(nests.getNumber(terminator->getOperand(number)),
                            nests.getNumber(argument));
  }
  return donations;
}

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
  BlockRewriter(Block &block, BlockNests nests, KernelLibrary &library,
                Counts &counts, unsigned maxOperands, bool reuseOperands)
      : block(block), nests(std::move(nests)), library(library), counts(counts),
        groups(this->nests.getProblem(), maxOperands),
        donations(findDonations(block, this->nests)),
        reuseOperands(reuseOperands) {}

  LogicalResult run();

private:
  LogicalResult rewrite(int number);
  FailureOr<bool> rewriteGroup(int number, const KernelGroup &group,
                               Attempt attempt);
  void launch(int number, const KernelGroup &group, func::FuncOp kernel,
              ArrayRef<Value> inputs, ArrayRef<Destination> destinations);
  SmallVector<Operation *> getOps(const KernelGroup &group) const;

  Block &block;
  BlockNests nests;
  KernelLibrary &library;
  Counts &counts;
  KernelGroups groups;
  Donations donations;
  bool reuseOperands;
};

struct FormKernels : public mpcomm::impl::FormKernelsPassBase<FormKernels> {
  using FormKernelsPassBase::FormKernelsPassBase;
  void runOnOperation() override;
};

} // namespace

SmallVector<Operation *> BlockRewriter::getOps(const KernelGroup &group) const {
  return llvm::map_to_vector(
      group.members, [&](const KernelMember &m) { return nests.getOp(m.op); });
}

/// Where the ops come from, all of them.
static Location fuseLocations(ArrayRef<Operation *> ops) {
  SmallVector<Location> locations;
  for (Operation *op : ops)
    locations.push_back(op->getLoc());
  return FusedLoc::get(locations.front().getContext(), locations);
}

/// Launches the kernel of a group at its slot. Group `number`, if it is one,
/// still sees the results of its own ops.
void BlockRewriter::launch(int number, const KernelGroup &group,
                           func::FuncOp kernel, ArrayRef<Value> inputs,
                           ArrayRef<Destination> destinations) {
  Location loc = fuseLocations(getOps(group));
  OpBuilder builder(nests.getOp(group.slot));
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  for (const Destination &destination : destinations) {
    auto type =
        cast<RankedTensorType>(nests.getValue(destination.result).getType());
    types.push_back(type);
    if (destination.tensor >= 0)
      outputs.push_back(nests.getValue(destination.tensor));
    else
      outputs.push_back(tensor::EmptyOp::create(builder, loc, type.getShape(),
                                                type.getElementType()));
  }
  auto op = mprt::LaunchOp::create(
      builder, loc, types, FlatSymbolRefAttr::get(kernel), inputs, outputs);
  for (auto [destination, result] :
       llvm::zip_equal(destinations, op.getResults())) {
    Value old = nests.getValue(destination.result);
    bool isFill = old.getDefiningOp<linalg::FillOp>() != nullptr;
    old.replaceUsesWithIf(result, [&](OpOperand &use) {
      int user = groups.lookup(nests.getNumber(use.getOwner()));
      // Kernels take the fills along that their results start from.
      auto reader = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
      if (isFill && user >= 0 && reader.isDpsInit(&use))
        return false;
      return user < 0 || user != number;
    });
    nests.replace(destination.result, result);
  }
}

/// Launches a kernel for the group, unless its code cannot be generated: then
/// false. `number` is -1 where it is only part of one.
FailureOr<bool> BlockRewriter::rewriteGroup(int number,
                                            const KernelGroup &group,
                                            Attempt attempt) {
  KernelOperands operands =
      getOperands(nests.getProblem(), group, [&](int value) {
        return groups.isUsedOutside(number, value);
      });
  // What a result starts from stays its destination in any case.
  bool reuses = attempt == Attempt::Reuse;
  SmallVector<Destination> destinations = chooseDestinations(
      nests.getProblem(), groups, number, group, operands,
      reuses ? donations : Donations(), reuses && reuseOperands);
  llvm::DenseSet<int> updated;
  for (const Destination &destination : destinations)
    if (destination.tensor >= 0 && !destination.isInput)
      updated.insert(destination.tensor);
  SmallVector<int> inputs;
  SmallVector<Value> values;
  for (int input : operands.inputs)
    if (!updated.contains(input)) {
      inputs.push_back(input);
      values.push_back(nests.getValue(input));
    }
  FailureOr<func::FuncOp> kernel =
      outlineGroup(nests, group, inputs, destinations);
  if (failed(kernel))
    return failure();
  if (attempt != Attempt::Last && !canGenerateKernel(*kernel)) {
    kernel->erase();
    return false;
  }
  counts.bytesAfter += operands.countBytes(nests.getProblem());
  ++counts.launches;
  launch(number, group, library.add(*kernel, nameKernel(getOps(group))), values,
         destinations);
  return true;
}

LogicalResult BlockRewriter::rewrite(int number) {
  const KernelGroup &group = groups.get(number);
  counts.ops += group.members.size();
  for (const KernelMember &member : group.members)
    counts.bytesBefore +=
        getOperands(nests.getProblem(),
                    KernelGroup::get(nests.getProblem(), member.op),
                    [](int) { return true; })
            .countBytes(nests.getProblem());
  for (Attempt attempt : {Attempt::Reuse, Attempt::Fresh}) {
    FailureOr<bool> isDone = rewriteGroup(number, group, attempt);
    if (failed(isDone) || *isDone)
      return isDone;
  }
  // Each member as a kernel of its own, at the place of the group.
  for (const KernelMember &member : group.members) {
    KernelGroup alone = KernelGroup::get(nests.getProblem(), member.op);
    alone.slot = group.slot;
    if (failed(rewriteGroup(-1, alone, Attempt::Last)))
      return failure();
  }
  return success();
}

LogicalResult BlockRewriter::run() {
  if (auto error = groups.run())
    return nests.getOp(error->op)->emitOpError("makes no kernel: ")
           << error->why;
  SmallVector<Operation *> dead;
  for (int number : groups.getGroups()) {
    if (failed(rewrite(number)))
      return failure();
    llvm::append_range(dead, llvm::reverse(getOps(groups.get(number))));
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
      if (isa<linalg::LinalgOp, mprt::ScatterOp>(op))
        blocks.insert(op->getBlock());
    });
    for (Block *block : blocks) {
      hoistScalars(*block);
      cloneWidenings(*block);
      FailureOr<BlockNests> nests = BlockNests::read(*block);
      if (failed(nests) ||
          failed(BlockRewriter(*block, std::move(*nests), library, counts,
                               maxOperands, reuseOperands)
                     .run()))
        return signalPassFailure();
    }
    remark::analysis(function.getLoc(), remark::RemarkOpts::name("Formed")
                                            .category(DEBUG_TYPE)
                                            .function(function.getName()))
        << remark::metric("Function", function.getName())
        << remark::metric("Ops", counts.ops)
        << remark::metric("Launches", counts.launches)
        << remark::metric("Bytes", counts.bytesAfter)
        << remark::metric("BytesSaved", counts.bytesBefore - counts.bytesAfter);
  }
  remark::analysis(module.getLoc(), opts)
      << remark::metric("Kernels", library.size());
}
