//===- BlockCombiner.cpp - which collectives share a bucket ---------------===//
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

std::optional<BucketCandidate>
BlockCombiner::getCandidate(Operation *op, Operation *segmentStart) {
  auto bucket = dyn_cast<BucketableOpInterface>(op);
  if (!bucket)
    return std::nullopt;
  Attribute key = bucket.getBucketKey();
  if (!key || (options.numerics == Numerics::Exact && dependsOnPlace(bucket)))
    return std::nullopt;
  Operation *ready = segmentStart;
  for (Value input : op->getOperands()) {
    Operation *def = input.getDefiningOp();
    if (def && def->getBlock() == &block)
      ready = getLater(ready, moving.contains(def) ? op : def);
  }
  Operation *use = getFirstUse(op);
  if (isBefore(op, ready) || (use && !isBefore(op, use)))
    return std::nullopt; // no dominance: a graph region
  return BucketCandidate{bucket, key, ready, use,
                         CostModel::getWireBytes(bucket)};
}

/// Plans candidates of which each is ready before the first use of any.
void BlockCombiner::planRun(MutableArrayRef<BucketCandidate> candidates) {
  if (candidates.empty())
    return;
  ArrayRef<BucketCandidate> kept =
      runs.emplace_back(candidates.begin(), candidates.end());
  bool isGather = kept.front().getOp().isGather();
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
  SmallVector<Operation *> places(chosen.plan.buckets.size(), nullptr);
  if (isGather)
    places = getGatherPlaces(chosen.plan, kept);
  for (auto [place, planned] : llvm::zip_equal(places, chosen.plan.buckets)) {
    PlacedBucket &bucket = buckets.emplace_back();
    for (int64_t i = planned.begin; isGather && i < planned.end; ++i)
      bucket.bytes += kept[chosen.plan.slices[i].tensor].bytes;
    if (!isGather)
      bucket.bytes = planned.bytes;
    Operation *&ready = lastReady[planned.stream];
    ready = getLater(ready, place);
    for (int64_t i = planned.begin; i < planned.end; ++i) {
      const BucketingPlan::Slice &slice = chosen.plan.slices[i];
      const BucketCandidate &candidate = kept[slice.tensor];
      int64_t element = chosen.problem.tensors[slice.tensor].elementBytes;
      PlacedBucket::Member member{&candidate};
      member.isWhole = isGather || slice.bytes == candidate.bytes;
      if (!member.isWhole) {
        member.begin = slice.offset / element;
        member.count = slice.bytes / element;
        ++pieces[candidate.op].missing;
      }
      bucket.members.push_back(member);
      ready = getLater(ready, candidate.ready);
      times.setArrival(candidate.op, planned.finish);
    }
    bucket.ready = ready;
  }
  markCapped(chosen, isGather);
}

/// Marks buckets that could not take in the first tensor of the next one of
/// their stream and key; gathers, which are filled from the last one on, those
/// that could not take in the last tensor of the one before. They are the last
/// in `buckets`.
void BlockCombiner::markCapped(const ChosenPlan &chosen, bool isGather) {
  const BucketingPlan &plan = chosen.plan;
  if (options.limits.getCap() == BucketingProblem::unlimited)
    return;
  llvm::DenseMap<std::pair<int, int>, size_t> open;
  size_t first = buckets.size() - plan.buckets.size();
  for (size_t k = 0, e = plan.buckets.size(); k < e; ++k) {
    size_t i = isGather ? e - 1 - k : k;
    const BucketingPlan::Bucket &bucket = plan.buckets[i];
    auto [it, isNew] = open.try_emplace({bucket.stream, bucket.key}, i);
    if (isNew)
      continue;
    int64_t next = plan.slices[isGather ? bucket.end - 1 : bucket.begin].bytes;
    buckets[first + it->second].isCapped =
        next > options.limits.getCap() - plan.buckets[it->second].bytes;
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
    if (std::optional<BucketCandidate> candidate = getCandidate(&op, nullptr);
        candidate && !candidate->op.isGather()) {
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

/// For each bucket of gathers, the last op that it is after, apart from its
/// operands: computation waits no longer if it starts there, by the model, and
/// before it takes no memory. Without times there are those of gathers of state
/// alone, for their memory.
SmallVector<Operation *>
BlockCombiner::getGatherPlaces(const BucketingPlan &plan,
                               ArrayRef<BucketCandidate> kept) {
  SmallVector<Operation *> places(plan.buckets.size(), nullptr);
  Operation *use = nullptr; // of this bucket and those after it
  for (size_t b = places.size(); times.areKnown() && b-- > 0;) {
    const BucketingPlan::Bucket &planned = plan.buckets[b];
    for (int64_t i = planned.begin; i < planned.end; ++i)
      use = getEarlierUse(use, kept[plan.slices[i].tensor].use);
    // The start from the end of computation, whatever computation waits for.
    places[b] =
        times.getLastEnded(times.getEnd() - (plan.stepEnd - planned.start));
    if (use && !isBefore(places[b], use))
      places[b] = use->getPrevNode();
  }
  boundGathers(plan, kept, places);
  return places;
}

/// Moves gathers of state, which could all be the first, to where they are
/// needed next (getGatherBefore).
void BlockCombiner::boundGathers(const BucketingPlan &plan,
                                 ArrayRef<BucketCandidate> kept,
                                 MutableArrayRef<Operation *> places) {
  if (!llvm::all_of(kept, [](const BucketCandidate &candidate) {
        return gathersState(candidate.getOp());
      }))
    return;
  SmallVector<int64_t> bytes;
  SmallVector<Operation *> uses;
  for (const BucketingPlan::Bucket &planned : plan.buckets) {
    bytes.push_back(0);
    uses.push_back(nullptr);
    for (int64_t i = planned.begin; i < planned.end; ++i) {
      const BucketCandidate &candidate = kept[plan.slices[i].tensor];
      bytes.back() += candidate.bytes;
      uses.back() = getEarlierUse(uses.back(), candidate.use);
    }
  }
  int64_t largest = *std::max_element(bytes.begin(), bytes.end());
  for (size_t b = 0; b < places.size(); ++b) {
    int before = getGatherBefore(ArrayRef(bytes).take_front(b + 1), largest);
    Operation *reader = before < 0 ? nullptr : getReader(uses[before]);
    if (reader && uses[b] && isBefore(reader, uses[b]))
      places[b] = getLater(places[b], reader);
  }
}

/// Cuts gathers of a segment into runs of one communicator each.
void BlockCombiner::planGathers(MutableArrayRef<BucketCandidate> gathers) {
  llvm::MapVector<Attribute, SmallVector<BucketCandidate>> byCommunicator;
  for (const BucketCandidate &gather : gathers)
    byCommunicator[getCommunicator(gather.op)].push_back(gather);
  for (auto &[_, candidates] : byCommunicator) {
    llvm::DenseMap<Operation *, Operation *> readers; // of uses
    for (const BucketCandidate &candidate : candidates)
      readers[candidate.use] = getReader(candidate.use);
    llvm::sort(candidates, [&](BucketCandidate &a, BucketCandidate &b) {
      // What is shaped at the end is needed there.
      Operation *aUse = readers.lookup(a.use) ? a.use : nullptr;
      Operation *bUse = readers.lookup(b.use) ? b.use : nullptr;
      if (aUse != bUse)
        return aUse && (!bUse || aUse->isBeforeInBlock(bUse));
      return a.ready == b.ready ? a.op->isBeforeInBlock(b.op)
                                : isBefore(a.ready, b.ready);
    });
    // A run ends before the first one that is ready after the run's first use.
    // Nor does one join that is used before all of the run are ready.
    size_t begin = 0;
    Operation *use = nullptr,
              *ready = nullptr; // the first, the last of the run
    for (size_t i = 0; i < candidates.size(); ++i) {
      const BucketCandidate &next = candidates[i];
      if ((use && !isBefore(next.ready, use)) ||
          (i > begin && next.use && !isBefore(ready, next.use))) {
        planRun(MutableArrayRef(candidates).slice(begin, i - begin));
        begin = i;
        use = ready = nullptr;
      }
      use = getEarlierUse(use, next.use);
      ready = getLater(ready, next.ready);
    }
    planRun(MutableArrayRef(candidates).drop_front(begin));
  }
}

/// Cuts candidates that no ordering point separates into runs. `end`, the
/// ordering point after them, counts as a use of all; null: there is none.
void BlockCombiner::planSegment(SmallVectorImpl<BucketCandidate> &candidates,
                                Operation *end) {
  for (BucketCandidate &candidate : candidates)
    candidate.use = getEarlierUse(candidate.use, end);
  auto isGather = [](BucketCandidate &candidate) {
    return candidate.op.isGather();
  };
  SmallVector<BucketCandidate> gathers;
  llvm::copy_if(candidates, std::back_inserter(gathers), isGather);
  llvm::erase_if(candidates, isGather);
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
  planGathers(gathers);
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
      planSegment(candidates, &op);
      segmentStart = &op;
    }
  }
  planSegment(candidates, nullptr);
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
