//===- BlockCombiner.cpp - which all_reduce ops share a bucket ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates, the runs of them that are planned together, and what is told.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockCombiner.h"
#include "Communicate/Communicator.h"
#include "Communicate/Model.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mpcomm;

/// Order of ops of a block where null stands for its start.
static bool isBefore(Operation *a, Operation *b) {
  if (!a || !b)
    return !a && b;
  return a->isBeforeInBlock(b);
}

static Operation *getLater(Operation *a, Operation *b) {
  return isBefore(a, b) ? b : a;
}

/// The earlier of two uses, of which null is none.
static Operation *getEarlierUse(Operation *a, Operation *b) {
  if (!a || !b)
    return a ? a : b;
  return a->isBeforeInBlock(b) ? a : b;
}

/// Attributes in which members of a bucket agree; null where the operands
/// differ among themselves.
static Attribute getKey(AllReduceOp op) {
  Type element = getElementTypeOrSelf(op.getInputs().front());
  for (Value input : op.getInputs())
    if (getElementTypeOrSelf(input) != element)
      return Attribute();
  MLIRContext *context = op.getContext();
  auto orUnit = [&](Attribute attr) {
    return attr ? attr : UnitAttr::get(context);
  };
  return ArrayAttr::get(
      context, {op.getMeshAttr(), op.getAxesAttr(), op.getReductionAttr(),
                orUnit(op.getWireAttr()), orUnit(op.getAccumulateAttr()),
                TypeAttr::get(element), op->getDiscardableAttrDictionary()});
}

std::optional<BucketCandidate>
BlockCombiner::getCandidate(Operation *op, Operation *segmentStart) {
  auto allReduce = dyn_cast<AllReduceOp>(op);
  if (!allReduce)
    return std::nullopt;
  Attribute key = getKey(allReduce);
  if (!key ||
      (options.numerics == Numerics::Exact && dependsOnPlace(allReduce)))
    return std::nullopt;
  Operation *ready = segmentStart;
  for (Value input : allReduce.getInputs()) {
    Operation *def = input.getDefiningOp();
    if (def && def->getBlock() == &block)
      ready = getLater(ready, moving.contains(def) ? op : def);
  }
  Operation *use = getFirstUse(op);
  if (isBefore(op, ready) || (use && !isBefore(op, use)))
    return std::nullopt; // no dominance: a graph region
  return BucketCandidate{allReduce, key, ready, use,
                         CostModel::getWireBytes(allReduce)};
}

/// Plans candidates of which each is ready before the first use of any.
void BlockCombiner::planRun(MutableArrayRef<BucketCandidate> candidates) {
  if (candidates.empty())
    return;
  ArrayRef<BucketCandidate> kept =
      runs.emplace_back(candidates.begin(), candidates.end());
  ChosenPlan chosen =
      planBuckets(kept, times, model, options.policy, options.limits);
  if (!chosen.error.empty()) {
    remark::missed(kept.front().getOp().getLoc(),
                   options.remarkNamed("BucketPlan"))
        << remark::reason("{0}", chosen.error);
    for (const BucketCandidate &candidate : kept) {
      PlacedBucket &bucket = buckets.emplace_back();
      bucket.members.push_back({&candidate});
      bucket.ready = candidate.ready;
      bucket.bytes = candidate.bytes;
    }
    return;
  }
  remark::passed(kept.front().getOp().getLoc(),
                 options.remarkNamed("BucketPlan"))
      << remark::metric("rule", chosen.rule)
      << remark::metric("tensors", kept.size())
      << remark::metric("buckets", chosen.plan.buckets.size())
      << remark::metric("predicted_us", toMicros(chosen.seconds))
      << remark::metric("input_us", toMicros(chosen.inputSeconds))
      << remark::metric("bound_us", toMicros(chosen.lowerBound));

  SmallVector<Operation *> lastReady(chosen.problem.streams.size(), nullptr);
  for (const BucketingPlan::Bucket &planned : chosen.plan.buckets) {
    PlacedBucket &bucket = buckets.emplace_back();
    bucket.bytes = planned.bytes;
    Operation *&ready = lastReady[planned.stream];
    for (int64_t i = planned.begin; i < planned.end; ++i) {
      const BucketingPlan::Slice &slice = chosen.plan.slices[i];
      const BucketCandidate &candidate = kept[slice.tensor];
      int64_t element = chosen.problem.tensors[slice.tensor].elementBytes;
      PlacedBucket::Member member{&candidate};
      member.isWhole = slice.bytes == candidate.bytes;
      if (!member.isWhole) {
        member.begin = slice.offset / element;
        member.count = slice.bytes / element;
        ++pieces[candidate.op].missing;
      }
      bucket.members.push_back(member);
      ready = getLater(ready, candidate.ready);
    }
    bucket.ready = ready;
  }
  markCapped(chosen);
}

/// Marks buckets that could not take in the first tensor of the next one of
/// their stream and key. They are the last in `buckets`.
void BlockCombiner::markCapped(const ChosenPlan &chosen) {
  const BucketingPlan &plan = chosen.plan;
  if (options.limits.capBytes == BucketingProblem::unlimited)
    return;
  llvm::DenseMap<std::pair<int, int>, size_t> open;
  size_t first = buckets.size() - plan.buckets.size();
  for (auto [i, bucket] : llvm::enumerate(plan.buckets)) {
    auto [it, isNew] = open.try_emplace({bucket.stream, bucket.key}, i);
    if (isNew)
      continue;
    int64_t next = plan.slices[bucket.begin].bytes;
    buckets[first + it->second].isCapped =
        plan.buckets[it->second].bytes + next > options.limits.capBytes;
    it->second = i;
  }
}

static void sortByReady(SmallVectorImpl<BucketCandidate> &candidates) {
  llvm::sort(candidates, [](BucketCandidate &a, BucketCandidate &b) {
    return a.ready == b.ready ? a.op->isBeforeInBlock(b.op)
                              : isBefore(a.ready, b.ready);
  });
}

SmallVector<BucketCandidate> BlockCombiner::getOnlyRun() {
  SmallVector<BucketCandidate> candidates;
  for (Operation &op : block)
    if (std::optional<BucketCandidate> candidate = getCandidate(&op, nullptr)) {
      moving.try_emplace(&op);
      candidates.push_back(*candidate);
    }
  sortByReady(candidates);
  Operation *use = nullptr;
  for (const BucketCandidate &candidate : candidates) {
    if (use && !isBefore(candidate.ready, use))
      return {};
    use = getEarlierUse(use, candidate.use);
  }
  return candidates;
}

/// Cuts candidates that no ordering point separates into runs.
void BlockCombiner::planSegment(SmallVectorImpl<BucketCandidate> &candidates) {
  sortByReady(candidates);
  size_t begin = 0;
  Operation *use = nullptr;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (use && !isBefore(candidates[i].ready, use)) {
      remark::missed(candidates[i].op.getLoc(),
                     options.remarkNamed("BucketClosed"))
          << remark::reason("a result is used before the next operand is ready")
          << remark::metric("tensors", i - begin);
      planRun(MutableArrayRef(candidates).slice(begin, i - begin));
      begin = i;
      use = nullptr;
    }
    use = getEarlierUse(use, candidates[i].use);
  }
  planRun(MutableArrayRef(candidates).drop_front(begin));
  candidates.clear();
}

void BlockCombiner::plan() {
  SmallVector<BucketCandidate> candidates;
  Operation *segmentStart = nullptr;
  for (Operation &op : block) {
    bool isCollective(getCollective(&op));
    statistics.before += isCollective;
    if (std::optional<BucketCandidate> candidate =
            getCandidate(&op, segmentStart)) {
      moving.try_emplace(&op);
      candidates.push_back(*candidate);
      continue;
    }
    statistics.after += isCollective;
    if (!isCollective)
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          BlockCombiner(inner, options, nullptr, nullptr, statistics).run();
    if (!isMemoryEffectFree(&op)) {
      planSegment(candidates);
      segmentStart = &op;
    }
  }
  planSegment(candidates);
}

/// A remark for each bucket; numbers ops only if somebody listens.
void BlockCombiner::report() {
  if (!block.getParentOp()->getContext()->getRemarkEngine())
    return;
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op : block)
    numbers[&op] = numbers.size();
  for (PlacedBucket &bucket : buckets)
    remark::passed(bucket.members.front().candidate->getOp().getLoc(),
                   options.remarkNamed("Bucket"))
        << remark::metric("bytes", bucket.bytes)
        << remark::metric("tensors", bucket.members.size())
        << remark::metric("position",
                          bucket.ready ? numbers[bucket.ready] + 1 : 0)
        << remark::metric("of", numbers.size());
}

void BlockCombiner::run() {
  plan();
  report();
  // All places first: moving an op changes what is after another one.
  SmallVector<Block::iterator> places;
  for (const PlacedBucket &bucket : buckets)
    places.push_back(getPlace(bucket));
  // Buckets that meet at one place are in the order of their last operands.
  SmallVector<size_t> inOrder =
      llvm::to_vector(llvm::seq<size_t>(0, buckets.size()));
  llvm::sort(inOrder, [&](size_t a, size_t b) {
    Operation *readyA = buckets[a].ready, *readyB = buckets[b].ready;
    return readyA == readyB ? a < b : isBefore(readyA, readyB);
  });
  for (size_t i : inOrder)
    emit(buckets[i], places[i]);
  statistics.after += buckets.size();
}
