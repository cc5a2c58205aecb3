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
// use(c) the first op that uses a result. A run of candidates is planned
// together if every ready(c) in it is before every use(c); so a bucket, which
// stands behind the ready(c) of its members and of the buckets before it on
// its stream, is before every use. A candidate with an operand from another
// one is ready at its own place, which is behind that one's bucket, as it is a
// use of it; so no candidate needs a place that depends on where others go.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BucketPlanning.h"
#include "Communicate/Communicator.h"
#include "Communicate/Model.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Transforms/Passes.h"
#include <deque>

namespace mpcomm {
#define GEN_PASS_DEF_COMBINECOLLECTIVESPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

#define DEBUG_TYPE "mpcomm-combine-collectives"

using namespace mlir;
using namespace mpcomm;

namespace {

/// A bucket in terms of the IR: parts of candidates, and the op behind which it
/// stands.
struct PlacedBucket {
  struct Part {
    const BucketCandidate *candidate;
    /// Of one that is split: elements [begin, begin + count) in memory order.
    int64_t begin = 0, count = 0;
    bool isWhole = true;
  };
  SmallVector<Part> parts;
  Operation *ready = nullptr;
  int64_t bytes = 0;
  /// The user's cap kept the next tensor out.
  bool isCapped = false;
};

/// Collectives of a function at first, and how many went into another one.
struct Statistics {
  int64_t before = 0, after = 0;
};

struct Options {
  BucketPolicy policy;
  BucketLimits limits;
  Numerics numerics;
  StringRef function;
};

/// The plan for one block, and its application.
class BlockCombiner {
public:
  /// `model` and `step` may be null; `step` is that of the block's function.
  BlockCombiner(Block &block, const Options &options, const CostModel *model,
                const StepModel *step, Statistics &statistics)
      : block(block), options(options), model(model), times(block, step),
        statistics(statistics) {}

  void run();

private:
  void plan();
  void planRun(MutableArrayRef<BucketCandidate> candidates);
  void markCapped(const ChosenPlan &chosen);
  void planSegment(SmallVectorImpl<BucketCandidate> &candidates);
  std::optional<BucketCandidate> getCandidate(Operation *op,
                                              Operation *segmentStart);
  Block::iterator getPlace(const PlacedBucket &bucket);
  void emit(PlacedBucket &bucket, Block::iterator at);
  Value slicePart(OpBuilder &builder, const PlacedBucket::Part &part);
  void joinParts(AllReduceOp op, Block::iterator at);
  void report();
  remark::RemarkOpts remarkNamed(StringRef name) const {
    return remark::RemarkOpts::name(name)
        .category(DEBUG_TYPE)
        .function(options.function);
  }

  Block &block;
  const Options &options;
  const CostModel *model;
  BlockTimes times;
  Statistics &statistics;
  std::deque<SmallVector<BucketCandidate>> runs; // what buckets point into
  SmallVector<PlacedBucket> buckets;
  /// Candidates; once known, with the first op behind that is none.
  llvm::DenseMap<Operation *, std::optional<Block::iterator>> moving;
  /// Reduced parts of a candidate that is split, in order, and how many lack.
  struct Pieces {
    SmallVector<Value> values;
    int64_t missing = 0;
  };
  llvm::DenseMap<Operation *, Pieces> pieces;
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

/// Whether an element's place in a bucket may change its sum.
static bool dependsOnPlace(AllReduceOp op) {
  if (op.getReduction() == Reduction::Min ||
      op.getReduction() == Reduction::Max)
    return false;
  auto collective = cast<CollectiveOpInterface>(op.getOperation());
  FailureOr<int64_t> group = collective.getGroupSize();
  return failed(group) || *group > 2; // a + b is b + a
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
    remark::missed(kept.front().getOp().getLoc(), remarkNamed("BucketPlan"))
        << remark::reason("{0}", chosen.error);
    for (const BucketCandidate &candidate : kept) {
      PlacedBucket &bucket = buckets.emplace_back();
      bucket.parts.push_back({&candidate});
      bucket.ready = candidate.ready;
      bucket.bytes = candidate.bytes;
    }
    return;
  }
  remark::passed(kept.front().getOp().getLoc(), remarkNamed("BucketPlan"))
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
      PlacedBucket::Part part{&candidate};
      part.isWhole = slice.bytes == candidate.bytes;
      if (!part.isWhole) {
        part.begin = slice.offset / element;
        part.count = slice.bytes / element;
        ++pieces[candidate.op].missing;
      }
      bucket.parts.push_back(part);
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

/// Cuts candidates that no ordering point separates into runs.
void BlockCombiner::planSegment(SmallVectorImpl<BucketCandidate> &candidates) {
  llvm::sort(candidates, [](BucketCandidate &a, BucketCandidate &b) {
    return a.ready == b.ready ? a.op->isBeforeInBlock(b.op)
                              : isBefore(a.ready, b.ready);
  });
  size_t begin = 0;
  Operation *use = nullptr;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (use && !isBefore(candidates[i].ready, use)) {
      remark::missed(candidates[i].op.getLoc(), remarkNamed("BucketClosed"))
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
    bool isCollective = isa<CollectiveOpInterface, AsyncOp>(op);
    statistics.before += isCollective;
    if (std::optional<BucketCandidate> candidate =
            getCandidate(&op, segmentStart)) {
      moving.try_emplace(&op);
      candidates.push_back(*candidate);
      continue;
    }
    statistics.after += isCollective;
    if (!isa<AsyncOp>(op))
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

/// The first op behind the bucket's last operand that stays where it is.
Block::iterator BlockCombiner::getPlace(const PlacedBucket &bucket) {
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

/// The elements of a part, in a row.
Value BlockCombiner::slicePart(OpBuilder &builder,
                               const PlacedBucket::Part &part) {
  AllReduceOp op = part.candidate->op;
  Value value = op.getInputs().front();
  auto type = cast<RankedTensorType>(value.getType());
  auto flat =
      RankedTensorType::get(type.getNumElements(), type.getElementType());
  if (flat != type)
    value = ReshapeOp::create(builder, op.getLoc(), flat, value);
  return SliceOp::create(
      builder, op.getLoc(),
      RankedTensorType::get(part.count, type.getElementType()), value,
      ArrayRef<int64_t>(part.begin), ArrayRef<int64_t>(part.begin + part.count),
      ArrayRef<int64_t>(1));
}

/// Puts the reduced parts of `op` together, before `at`.
void BlockCombiner::joinParts(AllReduceOp op, Block::iterator at) {
  OpBuilder builder(&block, at);
  Value result = op.getOutputs().front();
  auto type = cast<RankedTensorType>(result.getType());
  auto flat =
      RankedTensorType::get(type.getNumElements(), type.getElementType());
  Value joined = ConcatenateOp::create(builder, op.getLoc(), flat,
                                       pieces[op].values, /*dim=*/0);
  if (flat != type)
    joined = ReshapeOp::create(builder, op.getLoc(), type, joined);
  result.replaceAllUsesWith(joined);
  op.erase();
}

void BlockCombiner::emit(PlacedBucket &bucket, Block::iterator at) {
  AllReduceOp first = bucket.parts.front().candidate->op;
  if (bucket.parts.size() == 1 && bucket.parts.front().isWhole) {
    first->moveBefore(&block, at);
    if (bucket.isCapped)
      first->setAttr(kUserCapAttr, UnitAttr::get(first.getContext()));
    return;
  }
  OpBuilder builder(first.getContext());
  builder.setInsertionPoint(&block, at);
  SmallVector<Value> inputs;
  SmallVector<Location> locations;
  for (PlacedBucket::Part &part : bucket.parts) {
    if (part.isWhole)
      llvm::append_range(inputs, part.candidate->getOp().getInputs());
    else
      inputs.push_back(slicePart(builder, part));
    locations.push_back(part.candidate->getOp().getLoc());
  }
  auto combined = AllReduceOp::create(
      builder, builder.getFusedLoc(locations), inputs, first.getMeshAttr(),
      first.getAxesAttr(), first.getReductionAttr(), first.getWireAttr(),
      first.getAccumulateAttr());
  combined->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  if (bucket.isCapped)
    combined->setAttr(kUserCapAttr, builder.getUnitAttr());
  ResultRange results = combined.getOutputs();
  for (PlacedBucket::Part &part : bucket.parts) {
    AllReduceOp op = part.candidate->op;
    size_t count = part.isWhole ? op->getNumResults() : 1;
    if (part.isWhole) {
      op->replaceAllUsesWith(results.take_front(count));
      op->erase();
    } else {
      Pieces &reduced = pieces[op];
      reduced.values.push_back(results.front());
      if (--reduced.missing == 0)
        joinParts(op, at);
    }
    results = results.drop_front(count);
  }
}

/// A remark for each bucket; numbers ops only if somebody listens.
void BlockCombiner::report() {
  if (!block.getParentOp()->getContext()->getRemarkEngine())
    return;
  llvm::DenseMap<Operation *, int64_t> numbers;
  for (Operation &op : block)
    numbers[&op] = numbers.size();
  for (PlacedBucket &bucket : buckets)
    remark::passed(bucket.parts.front().candidate->getOp().getLoc(),
                   remarkNamed("Bucket"))
        << remark::metric("bytes", bucket.bytes)
        << remark::metric("tensors", bucket.parts.size())
        << remark::metric("position",
                          bucket.ready ? numbers[bucket.ready] + 1 : 0)
        << remark::metric("of", numbers.size());
}

void BlockCombiner::run() {
  plan();
  report();
  // All places first: moving an op changes what is behind another one.
  SmallVector<Block::iterator> places;
  for (const PlacedBucket &bucket : buckets)
    places.push_back(getPlace(bucket));
  // Buckets that meet at one place stand in the order of their last operands.
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

namespace {
struct CombineCollectives
    : mpcomm::impl::CombineCollectivesPassBase<CombineCollectives> {
  using CombineCollectivesPassBase::CombineCollectivesPassBase;

  void runOnOperation() override {
    BucketLimits limits;
    auto orUnlimited = [](int64_t bytes) {
      return bytes > 0 ? bytes : BucketingProblem::unlimited;
    };
    for (auto *option :
         {&maxBucketBytes, &firstBucketBytes, &memoryBytes, &splitBytes})
      if (*option < 0) {
        emitError(getOperation().getLoc())
            << "expects sizes of at least 0 bytes, got " << option->getArgStr()
            << "=" << option->getValue();
        return signalPassFailure();
      }
    limits.capBytes = orUnlimited(maxBucketBytes);
    limits.firstBytes = firstBucketBytes;
    limits.memoryBytes = orUnlimited(memoryBytes);
    limits.splitBytes = splitBytes;
    limits.decomposes = decompose && numerics != Numerics::Exact;

    FailureOr<CostModel> model =
        getCostModel(getOperation(), cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    forEachFunction(getOperation(), [&](FunctionOpInterface function) {
      combine(function, *model, limits);
    });
  }

private:
  void combine(FunctionOpInterface function, const CostModel &model,
               const BucketLimits &limits) {
    Options options{policy, limits, numerics, function.getName()};
    auto named = [&](StringRef name) {
      return remark::RemarkOpts::name(name)
          .category(DEBUG_TYPE)
          .function(function.getName());
    };
    bool hasAllReduce =
        function->walk([](AllReduceOp) { return WalkResult::interrupt(); })
            .wasInterrupted();
    std::optional<StepModel> step;
    std::string why;
    if (hasAllReduce) {
      step = getStepModel(function, model, why);
      if (!step)
        remark::missed(function.getLoc(), named("NoModel"))
            << remark::reason("{0}", why);
    }
    Statistics statistics;
    for (Block &block : function.getFunctionBody())
      BlockCombiner(block, options, &model, step ? &*step : nullptr, statistics)
          .run();
    if (!statistics.before)
      return;
    remark::analysis(function.getLoc(), named("CombineCollectives"))
        << remark::metric("before", statistics.before)
        << remark::metric("after", statistics.after);
  }
};
} // namespace
