//===- BatchLaunches.cpp - independent launches become one ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass: finds runs of launches of a GPU's kernels, and puts batches in
// their place.
//
//===----------------------------------------------------------------------===//

#include "Launches/BatchKernel.h"
#include "Launches/BatchPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include "mpcomm/Dialect/MPRT/IR/AttentionCall.h"
#include "mpcomm/Dialect/MPRT/IR/Epilogue.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

#define DEBUG_TYPE "mpcomm-batch-launches"

using namespace mlir;

namespace mpcomm {
#define GEN_PASS_DEF_BATCHLAUNCHESPASS
#include "mpcomm/Codegen/Passes.h.inc"

namespace {
using namespace batches;
using mprt::LaunchOp;

/// Launches that are planned together, at most: plans are quadratic.
constexpr size_t kMaxRun = 2048;

struct BatchLaunchesPass : impl::BatchLaunchesPassBase<BatchLaunchesPass> {
  using BatchLaunchesPassBase::BatchLaunchesPassBase;
  LogicalResult initialize(MLIRContext *context) override;
  void runOnOperation() override;

private:
  using Run = SmallVector<LaunchOp>;
  LogicalResult batchFunction(func::FuncOp function);
  void findRuns(Block &block);
  LogicalResult batchRun(ArrayRef<LaunchOp> ops);
  void replace(ArrayRef<Launch> run, const Batch &batch, OpBuilder &b);
  const BatchMember *memberOf(LaunchOp launch);
  LogicalResult readStarts(Block &block);
  int64_t nextStart(const Launch &launch);
  int64_t movedBytes(LaunchOp launch);
  void eraseUnused();

  gpu::GPUModuleOp device;
  SymbolTable *symbols = nullptr;
  BatchLimits limits;
  llvm::StringMap<std::optional<BatchMember>> members;
  std::map<std::vector<int64_t>, func::FuncOp> made;

  // Of the present block.
  SmallVector<Run> runs;
  llvm::DenseMap<Operation *, int64_t> chains;
  struct Start {
    Operation *op;
    Access access;
    int64_t number;
  };
  llvm::DenseMap<Value, SmallVector<Start>> starts;
  int64_t launches = 0, batched = 0, formed = 0;
};
} // namespace

LogicalResult BatchLaunchesPass::initialize(MLIRContext *context) {
  if (processors < 1 || processors > 4096)
    return emitError(UnknownLoc::get(context))
           << "expected 'processors' in [1, 4096], got "
           << processors.getValue();
  if (parameterBytes < 8 || parameterBytes > 4096)
    return emitError(UnknownLoc::get(context))
           << "expected 'parameter-bytes' in [8, 4096], got "
           << parameterBytes.getValue();
  limits.processors = processors;
  limits.parameterBytes = parameterBytes;
  return success();
}

const BatchMember *BatchLaunchesPass::memberOf(LaunchOp launch) {
  auto [entry, isNew] = members.try_emplace(launch.getKernel());
  if (isNew) {
    auto kernel = symbols->lookup<func::FuncOp>(launch.getKernel());
    auto code = device.lookupSymbol<gpu::GPUFuncOp>(launch.getKernel());
    auto grid = kernel ? kernel->getAttrOfType<mprt::GridAttr>(mprt::kGridAttr)
                       : mprt::GridAttr();
    if (code && grid)
      entry->second = describeMember(code, grid, limits);
  }
  return entry->second ? &*entry->second : nullptr;
}

/// Scratch is handed on by kernels that are in a row on the same operands.
void BatchLaunchesPass::findRuns(Block &block) {
  runs.clear();
  chains.clear();
  Run run;
  int64_t runNumber = 0, chain = -1, runOfChain = -1;
  auto end = [&] {
    if (run.size() > 1)
      runs.push_back(run);
    run.clear();
    ++runNumber;
  };
  LaunchOp last;
  llvm::DenseSet<int64_t> isCut;
  for (Operation &op : block) {
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch) {
      if (!isMemoryEffectFree(&op))
        end();
      continue;
    }
    // What belongs to a product stays after it.
    if (launch->hasAttr(mprt::kEpilogueAttr)) {
      end();
      continue;
    }
    ++launches;
    // Kernels of an attention are one call.
    if (launch->hasAttr(mprt::kAttentionAttr)) {
      end();
      continue;
    }
    auto kernel = symbols->lookup<func::FuncOp>(launch.getKernel());
    auto grid = kernel ? kernel->getAttrOfType<mprt::GridAttr>(mprt::kGridAttr)
                       : mprt::GridAttr();
    if (!grid || run.size() == kMaxRun)
      end();
    if (!grid)
      continue;
    if (grid.getScratch()) {
      if (!last || last.getKernel() == launch.getKernel() ||
          last.getOperands() != launch.getOperands()) {
        ++chain;
        runOfChain = runNumber;
      }
      if (runOfChain != runNumber)
        isCut.insert(chain);
      chains[launch] = chain;
      last = launch;
    }
    run.push_back(launch);
  }
  end();
  for (auto &[op, number] : chains)
    if (isCut.contains(number))
      number = -2;
}

LogicalResult BatchLaunchesPass::readStarts(Block &block) {
  starts.clear();
  int64_t number = 0;
  for (auto start : block.getOps<mprt::StartOp>()) {
    FailureOr<SmallVector<Access, 4>> accesses = accessesOf(start);
    if (failed(accesses))
      return failure();
    for (const Access &access : *accesses)
      starts[access.base].push_back({start, access, number});
    ++number;
  }
  return success();
}

int64_t BatchLaunchesPass::nextStart(const Launch &launch) {
  int64_t next = -1;
  for (const Access &access : launch.accesses) {
    auto entry = starts.find(access.base);
    if (entry == starts.end())
      continue;
    for (const Start &start : entry->second) {
      if (next != -1 && start.number >= next)
        break;
      if (start.access.touches(access) &&
          launch.op->isBeforeInBlock(start.op)) {
        next = start.number;
        break;
      }
    }
  }
  return next;
}

int64_t BatchLaunchesPass::movedBytes(LaunchOp launch) {
  auto moved = symbols->lookup(launch.getKernel())
                   ->getAttrOfType<IntegerAttr>(mprt::kMovedBytesAttr);
  return moved ? moved.getInt() : detail::countBytes(launch->getOperandTypes());
}

void BatchLaunchesPass::replace(ArrayRef<Launch> run, const Batch &batch,
                                OpBuilder &b) {
  const Launch &first = run[batch.front()];
  bool isMoved = llvm::any_of(
      batch, [&](unsigned number) { return run[number].scratchOffset != 0; });
  if (batch.size() == 1 && !isMoved) {
    b.clone(*first.op);
    return;
  }
  SmallVector<Pointers::Key> pointers;
  size_t inputs = 0;
  Signature signature = Signature::of(run, batch, pointers, inputs);
  SmallVector<Location> locations;
  SmallVector<Value> buffers;
  for (unsigned number : batch)
    locations.push_back(run[number].op.getLoc());
  for (const Pointers::Key &pointer : pointers)
    buffers.push_back(pointer.first);
  Location loc = b.getFusedLoc(locations);
  func::FuncOp &kernel = made[signature.key()];
  if (!kernel) {
    auto like = symbols->lookup<func::FuncOp>(first.op.getKernel());
    OpBuilder top(like);
    SmallVector<Type> types;
    for (const Pointers::Key &pointer : pointers)
      types.push_back(pointer.second);
    std::string name = (first.op.getKernel() + "_batch").str();
    kernel = func::FuncOp::create(top, like.getLoc(), name,
                                  FunctionType::get(&getContext(), types, {}));
    kernel->remove();
    kernel.setPrivate();
    kernel->setAttr(mprt::kKernelAttr, b.getUnitAttr());
    symbols->insert(kernel, std::next(like->getIterator()));
    BatchKernel code = emitBatchKernel(device, kernel.getSymName(), loc,
                                       signature, pointers, limits);
    kernel->setAttr(mprt::kGridAttr, code.grid);
    int64_t moved = 0;
    for (unsigned number : batch)
      moved += movedBytes(run[number].op);
    kernel->setAttr(mprt::kMovedBytesAttr, b.getI64IntegerAttr(moved));
  }
  LaunchOp::create(b, loc, TypeRange(), kernel.getSymName(),
                   ArrayRef(buffers).take_front(inputs),
                   ArrayRef(buffers).drop_front(inputs));
  ++formed;
  batched += static_cast<int64_t>(batch.size()) - 1;
}

LogicalResult BatchLaunchesPass::batchRun(ArrayRef<LaunchOp> ops) {
  SmallVector<Launch> run;
  for (LaunchOp op : ops) {
    Launch launch;
    launch.op = op;
    launch.member = memberOf(op);
    FailureOr<SmallVector<Access, 4>> accesses = accessesOf(op);
    if (failed(accesses))
      return failure();
    launch.accesses = std::move(*accesses);
    launch.nextStart = nextStart(launch);
    if (auto chain = chains.find(op); chain != chains.end())
      launch.chain = chain->second;
    run.push_back(std::move(launch));
  }
  SmallVector<Batch> batches = planBatches(run, limits);
  if (batches.size() == run.size())
    return success();
  // Their operands are there where the last launch is.
  OpBuilder b(run.back().op);
  for (const Batch &batch : batches)
    replace(run, batch, b);
  for (Launch &launch : run)
    launch.op.erase();
  return success();
}

LogicalResult BatchLaunchesPass::batchFunction(func::FuncOp function) {
  launches = batched = formed = 0;
  for (Block &block : function.getBody()) {
    findRuns(block);
    if (runs.empty())
      continue;
    if (failed(readStarts(block)))
      return failure();
    for (const Run &run : runs)
      if (failed(batchRun(run)))
        return failure();
  }
  if (formed)
    remark::passed(function.getLoc(), remark::RemarkOpts::name("Batches")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()))
        << remark::metric("launches_before", launches)
        << remark::metric("launches_after", launches - batched)
        << remark::metric("batches", formed);
  return success();
}

/// Parts that are launched by themselves nowhere.
void BatchLaunchesPass::eraseUnused() {
  llvm::StringSet<> used;
  getOperation().walk(
      [&](LaunchOp launch) { used.insert(launch.getKernel()); });
  for (auto &[name, member] : members)
    if (member && !used.contains(name)) {
      member->code.erase();
      symbols->erase(symbols->lookup(name));
    }
}

void BatchLaunchesPass::runOnOperation() {
  device = getOperation().lookupSymbol<gpu::GPUModuleOp>(mprt::kGPUModule);
  if (!device)
    return;
  SymbolTable table(getOperation());
  symbols = &table;
  members.clear();
  made.clear();
  for (auto function :
       llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
    if (!function.isExternal() && failed(batchFunction(function)))
      return signalPassFailure();
  eraseUnused();
}

} // namespace mpcomm
