//===- CombineCollectives.cpp - all_reduce ops in buckets -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buckets of all_reduce ops in ready order.
//
// The plan is made in terms of the ops that stand in the block before anything
// changes. For a candidate c: ready(c) is the last op that defines an operand,
// use(c) the first op that uses a result. A bucket B stands right behind the
// last ready(c), c in B, which is before the first use(c): invariant of
// `Bucket`. A candidate with an operand from another one is ready at its own
// place, which is behind that one's bucket, as it is a use of it; so no
// candidate needs a place that depends on where others go.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Communicator.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace mpcomm {
#define GEN_PASS_DEF_COMBINECOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-combine-collectives"

using namespace mlir;
using namespace mpcomm;

namespace {

struct Candidate {
  AllReduceOp op;
  Attribute key;    // equal for ops that may share a bucket
  Operation *ready; // null: at the start of the block
  Operation *use;   // null: none in the block
  int64_t bytes;
};

struct Bucket {
  SmallVector<Candidate> members;
  int64_t bytes = 0;
  Operation *ready = nullptr;
  Operation *use = nullptr;
};

/// Collectives of a function at first, and how many went into another one.
struct Statistics {
  int64_t before = 0, merged = 0;
};

struct Options {
  int64_t firstBytes, otherBytes; // caps of buckets
  StringRef function;
};

/// The plan for one block, and its application.
class BlockCombiner {
public:
  BlockCombiner(Block &block, const Options &options, Statistics &statistics)
      : block(block), options(options), statistics(statistics) {}

  void run();

private:
  void plan();
  void planSegment(SmallVectorImpl<Candidate> &candidates);
  void close(Bucket &bucket, Candidate &next, StringRef why);
  std::optional<Candidate> getCandidate(Operation *op, Operation *segmentStart);
  Block::iterator getPlace(const Bucket &bucket);
  void emit(Bucket &bucket, Block::iterator at);
  void report();
  remark::RemarkOpts remarkNamed(StringRef name) const {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(options.function);
  }

  Block &block;
  const Options &options;
  Statistics &statistics;
  SmallVector<Bucket> buckets;
  llvm::DenseSet<Attribute> keysSeen; // whose first bucket is closed
  /// Candidates; once known, with the first op behind that is none.
  llvm::DenseMap<Operation *, std::optional<Block::iterator>> moving;
};

} // namespace

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

std::optional<Candidate> BlockCombiner::getCandidate(Operation *op,
                                                     Operation *segmentStart) {
  auto allReduce = dyn_cast<AllReduceOp>(op);
  if (!allReduce)
    return std::nullopt;
  Attribute key = getKey(allReduce);
  if (!key)
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
  return Candidate{allReduce, key, ready, use, allReduce.getPayloadBytes()};
}

void BlockCombiner::close(Bucket &bucket, Candidate &next, StringRef why) {
  remark::missed(next.op.getLoc(), remarkNamed("BucketClosed"))
      << remark::reason("{0}", why) << remark::metric("bytes", bucket.bytes)
      << remark::metric("tensors", bucket.members.size());
  keysSeen.insert(next.key);
  buckets.push_back(std::move(bucket));
  bucket = Bucket();
}

/// Fills buckets with candidates that no ordering point separates.
void BlockCombiner::planSegment(SmallVectorImpl<Candidate> &candidates) {
  llvm::sort(candidates, [](Candidate &a, Candidate &b) {
    return a.ready == b.ready ? a.op->isBeforeInBlock(b.op)
                              : isBefore(a.ready, b.ready);
  });
  llvm::MapVector<Attribute, Bucket> open;
  for (Candidate &next : candidates) {
    Bucket &bucket = open[next.key];
    if (!bucket.members.empty()) {
      int64_t cap =
          keysSeen.contains(next.key) ? options.otherBytes : options.firstBytes;
      if (bucket.use && !isBefore(next.ready, bucket.use))
        close(bucket, next,
              "a result is used before the next operand is ready");
      else if (bucket.bytes + next.bytes > cap)
        close(bucket, next, "full");
    }
    bucket.bytes += next.bytes;
    bucket.ready = next.ready; // in ready order: the last so far
    bucket.use = getEarlierUse(bucket.use, next.use);
    bucket.members.push_back(next);
  }
  for (auto &[key, bucket] : open) {
    keysSeen.insert(key);
    buckets.push_back(std::move(bucket));
  }
  candidates.clear();
}

void BlockCombiner::plan() {
  SmallVector<Candidate> candidates;
  Operation *segmentStart = nullptr;
  for (Operation &op : block) {
    if (isa<CollectiveOpInterface>(op))
      ++statistics.before;
    if (std::optional<Candidate> candidate = getCandidate(&op, segmentStart)) {
      moving.try_emplace(&op);
      candidates.push_back(*candidate);
      continue;
    }
    if (isa<AsyncOp>(op))
      ++statistics.before;
    else
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          BlockCombiner(inner, options, statistics).run();
    if (!isMemoryEffectFree(&op)) {
      planSegment(candidates);
      segmentStart = &op;
    }
  }
  planSegment(candidates);
}

/// The first op behind the bucket's last operand that stays where it is.
Block::iterator BlockCombiner::getPlace(const Bucket &bucket) {
  auto at =
      bucket.ready ? std::next(bucket.ready->getIterator()) : block.begin();
  SmallVector<Operation *> passed;
  for (; at != block.end(); ++at) {
    auto it = moving.find(&*at);
    if (it == moving.end())
      break;
    if (it->second) {
      at = *it->second;
      break;
    }
    passed.push_back(&*at);
  }
  for (Operation *op : passed)
    moving[op] = at;
  return at;
}

void BlockCombiner::emit(Bucket &bucket, Block::iterator at) {
  AllReduceOp first = bucket.members.front().op;
  if (bucket.members.size() == 1) {
    first->moveBefore(&block, at);
    return;
  }
  SmallVector<Value> inputs;
  SmallVector<Location> locations;
  for (Candidate &member : bucket.members) {
    llvm::append_range(inputs, member.op.getInputs());
    locations.push_back(member.op.getLoc());
  }
  OpBuilder builder(first.getContext());
  builder.setInsertionPoint(&block, at);
  auto combined = AllReduceOp::create(
      builder, builder.getFusedLoc(locations), inputs, first.getMeshAttr(),
      first.getAxesAttr(), first.getReductionAttr(), first.getWireAttr(),
      first.getAccumulateAttr());
  combined->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  ResultRange results = combined.getOutputs();
  for (Candidate &member : bucket.members) {
    member.op->replaceAllUsesWith(
        results.take_front(member.op->getNumResults()));
    results = results.drop_front(member.op->getNumResults());
    member.op->erase();
  }
}

/// A remark for each bucket; numbers ops only if somebody listens.
void BlockCombiner::report() {
  if (!block.getParentOp()->getContext()->getRemarkEngine())
    return;
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op : block)
    numbers[&op] = numbers.size();
  for (Bucket &bucket : buckets)
    remark::passed(bucket.members.front().op.getLoc(), remarkNamed("Bucket"))
        << remark::metric("bytes", bucket.bytes)
        << remark::metric("tensors", bucket.members.size())
        << remark::metric("position",
                          bucket.ready ? numbers[bucket.ready] + 1 : 0)
        << remark::metric("of", numbers.size());
}

void BlockCombiner::run() {
  plan();
  report();
  // All places first: moving an op changes what is behind another one.
  SmallVector<Block::iterator> places;
  for (const Bucket &bucket : buckets)
    places.push_back(getPlace(bucket));
  // Buckets that meet at one place stand in the order of their last operands.
  SmallVector<size_t> inOrder =
      llvm::to_vector(llvm::seq<size_t>(0, buckets.size()));
  llvm::sort(inOrder, [&](size_t a, size_t b) {
    Operation *readyA = buckets[a].ready, *readyB = buckets[b].ready;
    return readyA == readyB ? a < b : isBefore(readyA, readyB);
  });
  for (size_t i : inOrder) {
    statistics.merged += buckets[i].members.size() - 1;
    emit(buckets[i], places[i]);
  }
}

namespace {
struct CombineCollectives
    : mpcomm::impl::CombineCollectivesPassBase<CombineCollectives> {
  using CombineCollectivesPassBase::CombineCollectivesPassBase;

  void runOnOperation() override {
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      Options options{firstBucketBytes, maxBucketBytes, function.getName()};
      Statistics statistics;
      for (Block &block : function.getFunctionBody())
        BlockCombiner(block, options, statistics).run();
      if (!statistics.before)
        return;
      remark::analysis(function.getLoc(),
                       remark::RemarkOpts::name("CombineCollectives")
                           .category(DEBUG_TYPE)
                           .function(function.getName()))
          << remark::metric("before", statistics.before)
          << remark::metric("after", statistics.before - statistics.merged);
    });
  }
};
} // namespace
