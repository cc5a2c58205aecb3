//===- StageTail.cpp - collectives and updates of a rank ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageTail.h"
#include "Parallelize/StageClone.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// What a rank has
//===----------------------------------------------------------------------===//

namespace {

/// What a value of the tail is made of.
struct Slice {
  llvm::DenseSet<unsigned> sums, states;
  llvm::DenseSet<Value> arguments;
};

class Planner {
public:
  Planner(StageParts &parts, const PipelineSchedule &schedule, int rank)
      : parts(parts), micro(parts.getGraph().getMicroBatch()),
        schedule(schedule), rank(rank) {
    plan.rank = rank;
  }
  FailureOr<TailPlan> run();

private:
  SmallVector<int> ranksOf(ArrayRef<int> stages) const;
  void findSums();
  void addParts();
  LogicalResult ownResults();
  void markOps();
  Slice sliceOf(Value value) const;
  bool isResident(const Slice &slice) const;
  bool hasAll(const Slice &slice) const;
  LogicalResult checkStale(const llvm::DenseSet<unsigned> &own) const;

  StageParts &parts;
  const MicroBatch &micro;
  const PipelineSchedule &schedule;
  int rank;
  TailPlan plan;
  llvm::DenseMap<Value, unsigned> sumOf, stateOf;
  std::vector<Slice> slices;                             // by result
  llvm::DenseSet<Value> needed;                          // arguments
  std::vector<SmallVector<int>> residents, contributors; // by sum
};

} // namespace

SmallVector<int> Planner::ranksOf(ArrayRef<int> stages) const {
  SmallVector<int> ranks;
  for (int stage : stages)
    ranks.push_back(schedule.rankOf(stage));
  llvm::sort(ranks);
  ranks.erase(llvm::unique(ranks), ranks.end());
  return ranks;
}

/// Whoever reads a state has to make it anew, and needs the sums for that.
void Planner::findSums() {
  func::FuncOp step = micro.step;
  std::vector<std::vector<int>> stages;
  for (auto [i, sum] : llvm::enumerate(micro.sums)) {
    for (OpOperand *use : sum.uses)
      sumOf[use->get()] = i;
    stages.push_back(parts.getContributors(i));
    contributors.push_back(ranksOf(stages.back()));
  }
  for (auto [i, state] : llvm::enumerate(micro.states))
    stateOf[state.after] = i;
  auto exit = step.getFunctionBody().front().getTerminator();
  for (Value value : exit->getOperands())
    slices.push_back(sliceOf(value));
  for (BlockArgument argument : step.getArguments())
    if (auto result = getDonation(step, argument.getArgNumber()))
      for (unsigned sum : slices[*result].sums)
        llvm::append_range(stages[sum], parts.getHolders(argument));
  for (unsigned i = 0; i < micro.sums.size(); ++i) {
    residents.push_back(ranksOf(stages[i]));
    if (llvm::is_contained(contributors[i], rank))
      plan.ownSums.push_back(i);
    if (llvm::is_contained(residents[i], rank))
      plan.sums.push_back({i, contributors[i], residents[i]});
  }
  plan.lossRank = contributors[parts.getGraph().getLoss()].front();
}

/// What the rank's own parts read.
void Planner::addParts() {
  for (const PipelineAction &action : schedule.ranks[rank]) {
    const StagePart &part =
        parts.getPart(schedule.stageOf(rank, action.chunk), action.kind);
    needed.insert(part.captured.begin(), part.captured.end());
    needed.insert(part.batches.begin(), part.batches.end());
    needed.insert(part.seeds.begin(), part.seeds.end());
    for (unsigned state : part.states)
      needed.insert(micro.states[state].before);
  }
}

/// Flags and norms of all gradients belong to nobody: they end the slice.
Slice Planner::sliceOf(Value value) const {
  Slice slice;
  SetVector<Value> visited;
  visited.insert(value);
  for (unsigned i = 0; i < visited.size(); ++i) {
    Value next = visited[i];
    Operation *def = next.getDefiningOp();
    if (auto sum = sumOf.find(next); sum != sumOf.end()) {
      slice.sums.insert(sum->second);
    } else if (auto state = stateOf.find(next); state != stateOf.end()) {
      slice.states.insert(state->second);
    } else if (!def) {
      slice.arguments.insert(next);
    } else if (isPerGradient(def)) {
      unsigned index = cast<OpResult>(next).getResultNumber();
      if (index < countHandedOn(def))
        visited.insert(def->getOperand(index));
      visited.insert_range(def->getOperands().drop_front(countHandedOn(def)));
    } else {
      forEachOperand(def, [&](OpOperand &use) { visited.insert(use.get()); });
    }
  }
  return slice;
}

bool Planner::isResident(const Slice &slice) const {
  for (unsigned sum : slice.sums)
    if (llvm::is_contained(residents[sum], rank))
      return true;
  for (unsigned state : slice.states)
    if (schedule.rankOf(parts.getStateStage(state)) == rank)
      return true;
  return false;
}

/// Nobody has the gradients, or the state, of all stages.
bool Planner::hasAll(const Slice &slice) const {
  return llvm::all_of(slice.sums,
                      [&](unsigned sum) {
                        return llvm::is_contained(residents[sum], rank);
                      }) &&
         llvm::all_of(slice.states, [&](unsigned state) {
           return schedule.rankOf(parts.getStateStage(state)) == rank;
         });
}

/// What a rank reads of the state it has to make anew.
LogicalResult Planner::checkStale(const llvm::DenseSet<unsigned> &own) const {
  func::FuncOp step = micro.step;
  for (BlockArgument argument : step.getArguments()) {
    std::optional<int64_t> result = getDonation(step, argument.getArgNumber());
    if (result && needed.contains(argument) && !own.contains(*result))
      return step.emitOpError()
             << "has rank " << rank << " of the pipeline read "
             << describeArgument(step, argument.getArgNumber())
             << ", which others make anew, expected the stages that read it to "
                "make the gradients of its update";
  }
  return success();
}

/// A result of gradients or of the micro-batches' state is made where those
/// are; one of neither where its argument is needed, or by the first rank.
LogicalResult Planner::ownResults() {
  func::FuncOp step = micro.step;
  llvm::DenseMap<Value, unsigned> uses; // of arguments, by results
  for (const Slice &slice : slices)
    for (Value argument : slice.arguments)
      ++uses[argument];
  llvm::DenseMap<int64_t, BlockArgument> donors;
  for (BlockArgument argument : step.getArguments())
    if (auto result = getDonation(step, argument.getArgNumber()))
      donors[*result] = argument;
  llvm::DenseSet<unsigned> own;
  auto take = [&](unsigned i) {
    own.insert(i);
    needed.insert(slices[i].arguments.begin(), slices[i].arguments.end());
    if (BlockArgument donor = donors.lookup(i))
      needed.insert(donor);
  };
  for (unsigned i = 0; i < slices.size(); ++i) {
    std::optional<Role> role = getResultRole(step, i);
    if (role == Role::Loss) {
      own.insert(i);
      if (rank == plan.lossRank)
        take(i);
      continue;
    }
    if (!role || !isStateRole(*role))
      return step.emitOpError()
             << "gives " << describeResult(step, i)
             << ", expected a loss or state: nobody has the gradients of all "
                "stages";
    if (!isResident(slices[i]))
      continue;
    if (!hasAll(slices[i]))
      return step.emitOpError()
             << "makes " << describeResult(step, i)
             << " of gradients or state of several stages, expected those of "
                "one: only norms and flags are put together";
    take(i);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < slices.size(); ++i) {
      if (own.contains(i) || !slices[i].sums.empty() ||
          !slices[i].states.empty())
        continue;
      BlockArgument donor = donors.lookup(i);
      bool isFree = !donor || (parts.getReaders(donor).empty() &&
                               uses.lookup(donor) <= 1);
      if (isFree ? rank == 0 : needed.contains(donor)) {
        take(i);
        changed = true;
      }
    }
  }
  if (failed(checkStale(own)))
    return failure();
  for (unsigned i = 0; i < slices.size(); ++i)
    if (own.contains(i))
      plan.results.push_back(i);
  for (BlockArgument argument : step.getArguments())
    if (needed.contains(argument))
      plan.arguments.push_back(argument);
  return success();
}

/// The ops between the sums and the rank's results.
void Planner::markOps() {
  func::FuncOp step = micro.step;
  Block &body = step.getFunctionBody().front();
  llvm::DenseSet<Value> wanted;
  for (int64_t result : plan.results)
    if (getResultRole(step, result) != Role::Loss || rank == plan.lossRank)
      wanted.insert(body.getTerminator()->getOperand(result));
  for (Operation &op : llvm::reverse(body)) {
    bool isWanted = llvm::any_of(
        op.getResults(), [&](Value result) { return wanted.contains(result); });
    if (!micro.isTail(&op) || !isWanted)
      continue;
    plan.ops.insert(&op);
    if (isPerGradient(&op)) {
      for (OpOperand &use : op.getOpOperands()) {
        if (use.getOperandNumber() < countHandedOn(&op)) {
          Slice slice = sliceOf(use.get());
          bool isOwn = slice.sums.empty() && slice.states.empty()
                           ? rank == 0
                           : isResident(slice);
          if (!isOwn) {
            plan.dropped.insert(&use);
            continue;
          }
        }
        wanted.insert(use.get());
      }
      continue;
    }
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        wanted.insert(operand);
    });
  }
}

FailureOr<TailPlan> Planner::run() {
  findSums();
  addParts();
  if (failed(ownResults()))
    return failure();
  markOps();
  return std::move(plan);
}

FailureOr<TailPlan> mpcomm::planTail(StageParts &parts,
                                     const PipelineSchedule &schedule,
                                     int rank) {
  return Planner(parts, schedule, rank).run();
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {

class TailEmitter {
public:
  TailEmitter(OpBuilder &builder, const StageParts &parts, const TailPlan &plan,
              const PipelineMesh &mesh, const PipelineSchedule &schedule,
              IRMapping &mapping)
      : builder(builder), micro(parts.getGraph().getMicroBatch()), plan(plan),
        mesh(mesh), schedule(schedule), mapping(mapping) {}
  void exchange(const llvm::DenseMap<unsigned, Value> &totals);
  void emit(const llvm::DenseMap<unsigned, Value> &states);

private:
  Value reduceOverStages(Value value, Reduction kind);
  void copy(Operation *op);
  void copyPart(Operation *op);
  bool isFirstHolder(Value value) const;
  void clip(ClipByGlobalNormOp op);
  Value finishLoss(Value original);
  void noteUses(Operation *op, Operation *made, ArrayRef<unsigned> operands);

  OpBuilder &builder;
  const MicroBatch &micro;
  const TailPlan &plan;
  const PipelineMesh &mesh;
  const PipelineSchedule &schedule;
  IRMapping &mapping;
  /// By sum: its total over all ranks that add to it, and who uses it here.
  llvm::DenseMap<unsigned, Value> whole;
  llvm::DenseMap<unsigned, SmallVector<OpOperand *>> uses;
  llvm::DenseMap<OpOperand *, unsigned> sumOfUse;
  /// By value that the tail has of a sum: the first rank that has it.
  llvm::DenseMap<Value, int> firstHolder;
};

} // namespace

/// Parameters that several ranks hold stay alike: each adds up the gradients of
/// all, in one order.
void TailEmitter::exchange(const llvm::DenseMap<unsigned, Value> &totals) {
  struct Waiting {
    unsigned sum;
    int from;
    Value future;
  };
  SmallVector<Waiting> receives;
  SmallVector<Value> sends;
  for (const TailPlan::Shared &shared : plan.sums) {
    bool isOwn = llvm::is_contained(shared.contributors, plan.rank);
    std::string tag = "tied" + std::to_string(shared.sum) + ".";
    for (int other : shared.residents)
      if (isOwn && other != plan.rank)
        sends.push_back(
            startSend(builder, mesh, totals.lookup(shared.sum), other,
                      schedule.exchangeChannelOf(plan.rank, other) + 1,
                      tag + Twine(plan.rank)));
    for (int other : shared.contributors)
      if (other != plan.rank)
        receives.push_back(
            {shared.sum, other,
             startRecv(builder, mesh, micro.sums[shared.sum].value.getLoc(),
                       micro.sums[shared.sum].getTotalType(), other,
                       schedule.exchangeChannelOf(other, plan.rank) + 1,
                       tag + Twine(other))});
  }
  std::map<std::pair<unsigned, int>, Value> arrived;
  for (const Waiting &waiting : receives)
    arrived[{waiting.sum, waiting.from}] =
        AwaitOp::create(builder, waiting.future.getLoc(), waiting.future)
            ->getResult(0);
  for (const TailPlan::Shared &shared : plan.sums) {
    Value total;
    for (int from : shared.contributors) {
      Value value = from == plan.rank ? totals.lookup(shared.sum)
                                      : arrived[{shared.sum, from}];
      total =
          total ? micro.sums[shared.sum].combine(builder, total, value) : value;
    }
    whole[shared.sum] = total;
  }
  for (Value future : sends)
    AwaitOp::create(builder, future.getLoc(), future);
}

Value TailEmitter::reduceOverStages(Value value, Reduction kind) {
  if (schedule.stages == 1)
    return value;
  auto op = AllReduceOp::create(
      builder, value.getLoc(), ValueRange(value), mesh.mesh, mesh.axes,
      ReductionAttr::get(builder.getContext(), kind), TypeAttr(), TypeAttr());
  return op.getResult(0);
}

/// `operands`: the operands of `op` that `made` has, in their order.
void TailEmitter::noteUses(Operation *op, Operation *made,
                           ArrayRef<unsigned> operands) {
  for (auto [i, operand] : llvm::enumerate(operands))
    if (auto sum = sumOfUse.find(&op->getOpOperand(operand));
        sum != sumOfUse.end())
      uses[sum->second].push_back(&made->getOpOperand(i));
}

/// A scaling or a collective of the gradients that the rank has.
void TailEmitter::copyPart(Operation *op) {
  OperationState state(op->getLoc(), op->getName());
  SmallVector<unsigned> operands, results;
  for (OpOperand &use : op->getOpOperands()) {
    if (plan.dropped.contains(&use))
      continue;
    operands.push_back(use.getOperandNumber());
    state.addOperands(cloneValue(builder, use.get(), mapping));
  }
  unsigned handedOn = countHandedOn(op);
  for (OpResult result : op->getResults()) {
    unsigned index = result.getResultNumber();
    if (index < handedOn && plan.dropped.contains(&op->getOpOperand(index)))
      continue;
    results.push_back(index);
    state.addTypes(result.getType());
  }
  state.addAttributes(op->getAttrDictionary().getValue());
  Operation *made = builder.create(state);
  noteUses(op, made, operands);
  for (auto [i, index] : llvm::enumerate(results)) {
    Value value = made->getResult(i);
    if (index >= handedOn) // a gradient of any stage is not finite
      value = reduceOverStages(value, Reduction::Max);
    mapping.map(op->getResult(index), value);
  }
}

/// Whether the rank is the first of those that have the gradients that `value`
/// is made of.
bool TailEmitter::isFirstHolder(Value value) const {
  SetVector<Value> visited;
  visited.insert(value);
  for (unsigned i = 0; i < visited.size(); ++i) {
    Value next = visited[i];
    Operation *def = next.getDefiningOp();
    if (auto first = firstHolder.find(next); first != firstHolder.end()) {
      if (first->second != plan.rank)
        return false;
    } else if (def && micro.isTail(def)) {
      if (isPerGradient(def))
        visited.insert(def->getOperand(cast<OpResult>(next).getResultNumber()));
      else
        visited.insert_range(def->getOperands());
    }
  }
  return true;
}

/// The norm is that of all stages: what several ranks hold counts on the first
/// of them.
void TailEmitter::clip(ClipByGlobalNormOp op) {
  Location loc = op.getLoc();
  SmallVector<Value> gradients, counted;
  SmallVector<unsigned> indices, countedIndices;
  for (OpOperand &use : op.getGradsMutable()) {
    if (plan.dropped.contains(&use))
      continue;
    gradients.push_back(cloneValue(builder, use.get(), mapping));
    indices.push_back(use.getOperandNumber());
    if (!isFirstHolder(use.get()))
      continue;
    counted.push_back(gradients.back());
    countedIndices.push_back(use.getOperandNumber());
  }
  Value squares;
  if (counted.empty()) {
    auto scalar = cast<RankedTensorType>(op.getNorm().getType());
    squares = arith::ConstantOp::create(
        builder, loc, cast<TypedAttr>(builder.getZeroAttr(scalar)));
  } else {
    auto own = SquaredNormOp::create(builder, loc, counted);
    noteUses(op, own, countedIndices);
    squares = own.getSquares();
  }
  squares = reduceOverStages(squares, Reduction::Sum);
  Value norm = math::SqrtOp::create(builder, loc, squares);
  mapping.map(op.getNorm(), norm);
  if (gradients.empty())
    return;
  auto made = ClipByGlobalNormOp::create(builder, loc, gradients, norm,
                                         op.getMaxNormAttr());
  noteUses(op, made, indices);
  for (auto [index, value] : llvm::zip(indices, made.getClipped()))
    mapping.map(op->getResult(index), value);
}

void TailEmitter::copy(Operation *op) {
  if (auto clipOp = dyn_cast<ClipByGlobalNormOp>(op);
      clipOp && !clipOp.getGivenNorm() && schedule.stages > 1)
    return clip(clipOp);
  if (isPerGradient(op))
    return copyPart(op);
  Operation *made = cloneWithOperands(builder, op, mapping);
  noteUses(op, made,
           llvm::to_vector(llvm::seq<unsigned>(0, op->getNumOperands())));
}

/// All ranks have the loss of the one that makes it.
Value TailEmitter::finishLoss(Value original) {
  Location loc = original.getLoc();
  if (plan.rank == plan.lossRank)
    return mapping.lookup(original);
  auto type = cast<RankedTensorType>(original.getType());
  return arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
}

void TailEmitter::emit(const llvm::DenseMap<unsigned, Value> &states) {
  func::FuncOp step = micro.step;
  Block &body = step.getFunctionBody().front();
  Operation *exit = body.getTerminator();
  for (const TailPlan::Shared &shared : plan.sums)
    for (OpOperand *use : micro.sums[shared.sum].uses) {
      mapping.map(use->get(), whole[shared.sum]);
      sumOfUse[use] = shared.sum;
      firstHolder[use->get()] = shared.residents.front();
    }
  for (auto [index, value] : states)
    mapping.map(micro.states[index].after, value);
  for (Operation &op : body)
    if (plan.ops.contains(&op))
      copy(&op);
  SmallVector<Value> returned;
  unsigned lossIndex = 0;
  Operation *lossBroadcast = nullptr;
  for (auto [i, result] : llvm::enumerate(plan.results)) {
    Value original = exit->getOperand(result);
    if (getResultRole(step, result) != Role::Loss) {
      returned.push_back(cloneValue(builder, original, mapping));
      continue;
    }
    lossIndex = result;
    Value loss = finishLoss(original);
    if (schedule.stages > 1) {
      loss = broadcastFrom(builder, mesh, loss, plan.lossRank, "loss");
      lossBroadcast = loss.getDefiningOp();
    }
    returned.push_back(loss);
  }
  auto made = func::ReturnOp::create(builder, exit->getLoc(), returned);
  for (auto [i, result] : llvm::enumerate(plan.results)) {
    auto sum = sumOfUse.find(&exit->getOpOperand(result));
    if (sum == sumOfUse.end())
      continue;
    bool isLoss = lossBroadcast && result == lossIndex;
    uses[sum->second].push_back(isLoss ? &lossBroadcast->getOpOperand(0)
                                       : &made->getOpOperand(i));
  }
  for (const TailPlan::Shared &shared : plan.sums) {
    if (uses[shared.sum].empty())
      continue;
    Value total = whole[shared.sum];
    builder.setInsertionPointAfterValue(total);
    useMean(builder, micro.sums[shared.sum], uses[shared.sum], total,
            micro.count);
  }
  if (lossBroadcast) { // of what the mean is
    Value loss = lossBroadcast->getOperand(0);
    lossBroadcast->getResult(0).setType(loss.getType());
  }
}

LogicalResult mpcomm::emitTail(OpBuilder &builder, const StageParts &parts,
                               const TailPlan &plan, const PipelineMesh &mesh,
                               const PipelineSchedule &schedule,
                               IRMapping mapping,
                               const llvm::DenseMap<unsigned, Value> &totals,
                               const llvm::DenseMap<unsigned, Value> &states) {
  TailEmitter emitter(builder, parts, plan, mesh, schedule, mapping);
  emitter.exchange(totals);
  emitter.emit(states);
  return success();
}
