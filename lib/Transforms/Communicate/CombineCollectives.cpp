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
// All of it is in positions of the ops before anything changes. For a candidate
// c: ready(c) is the position of the last op that defines an operand, use(c)
// that of the first op that uses a result. A bucket B stands right behind
// max ready(c), c in B, which must be less than min use(c): invariant of
// `Bucket`. A candidate with an operand from another one is ready at its own
// position, which is behind that one's bucket, as it is a use of it; so no
// candidate needs a position that depends on where others go.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockOrder.h"
#include "Communicate/Communicator.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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
  Attribute key; // equal for ops that may share a bucket
  int64_t position;
  int64_t ready; // -1: before the block
  int64_t use;
  int64_t bytes;
};

struct Bucket {
  SmallVector<Candidate> members;
  int64_t bytes = 0;
  int64_t position = -1;
  int64_t use = std::numeric_limits<int64_t>::max();

  void add(const Candidate &candidate) {
    members.push_back(candidate);
    bytes += candidate.bytes;
    position = std::max(position, candidate.ready);
    use = std::min(use, candidate.use);
  }
};

struct Caps {
  int64_t first, others;
};

/// The plan for one block, and its application.
class BlockCombiner {
public:
  BlockCombiner(Block &block, Caps caps, StringRef function)
      : block(block), order(block), caps(caps), function(function) {}

  void run() {
    plan();
    apply();
  }

private:
  void plan();
  void planSegment(SmallVectorImpl<Candidate> &candidates);
  void close(Bucket &bucket, Candidate &next, StringRef why);
  void apply();
  void emit(Bucket &bucket, Block::iterator at);
  std::optional<Candidate> getCandidate(Operation *op, int64_t position,
                                        int64_t segmentStart);
  remark::RemarkOpts remarkNamed(StringRef name) const {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(function);
  }

  Block &block;
  BlockOrder order;
  Caps caps;
  StringRef function;
  SmallVector<Bucket> buckets;
  llvm::DenseSet<Attribute> keysSeen; // whose first bucket is closed
  llvm::DenseSet<Operation *> moving; // candidates
};

} // namespace

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
                                                     int64_t position,
                                                     int64_t segmentStart) {
  auto allReduce = dyn_cast<AllReduceOp>(op);
  if (!allReduce)
    return std::nullopt;
  Attribute key = getKey(allReduce);
  if (!key)
    return std::nullopt;
  int64_t ready = segmentStart;
  for (Value input : allReduce.getInputs()) {
    Operation *def = input.getDefiningOp();
    if (!def || def->getBlock() != &block)
      continue;
    ready =
        std::max(ready, moving.contains(def) ? position
                                             : int64_t(order.getPosition(def)));
  }
  int64_t use = order.getFirstUse(op);
  if (ready > position || use <= position) // no dominance: a graph region
    return std::nullopt;
  return Candidate{allReduce, key, position,
                   ready,     use, allReduce.getPayloadBytes()};
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
  llvm::sort(candidates, [](const Candidate &a, const Candidate &b) {
    return std::pair(a.ready, a.position) < std::pair(b.ready, b.position);
  });
  llvm::MapVector<Attribute, Bucket> open;
  for (Candidate &next : candidates) {
    Bucket &bucket = open[next.key];
    if (!bucket.members.empty()) {
      int64_t cap = keysSeen.contains(next.key) ? caps.others : caps.first;
      if (std::min(bucket.use, next.use) <=
          std::max(bucket.position, next.ready))
        close(bucket, next,
              "a result is used before the next operand is ready");
      else if (bucket.bytes + next.bytes > cap)
        close(bucket, next, "full");
    }
    bucket.add(next);
  }
  for (auto &[key, bucket] : open) {
    keysSeen.insert(key);
    buckets.push_back(std::move(bucket));
  }
  candidates.clear();
}

void BlockCombiner::plan() {
  SmallVector<Candidate> candidates;
  int64_t segmentStart = -1;
  for (auto [position, op] : llvm::enumerate(order.getOps())) {
    if (std::optional<Candidate> candidate =
            getCandidate(op, position, segmentStart)) {
      moving.insert(op);
      candidates.push_back(*candidate);
    } else if (!isMemoryEffectFree(op)) {
      planSegment(candidates);
      segmentStart = position;
    }
  }
  planSegment(candidates);
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

void BlockCombiner::apply() {
  // The op before which a bucket at position p goes: the first one behind p
  // that stays.
  SmallVector<Block::iterator> behind(order.size() + 1, block.end());
  for (int64_t p = order.size(); p-- > 0;)
    behind[p] = moving.contains(order.getOps()[p])
                    ? behind[p + 1]
                    : Block::iterator(order.getOps()[p]);
  SmallVector<std::pair<int64_t, size_t>> byPosition;
  for (auto [i, bucket] : llvm::enumerate(buckets))
    byPosition.emplace_back(bucket.position, i);
  llvm::sort(byPosition);
  for (auto [position, i] : byPosition) {
    Bucket &bucket = buckets[i];
    remark::passed(bucket.members.front().op.getLoc(), remarkNamed("Bucket"))
        << remark::metric("bytes", bucket.bytes)
        << remark::metric("tensors", bucket.members.size())
        << remark::metric("position", position + 1)
        << remark::metric("of", order.size());
    emit(bucket, behind[position + 1]);
  }
}

static int64_t countCollectives(FunctionOpInterface function) {
  int64_t n = 0;
  function->walk([&](CollectiveOpInterface) { ++n; });
  return n;
}

namespace {
struct CombineCollectives
    : mpcomm::impl::CombineCollectivesPassBase<CombineCollectives> {
  using CombineCollectivesPassBase::CombineCollectivesPassBase;

  void runOnOperation() override {
    getOperation().walk([&](FunctionOpInterface function) {
      int64_t before = countCollectives(function);
      if (before == 0)
        return;
      function->walk([&](Block *block) {
        if (!isa_and_nonnull<AsyncOp>(block->getParentOp()) &&
            llvm::any_of(*block, llvm::IsaPred<AllReduceOp>))
          BlockCombiner(*block, {firstBucketBytes, maxBucketBytes},
                        function.getName())
              .run();
      });
      remark::analysis(function.getLoc(),
                       remark::RemarkOpts::name("CombineCollectives")
                           .category(DEBUG_TYPE)
                           .function(function.getName()))
          << remark::metric("before", before)
          << remark::metric("after", countCollectives(function));
    });
  }
};
} // namespace
