//===- BatchPlan.cpp - which launches become one --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See BatchPlan.h.
//
//===----------------------------------------------------------------------===//

#include "Launches/BatchPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mpcomm::batches {

/// Threads that a multiprocessor runs at a time (compute capabilities 8.0, 9.0
/// and 10.0).
static constexpr int64_t kThreadsAtATime = 2048;
/// Bounds of one kernel's code: different bodies, and operations in them.
static constexpr size_t kMaxBodies = 16;
static constexpr int64_t kMaxOps = 6000;
/// Static shared memory of a block at most.
static constexpr int64_t kSharedBytes = 48 << 10;
/// Scratch that a launch may have apart from the others', and that a run may
/// have in all.
static constexpr int64_t kOwnScratchBytes = 1 << 20;
static constexpr int64_t kAllScratchBytes = 64 << 20;
static constexpr int64_t kScratchAlignment = 256;
static constexpr int64_t kMaxBlocks = INT32_MAX;

static int64_t bytesOf(MemRefType type) {
  return type.getNumElements() *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

std::optional<BatchMember> describeMember(gpu::GPUFuncOp code,
                                          mprt::GridAttr grid,
                                          const BatchLimits &limits) {
  if (!code.getBody().hasOneBlock())
    return std::nullopt;
  BatchMember member{code, grid};
  member.isElementwise =
      grid.getGridStride() && code.getNumWorkgroupAttributions() == 0;
  member.isSmall = grid.getBlocks() * grid.getThreads() <=
                   limits.processors * kThreadsAtATime;
  WalkResult known = code.getBody().walk([&](Operation *op) {
    ++member.ops;
    if (isa<gpu::BarrierOp, gpu::ShuffleOp>(op) ||
        isa<NVVM::NVVMDialect>(op->getDialect()))
      member.isElementwise = false;
    if (isa<gpu::GPUDialect>(op->getDialect()))
      return isa<gpu::BarrierOp, gpu::ShuffleOp, gpu::ThreadIdOp,
                 gpu::BlockIdOp, gpu::GridDimOp, gpu::BlockDimOp,
                 gpu::ReturnOp>(op)
                 ? WalkResult::advance()
                 : WalkResult::interrupt();
    return isa<arith::ArithDialect, math::MathDialect, memref::MemRefDialect,
               scf::SCFDialect, vector::VectorDialect, NVVM::NVVMDialect>(
               op->getDialect())
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  if (known.wasInterrupted() || member.ops > kMaxOps)
    return std::nullopt;
  return member;
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

SmallVector<Pointers::Key> Pointers::of(const Launch &launch) {
  SmallVector<Key> keys;
  gpu::GPUFuncOp code = launch.member->code;
  for (auto [i, operand] : llvm::enumerate(launch.op->getOperands()))
    keys.push_back({operand, code.getArgument(i).getType()});
  return keys;
}

void Pointers::add(const Launch &launch) {
  size_t inputs = launch.op.getInputs().size();
  for (auto [i, key] : llvm::enumerate(of(launch)))
    known[key] |= i >= inputs;
}

size_t Pointers::countNew(const Launch &launch) const {
  llvm::SmallDenseSet<Key> found;
  for (const Key &key : of(launch))
    if (!known.contains(key))
      found.insert(key);
  return found.size();
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

namespace {
/// A batch while launches are added.
struct Open {
  Batch launches;
  Pointers pointers;
  llvm::SmallSetVector<const BatchMember *, 4> bodies;
  llvm::SmallDenseSet<Type> shared;
  int64_t ops = 0, sharedBytes = 0, blocks = 0;
  bool areElementwise = true, areSmall = true;

  bool takes(const Launch &launch, const Launch &first,
             const BatchLimits &limits) const;
  void add(unsigned number, const Launch &launch);
};
} // namespace

bool Open::takes(const Launch &launch, const Launch &first,
                 const BatchLimits &limits) const {
  const BatchMember *member = launch.member;
  if (!member || !first.member || launch.nextStart != first.nextStart ||
      member->grid.getThreads() != first.member->grid.getThreads() ||
      blocks + member->grid.getBlocks() > kMaxBlocks)
    return false;
  // One more pointer leads to scratch.
  if (static_cast<int64_t>(8 * (pointers.size() + pointers.countNew(launch) +
                                1)) > limits.parameterBytes)
    return false;
  if (bodies.contains(member))
    return true;
  // Registers are those of the body with the most: what fills the device runs
  // beside its like alone.
  if (!(areElementwise && member->isElementwise) &&
      !(areSmall && member->isSmall))
    return false;
  int64_t bytes = sharedBytes;
  for (BlockArgument buffer : member->code.getWorkgroupAttributions())
    if (!shared.contains(buffer.getType()))
      bytes += bytesOf(cast<MemRefType>(buffer.getType()));
  return bodies.size() < kMaxBodies && ops + member->ops <= kMaxOps &&
         bytes <= kSharedBytes;
}

void Open::add(unsigned number, const Launch &launch) {
  launches.push_back(number);
  const BatchMember *member = launch.member;
  if (!member)
    return;
  pointers.add(launch);
  blocks += member->grid.getBlocks();
  if (!bodies.insert(member))
    return;
  ops += member->ops;
  areElementwise &= member->isElementwise;
  areSmall &= member->isSmall;
  for (BlockArgument buffer : member->code.getWorkgroupAttributions())
    if (shared.insert(buffer.getType()).second)
      sharedBytes += bytesOf(cast<MemRefType>(buffer.getType()));
}

/// Whether a collective waits for `first`, and for `other` none or a later one:
/// it should not wait for both.
static bool isMoreUrgent(const Launch &first, const Launch &other) {
  return first.nextStart != -1 &&
         (other.nextStart == -1 || other.nextStart > first.nextStart);
}

static bool dependsOn(const Launch &later, const Launch &earlier) {
  if (later.chain != -1 && earlier.chain != -1 &&
      (later.chain == -2 || earlier.chain == -2 ||
       later.chain == earlier.chain))
    return true;
  return llvm::any_of(later.accesses, [&](const Access &mine) {
    return llvm::any_of(earlier.accesses, [&](const Access &other) {
      return mine.touches(other);
    });
  });
}

/// Chains whose scratch is better where everybody's is become -2.
static void bindChains(MutableArrayRef<Launch> run) {
  llvm::DenseMap<int64_t, int64_t> sizes;
  llvm::DenseSet<int64_t> bound;
  for (const Launch &launch : run) {
    if (launch.chain < 0)
      continue;
    if (!launch.member) {
      bound.insert(launch.chain);
      continue;
    }
    int64_t &size = sizes[launch.chain];
    size = std::max(size, launch.member->grid.getScratch());
  }
  int64_t all = 0;
  for (const Launch &launch : run) {
    auto entry = sizes.find(launch.chain);
    if (entry == sizes.end())
      continue;
    all += llvm::alignTo(entry->second, kScratchAlignment);
    if (entry->second > kOwnScratchBytes || all > kAllScratchBytes)
      bound.insert(launch.chain);
    sizes.erase(entry);
  }
  for (Launch &launch : run)
    if (bound.contains(launch.chain))
      launch.chain = -2;
}

/// Gives each chain the lowest bytes of scratch that no other has between the
/// first and the last batch that use it.
static void placeScratch(MutableArrayRef<Launch> run, ArrayRef<Batch> batches) {
  struct Chain {
    int64_t first, last, size, offset;
  };
  llvm::MapVector<int64_t, Chain> chains;
  for (auto [at, batch] : llvm::enumerate(batches))
    for (unsigned number : batch) {
      const Launch &launch = run[number];
      if (launch.chain == -1)
        continue;
      int64_t position = static_cast<int64_t>(at);
      // What is not to be moved uses scratch from its begin on.
      int64_t key =
          launch.chain == -2 ? -2 - static_cast<int64_t>(number) : launch.chain;
      int64_t size = launch.member ? launch.member->grid.getScratch() : 0;
      auto [entry, isNew] = chains.insert(
          {key, Chain{position, position, size, key <= -2 ? 0 : -1}});
      entry->second.last = position;
      entry->second.size = std::max(entry->second.size, size);
    }
  for (auto &[key, chain] : chains) {
    if (key <= -2)
      continue;
    chain.offset = 0;
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto &[otherKey, other] : chains) {
        if (otherKey == key || other.offset < 0 || other.last < chain.first ||
            chain.last < other.first)
          continue;
        if (chain.offset < other.offset + other.size &&
            other.offset < chain.offset + chain.size) {
          chain.offset =
              llvm::alignTo(other.offset + other.size, kScratchAlignment);
          moved = true;
        }
      }
    }
  }
  for (Launch &launch : run)
    if (launch.chain >= 0)
      launch.scratchOffset = chains.find(launch.chain)->second.offset;
}

SmallVector<Batch> planBatches(MutableArrayRef<Launch> run,
                               const BatchLimits &limits) {
  bindChains(run);
  SmallVector<Open> open;
  for (auto [number, launch] : llvm::enumerate(run)) {
    // After the last batch that it depends on, as early as may be.
    size_t from = open.size();
    while (from > 0 &&
           !isMoreUrgent(run[open[from - 1].launches.front()], launch) &&
           llvm::none_of(open[from - 1].launches,
                         [&](unsigned n) { return dependsOn(launch, run[n]); }))
      --from;
    while (from < open.size() &&
           !open[from].takes(launch, run[open[from].launches.front()], limits))
      ++from;
    if (from == open.size())
      open.emplace_back();
    open[from].add(static_cast<unsigned>(number), launch);
  }
  SmallVector<Batch> batches;
  for (Open &batch : open)
    batches.push_back(std::move(batch.launches));
  placeScratch(run, batches);
  return batches;
}

} // namespace mpcomm::batches
