//===- PlanMemory.cpp - one arena for the buffers of a step ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buckets first: the buffers of one all_reduce become views of one allocation,
// so that what computes a gradient writes it where it travels from. Then every
// allocation gets an offset in the arena by its lifetime, which runs from the
// first use of any view of it to the last. What the arena holds when it is
// fullest is noted, for reports. A part of the step is planned before the
// functions that call it: its arena is scratch of theirs.
//
//===----------------------------------------------------------------------===//

#include "Memory/BufferKinds.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mpcomm/Codegen/Passes.h"
#include "mpcomm/Scheduling/Arena/ArenaPlanning.h"
#include "llvm/ADT/MapVector.h"

#include <array>
#include <map>
#include <numeric>

namespace mpcomm {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "mpcomm/Codegen/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-plan-memory"

using namespace mlir;
using namespace mpcomm;

static constexpr int64_t kAlignment = 64;

static int64_t bytesOf(Value buffer) {
  return mpcomm::detail::countBytes(buffer.getType());
}

namespace {

/// The plan of one function.
class FunctionPlanner {
public:
  explicit FunctionPlanner(func::FuncOp function)
      : function(function), builder(function.getContext()) {}
  LogicalResult run();

private:
  LogicalResult check();
  /// Finds the await of each start: the next one of its event in the block.
  void matchAwaits();
  /// The await of the collective that `op` starts; null where there is none of
  /// as many buffers.
  mprt::AwaitOp awaitOf(mprt::StartOp op) const { return awaits.lookup(op); }
  void formBuckets();
  void formBucket(mprt::StartOp op);
  Value ownBuffer(mprt::StartOp op, unsigned index,
                  llvm::DenseSet<Value> &taken);
  void makeContiguous(mprt::CallOp op, OpOperand &operand, bool isRead);
  LogicalResult addScratch();
  LogicalResult place();
  DictionaryAttr
  countBytesByKind(const llvm::MapVector<Value, ArenaProblem::Buffer> &lives);

  func::FuncOp function;
  IRRewriter builder;
  llvm::DenseMap<Operation *, mprt::AwaitOp> awaits; // by start
  llvm::DenseSet<Value> bucketed; // allocations that a bucket has taken
  int64_t bucketBytes = 0;
  /// Of allocations that were there before buckets were formed.
  llvm::DenseMap<Value, BufferKind> kinds;
};

} // namespace

void FunctionPlanner::matchAwaits() {
  llvm::DenseMap<int64_t, mprt::AwaitOp> next; // by event
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (auto await = dyn_cast<mprt::AwaitOp>(op))
      next[await.getEvent()] = await;
    auto start = dyn_cast<mprt::StartOp>(op);
    mprt::AwaitOp await = start ? next.lookup(start.getEvent()) : nullptr;
    if (await && await.getInputs().size() == start.getInputs().size() &&
        await.getOutputs().size() == start.getOutputs().size())
      awaits[start] = await;
  }
}

LogicalResult FunctionPlanner::check() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expects a body of one block");
  WalkResult result = function.walk([&](memref::AllocOp op) {
    if (!op.getType().hasStaticShape() ||
        !op.getType().getLayout().isIdentity())
      return op.emitOpError("expects an allocation of static shape and "
                            "identity layout"),
             WalkResult::interrupt();
    if (op->getBlock() != &function.getBody().front())
      return op.emitOpError("expects allocations in the function's own block"),
             WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  matchAwaits();
  result = function.walk([&](mprt::StartOp op) {
    if (op->getBlock() != &function.getBody().front() || !awaitOf(op))
      return op.emitOpError("expects an await of its buffers, later in the "
                            "function's own block"),
             WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// The collective's buffer `index` as an allocation of its own: as it is, or a
/// new one, copied from before the start and back after the await.
Value FunctionPlanner::ownBuffer(mprt::StartOp op, unsigned index,
                                 llvm::DenseSet<Value> &taken) {
  Value buffer = op.getOutputs()[index];
  Value root = mprt::getViewRoot(buffer);
  auto type = cast<MemRefType>(buffer.getType());
  auto alloc = root.getDefiningOp<memref::AllocOp>();
  bool whole = alloc && mprt::isContiguous(type) &&
               type.getNumElements() == alloc.getType().getNumElements() &&
               type.getElementType() == alloc.getType().getElementType();
  if (whole && !bucketed.contains(root) && taken.insert(root).second)
    return root;
  builder.setInsertionPoint(op);
  auto plain = MemRefType::get(type.getShape(), type.getElementType());
  Value own = memref::AllocOp::create(builder, op.getLoc(), plain);
  memref::CopyOp::create(builder, op.getLoc(), buffer, own);
  op.getOutputsMutable()[index].set(own);
  mprt::AwaitOp await = awaitOf(op);
  await.getOutputsMutable()[index].set(own);
  builder.setInsertionPointAfter(await);
  memref::CopyOp::create(builder, op.getLoc(), own, buffer);
  taken.insert(own);
  return own;
}

void FunctionPlanner::formBucket(mprt::StartOp op) {
  llvm::DenseSet<Value> taken;
  SmallVector<Value> members;
  for (unsigned i = 0; i < op.getOutputs().size(); ++i)
    members.push_back(ownBuffer(op, i, taken));
  int64_t bytes = 0;
  SmallVector<int64_t> offsets;
  for (Value member : members) {
    offsets.push_back(bytes);
    bytes += llvm::alignTo(bytesOf(member), kAlignment);
  }
  bucketBytes += bytes;
  // The bucket begins where the first of its members did.
  Operation *first = members.front().getDefiningOp();
  for (Value member : members)
    if (member.getDefiningOp()->isBeforeInBlock(first))
      first = member.getDefiningOp();
  builder.setInsertionPoint(first);
  Value bucket = memref::AllocOp::create(
      builder, op.getLoc(), MemRefType::get({bytes}, builder.getI8Type()));
  bucketed.insert(bucket);
  for (auto [member, offset] : llvm::zip(members, offsets)) {
    auto type = cast<MemRefType>(member.getType());
    builder.setInsertionPoint(member.getDefiningOp());
    Value at = arith::ConstantIndexOp::create(builder, op.getLoc(), offset);
    auto view = memref::ViewOp::create(builder, member.getLoc(), type, bucket,
                                       at, ValueRange());
    kinds.erase(member);
    builder.replaceOp(member.getDefiningOp(), view);
  }
}

void FunctionPlanner::formBuckets() {
  SmallVector<mprt::StartOp> starts;
  auto strided = [](Value v) {
    return !mprt::isContiguous(cast<MemRefType>(v.getType()));
  };
  function.walk([&](mprt::StartOp op) {
    if (op.getOutputs().size() > 1 || llvm::any_of(op.getOutputs(), strided))
      starts.push_back(op);
    for (OpOperand &input : op.getInputsMutable()) {
      if (!strided(input.get()))
        continue;
      auto type = cast<MemRefType>(input.get().getType());
      builder.setInsertionPoint(op);
      Value own = memref::AllocOp::create(
          builder, op.getLoc(),
          MemRefType::get(type.getShape(), type.getElementType()));
      memref::CopyOp::create(builder, op.getLoc(), input.get(), own);
      awaitOf(op).getInputsMutable()[input.getOperandNumber()].set(own);
      input.set(own);
    }
  });
  for (mprt::StartOp op : starts)
    formBucket(op);
}

/// Bytes by kind when most are in use, each buffer rounded up to the alignment:
/// their sum is the problem's lower bound.
DictionaryAttr FunctionPlanner::countBytesByKind(
    const llvm::MapVector<Value, ArenaProblem::Buffer> &lives) {
  // What comes (first) and goes at a time; buckets and copies for collectives
  // are made by this pass.
  std::map<int64_t, std::array<int64_t, kNumBufferKinds>> change;
  for (const auto &[value, life] : lives) {
    auto known = kinds.find(value);
    auto kind = static_cast<unsigned>(
        known == kinds.end() ? BufferKind::Communication : known->second);
    int64_t bytes = llvm::alignTo(life.bytes, kAlignment);
    change[life.begin][kind] += bytes;
    change[life.end + 1][kind] -= bytes;
  }
  std::array<int64_t, kNumBufferKinds> live = {}, peak = {};
  auto sum = [](ArrayRef<int64_t> parts) {
    return std::accumulate(parts.begin(), parts.end(), int64_t(0));
  };
  for (const auto &[time, bytes] : change) {
    for (auto [whole, part] : llvm::zip_equal(live, bytes))
      whole += part;
    if (sum(live) > sum(peak))
      peak = live;
  }
  SmallVector<NamedAttribute> parts;
  for (auto [kind, bytes] : llvm::enumerate(peak))
    parts.push_back(builder.getNamedAttr(nameOf(static_cast<BufferKind>(kind)),
                                         builder.getI64IntegerAttr(bytes)));
  return builder.getDictionaryAttr(parts);
}

/// A part takes buffers without gaps: one that has some is copied, before the
/// call where the part reads it.
void FunctionPlanner::makeContiguous(mprt::CallOp op, OpOperand &operand,
                                     bool isRead) {
  auto type = cast<MemRefType>(operand.get().getType());
  if (mprt::isContiguous(type))
    return;
  Value buffer = operand.get();
  builder.setInsertionPoint(op);
  Value own = memref::AllocOp::create(
      builder, op.getLoc(),
      MemRefType::get(type.getShape(), type.getElementType()));
  if (isRead)
    memref::CopyOp::create(builder, op.getLoc(), buffer, own);
  operand.set(own);
  if (!op.isDpsInit(&operand))
    return;
  builder.setInsertionPointAfter(op);
  memref::CopyOp::create(builder, op.getLoc(), own, buffer);
}

/// Whether a result of a part is in the buffer of an argument.
static bool isUpdated(Attribute result) {
  auto argument = cast<DictionaryAttr>(result).getAs<IntegerAttr>(
      mprt::kResultArgument);
  return argument && argument.getInt() >= 0;
}

/// Gives each call of a part as much of the arena as the part needs.
LogicalResult FunctionPlanner::addScratch() {
  SmallVector<mprt::CallOp> calls;
  function.walk([&](mprt::CallOp op) { calls.push_back(op); });
  for (mprt::CallOp op : calls) {
    auto part = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        op, op.getCalleeAttr());
    auto bytes = part->getAttrOfType<IntegerAttr>(mprt::kArenaBytesAttr);
    if (!bytes)
      return op.emitOpError("calls a function that calls it");
    // Of outputs, those are read that an argument donates.
    auto results = part->getAttrOfType<ArrayAttr>(mprt::kResultsAttr);
    unsigned first = op.getInputs().size();
    for (OpOperand &operand : op->getOpOperands())
      makeContiguous(op, operand,
                     !op.isDpsInit(&operand) ||
                         isUpdated(results[operand.getOperandNumber() - first]));
    builder.setInsertionPoint(op);
    Value scratch = memref::AllocOp::create(
        builder, op.getLoc(),
        MemRefType::get({bytes.getInt()}, builder.getI8Type()));
    op.getScratchMutable().assign(scratch);
  }
  return success();
}

LogicalResult FunctionPlanner::place() {
  Block &body = function.getBody().front();
  llvm::MapVector<Value, ArenaProblem::Buffer> lives;
  int64_t time = 0;
  for (Operation &op : body) {
    ++time;
    if (isa<memref::AllocOp>(op)) {
      lives[op.getResult(0)] = {bytesOf(op.getResult(0)), INT64_MAX, -1};
      continue;
    }
    if (isa<ViewLikeOpInterface>(op))
      continue;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        auto *life = lives.find(mprt::getViewRoot(operand));
        if (life == lives.end())
          continue;
        life->second.begin = std::min(life->second.begin, time);
        life->second.end = std::max(life->second.end, time);
      }
    });
  }
  ArenaProblem problem;
  problem.alignment = kAlignment;
  for (auto &[value, life] : lives) {
    if (life.end < 0) // never used
      life.begin = life.end = 0, life.bytes = 0;
    problem.buffers.push_back(life);
  }
  ArenaPlan plan = planArena(problem);
  if (std::string wrong = plan.verify(problem); !wrong.empty())
    return function.emitOpError() << "has no valid memory plan: " << wrong;

  DictionaryAttr bytesByKind = countBytesByKind(lives);
  auto arenaType = MemRefType::get({plan.bytes}, builder.getI8Type());
  unsigned index = function.getNumArguments();
  if (failed(function.insertArgument(index, arenaType, {}, function.getLoc())))
    return failure();
  Value arena = function.getArgument(index);
  for (auto [entry, offset] : llvm::zip(lives, plan.offsets)) {
    Operation *alloc = entry.first.getDefiningOp();
    builder.setInsertionPoint(alloc);
    if (entry.second.end == 0 && alloc->use_empty()) {
      builder.eraseOp(alloc);
      continue;
    }
    auto type = cast<MemRefType>(entry.first.getType());
    Value at = arith::ConstantIndexOp::create(builder, alloc->getLoc(), offset);
    auto view = memref::ViewOp::create(builder, alloc->getLoc(), type, arena,
                                       at, ValueRange());
    builder.replaceOp(alloc, view);
  }
  function->setAttr(mprt::kArenaBytesAttr,
                    builder.getI64IntegerAttr(plan.bytes));
  function->setAttr(mprt::kBucketBytesAttr,
                    builder.getI64IntegerAttr(bucketBytes));
  function->setAttr(mprt::kArenaBytesByKindAttr, bytesByKind);
  remark::analysis(function.getLoc(), remark::RemarkOpts::name("Arena")
                                          .category(DEBUG_TYPE)
                                          .function(function.getName()))
      << remark::metric("Bytes", plan.bytes)
      << remark::metric("LowerBound", problem.lowerBound())
      << remark::metric("BucketBytes", bucketBytes)
      << remark::metric("Buffers", lives.size());
  return success();
}

LogicalResult FunctionPlanner::run() {
  if (failed(check()) || failed(addScratch()))
    return failure();
  kinds = getBufferKinds(function);
  for (auto alloc : function.getBody().front().getOps<memref::AllocOp>())
    kinds.try_emplace(alloc.getResult(), BufferKind::Temporary);
  formBuckets();
  return place();
}

namespace {

struct PlanMemory : public mpcomm::impl::PlanMemoryPassBase<PlanMemory> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && !function->hasAttr(mprt::kKernelAttr) &&
          failed(plan(function)))
        return signalPassFailure();
  }

private:
  /// Plans what `function` calls, then itself, each once.
  LogicalResult plan(func::FuncOp function) {
    if (!planned.insert(function).second)
      return success();
    WalkResult result = function.walk([&](mprt::CallOp op) {
      auto part = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          op, op.getCalleeAttr());
      return WalkResult(plan(part));
    });
    if (result.wasInterrupted())
      return failure();
    return FunctionPlanner(function).run();
  }

  llvm::DenseSet<Operation *> planned;
};

} // namespace
