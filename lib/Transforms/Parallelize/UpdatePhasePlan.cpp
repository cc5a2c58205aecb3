//===- UpdatePhasePlan.cpp - what one rank has of a step ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which gradients, states, arguments and results a rank of a pipeline holds,
// and which ops after the micro-batches it runs for them.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/UpdatePhase.h"
#include <set>

using namespace mlir;
using namespace mpcomm;

namespace {

/// What a value of the update phase is made of.
struct Slice {
  llvm::DenseSet<unsigned> sums, states;
  llvm::DenseSet<Value> arguments;
};

class UpdatePhasePlanner {
public:
  UpdatePhasePlanner(StageFunctions &stageFunctions,
                     const PipelineSchedule &schedule, int rank)
      : stageFunctions(stageFunctions),
        micro(stageFunctions.getGraph().getMicroBatch()), schedule(schedule),
        rank(rank) {
    plan.rank = rank;
  }
  FailureOr<UpdatePhasePlan> run();

private:
  SmallVector<int> ranksOf(ArrayRef<int> stages) const;
  void findSums();
  void addFunctions();
  LogicalResult ownResults();
  bool isShared(Operation *op) const;
  FailureOr<bool> counts(OpOperand &use, const Slice &slice) const;
  LogicalResult markGradients(Operation *op, llvm::DenseSet<Value> &wanted);
  LogicalResult markOps();
  Slice sliceOf(Value value) const;
  bool isResident(const Slice &slice) const;
  bool hasAll(const Slice &slice, int other) const;
  bool isMadeElsewhere(const Slice &slice, BlockArgument donor) const;
  LogicalResult checkStale(const llvm::DenseSet<unsigned> &own) const;

  StageFunctions &stageFunctions;
  const MicroBatch &micro;
  const PipelineSchedule &schedule;
  int rank;
  UpdatePhasePlan plan;
  llvm::DenseMap<Value, unsigned> sumOf, stateOf;
  /// By argument: stages that read it, or of whose state it is read.
  llvm::DenseMap<Value, std::set<int>> holders;
  std::vector<Slice> slices;                             // by result
  llvm::DenseSet<Value> needed;                          // arguments
  std::vector<SmallVector<int>> residents, contributors; // by sum
};

} // namespace

SmallVector<int> UpdatePhasePlanner::ranksOf(ArrayRef<int> stages) const {
  SmallVector<int> ranks;
  for (int stage : stages)
    ranks.push_back(schedule.rankOf(stage));
  llvm::sort(ranks);
  ranks.erase(llvm::unique(ranks), ranks.end());
  return ranks;
}

/// Whoever reads a state has to make it anew: it needs the sums for that, and
/// what else the new value is made of, which it makes anew in turn.
void UpdatePhasePlanner::findSums() {
  func::FuncOp step = micro.step;
  std::vector<std::vector<int>> stages;
  for (auto [i, sum] : llvm::enumerate(micro.sums)) {
    for (OpOperand *use : sum.uses)
      sumOf[use->get()] = i;
    stages.push_back(stageFunctions.getContributors(i));
    contributors.push_back(ranksOf(stages.back()));
  }
  for (auto [i, state] : llvm::enumerate(micro.states))
    stateOf[state.after] = i;
  auto exit = step.getFunctionBody().front().getTerminator();
  for (Value value : exit->getOperands())
    slices.push_back(sliceOf(value));
  SetVector<BlockArgument> worklist;
  for (BlockArgument argument : step.getArguments())
    if (ArrayRef<int> found = stageFunctions.getHolders(argument);
        !found.empty()) {
      holders[argument].insert(found.begin(), found.end());
      worklist.insert(argument);
    }
  while (!worklist.empty()) {
    BlockArgument argument = worklist.pop_back_val();
    auto result = getDonation(step, argument.getArgNumber());
    if (!result)
      continue;
    std::set<int> held = holders[argument];
    for (unsigned sum : slices[*result].sums)
      llvm::append_range(stages[sum], held);
    for (Value read : slices[*result].arguments) {
      std::set<int> &known = holders[read];
      size_t before = known.size();
      known.insert(held.begin(), held.end());
      if (known.size() > before)
        worklist.insert(cast<BlockArgument>(read));
    }
  }
  for (unsigned i = 0; i < micro.sums.size(); ++i) {
    residents.push_back(ranksOf(stages[i]));
    if (llvm::is_contained(contributors[i], rank))
      plan.ownSums.push_back(i);
    if (llvm::is_contained(residents[i], rank))
      plan.sums.push_back({i, contributors[i], residents[i]});
  }
  plan.lossRank = contributors[stageFunctions.getGraph().getLoss()].front();
}

/// What the rank's own stage functions read.
void UpdatePhasePlanner::addFunctions() {
  for (const PipelineAction &action : schedule.ranks[rank]) {
    const StageFunction &stageFunction =
        stageFunctions.getFunction(action.stage, action.kind);
    needed.insert(stageFunction.captured.begin(), stageFunction.captured.end());
    needed.insert(stageFunction.batches.begin(), stageFunction.batches.end());
    needed.insert(stageFunction.seeds.begin(), stageFunction.seeds.end());
    for (unsigned state : stageFunction.states)
      needed.insert(micro.states[state].before);
  }
}

/// Flags and norms of all gradients belong to nobody: they end the slice.
Slice UpdatePhasePlanner::sliceOf(Value value) const {
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

bool UpdatePhasePlanner::isResident(const Slice &slice) const {
  for (unsigned sum : slice.sums)
    if (llvm::is_contained(residents[sum], rank))
      return true;
  for (unsigned state : slice.states)
    if (schedule.rankOf(stageFunctions.getStateStage(state)) == rank)
      return true;
  return false;
}

/// Whether rank `other` has all gradients and states of a slice.
bool UpdatePhasePlanner::hasAll(const Slice &slice, int other) const {
  return llvm::all_of(slice.sums,
                      [&](unsigned sum) {
                        return llvm::is_contained(residents[sum], other);
                      }) &&
         llvm::all_of(slice.states, [&](unsigned state) {
           return schedule.rankOf(stageFunctions.getStateStage(state)) == other;
         });
}

/// Whether another rank makes a result of which this rank has not all: it has
/// to where its own stages read the argument.
bool UpdatePhasePlanner::isMadeElsewhere(const Slice &slice,
                                         BlockArgument donor) const {
  auto found = holders.find(donor);
  bool reads =
      found != holders.end() && llvm::any_of(found->second, [&](int stage) {
        return schedule.rankOf(stage) == rank;
      });
  return !reads &&
         llvm::any_of(llvm::seq<int>(0, schedule.ranks.size()),
                      [&](int other) { return hasAll(slice, other); });
}

/// What a rank reads of the state it has to make anew.
LogicalResult
UpdatePhasePlanner::checkStale(const llvm::DenseSet<unsigned> &own) const {
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
LogicalResult UpdatePhasePlanner::ownResults() {
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
    if (!hasAll(slices[i], rank)) {
      if (isMadeElsewhere(slices[i], donors.lookup(i)))
        continue;
      return step.emitOpError()
             << "makes " << describeResult(step, i)
             << " of gradients or state of several stages, expected those of "
                "one: only norms and flags are put together";
    }
    take(i);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < slices.size(); ++i) {
      if (own.contains(i) || !slices[i].sums.empty() ||
          !slices[i].states.empty())
        continue;
      BlockArgument donor = donors.lookup(i);
      bool isFree = !donor || (stageFunctions.getReaders(donor).empty() &&
                               uses.lookup(donor) <= 1);
      if ((isFree && rank == 0) || (donor && needed.contains(donor))) {
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

/// Whether an op makes a result of all its gradients, a norm or a flag, to
/// which each rank adds its own: all ranks run it.
bool UpdatePhasePlanner::isShared(Operation *op) const {
  auto clip = dyn_cast<ClipByGlobalNormOp>(op);
  return schedule.stages > 1 && !op->use_empty() && isPerGradient(op) &&
         op->getNumResults() > countHandedOn(op) &&
         !(clip && clip.getGivenNorm());
}

/// Whether a gradient counts on this rank in the norm or the flag of its op: it
/// does on the first that has it. One that does not depend on the batch counts
/// on rank 0.
FailureOr<bool> UpdatePhasePlanner::counts(OpOperand &use,
                                           const Slice &slice) const {
  if (!slice.states.empty() || !slice.sums.empty()) {
    for (int other : llvm::seq<int>(0, schedule.ranks.size()))
      if (hasAll(slice, other))
        return other == rank;
    return use.getOwner()->emitOpError()
           << "takes gradient #" << use.getOperandNumber()
           << ", which is made of gradients of several stages, expected those "
              "of one";
  }
  if (rank != 0)
    return false;
  for (Value argument : slice.arguments)
    if (!llvm::is_contained(plan.arguments, argument))
      return use.getOwner()->emitOpError()
             << "takes gradient #" << use.getOperandNumber()
             << ", which does not depend on the batch but on "
             << describeArgument(micro.step,
                                 cast<BlockArgument>(argument).getArgNumber())
             << " of another rank than the first of the pipeline, expected "
                "gradients of the batch";
  return true;
}

/// Which gradients of an op that scales or reduces many the rank has: those of
/// its own results, and those that count on it.
LogicalResult UpdatePhasePlanner::markGradients(Operation *op,
                                                llvm::DenseSet<Value> &wanted) {
  unsigned handedOn = countHandedOn(op);
  bool hasOwn = false;
  for (OpOperand &use : op->getOpOperands().take_front(handedOn)) {
    Slice slice = sliceOf(use.get());
    bool isOwn = wanted.contains(op->getResult(use.getOperandNumber()));
    if (isShared(op)) {
      FailureOr<bool> isCounted = counts(use, slice);
      if (failed(isCounted))
        return failure();
      if (*isCounted)
        plan.counted.insert(&use);
      isOwn |= *isCounted;
    }
    for (Value argument : slice.arguments)
      if (isOwn && !llvm::is_contained(plan.arguments, argument))
        return op->emitOpError()
               << "takes gradient #" << use.getOperandNumber() << ", made of "
               << describeArgument(micro.step,
                                   cast<BlockArgument>(argument).getArgNumber())
               << ", which rank " << rank
               << " does not have, expected an update that takes the result";
    if (isOwn)
      wanted.insert(use.get());
    else
      plan.dropped.insert(&use);
    hasOwn |= isOwn;
  }
  if (hasOwn || !isShared(op))
    wanted.insert_range(op->getOperands().drop_front(handedOn));
  return success();
}

/// The ops between the sums and the rank's results.
LogicalResult UpdatePhasePlanner::markOps() {
  func::FuncOp step = micro.step;
  Block &body = step.getFunctionBody().front();
  llvm::DenseSet<Value> wanted;
  for (int64_t result : plan.results)
    if (getResultRole(step, result) != Role::Loss || rank == plan.lossRank)
      wanted.insert(body.getTerminator()->getOperand(result));
  for (Operation &op : llvm::reverse(body)) {
    bool isWanted = llvm::any_of(
        op.getResults(), [&](Value result) { return wanted.contains(result); });
    if (!micro.isInUpdatePhase(&op) || !(isWanted || isShared(&op)))
      continue;
    plan.ops.insert(&op);
    if (isPerGradient(&op)) {
      if (failed(markGradients(&op, wanted)))
        return failure();
      continue;
    }
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        wanted.insert(operand);
    });
  }
  return success();
}

FailureOr<UpdatePhasePlan> UpdatePhasePlanner::run() {
  findSums();
  addFunctions();
  if (failed(ownResults()))
    return failure();
  if (failed(markOps()))
    return failure();
  return std::move(plan);
}

FailureOr<UpdatePhasePlan>
mpcomm::planUpdatePhase(StageFunctions &stageFunctions,
                        const PipelineSchedule &schedule, int rank) {
  return UpdatePhasePlanner(stageFunctions, schedule, rank).run();
}
