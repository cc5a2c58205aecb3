//===- StageTailPlan.cpp - what one rank has of a step --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which gradients, states, arguments and results a rank of a pipeline holds,
// and which ops behind the micro-batches it runs for them.
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageTail.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// What a value of the tail is made of.
struct Slice {
  llvm::DenseSet<unsigned> sums, states;
  llvm::DenseSet<Value> arguments;
};

class TailPlanner {
public:
  TailPlanner(StageParts &parts, const PipelineSchedule &schedule, int rank)
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

SmallVector<int> TailPlanner::ranksOf(ArrayRef<int> stages) const {
  SmallVector<int> ranks;
  for (int stage : stages)
    ranks.push_back(schedule.rankOf(stage));
  llvm::sort(ranks);
  ranks.erase(llvm::unique(ranks), ranks.end());
  return ranks;
}

/// Whoever reads a state has to make it anew, and needs the sums for that.
void TailPlanner::findSums() {
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
void TailPlanner::addParts() {
  for (const PipelineAction &action : schedule.ranks[rank]) {
    const StagePart &part = parts.getPart(action.stage, action.kind);
    needed.insert(part.captured.begin(), part.captured.end());
    needed.insert(part.batches.begin(), part.batches.end());
    needed.insert(part.seeds.begin(), part.seeds.end());
    for (unsigned state : part.states)
      needed.insert(micro.states[state].before);
  }
}

/// Flags and norms of all gradients belong to nobody: they end the slice.
Slice TailPlanner::sliceOf(Value value) const {
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

bool TailPlanner::isResident(const Slice &slice) const {
  for (unsigned sum : slice.sums)
    if (llvm::is_contained(residents[sum], rank))
      return true;
  for (unsigned state : slice.states)
    if (schedule.rankOf(parts.getStateStage(state)) == rank)
      return true;
  return false;
}

/// Nobody has the gradients, or the state, of all stages.
bool TailPlanner::hasAll(const Slice &slice) const {
  return llvm::all_of(slice.sums,
                      [&](unsigned sum) {
                        return llvm::is_contained(residents[sum], rank);
                      }) &&
         llvm::all_of(slice.states, [&](unsigned state) {
           return schedule.rankOf(parts.getStateStage(state)) == rank;
         });
}

/// What a rank reads of the state it has to make anew.
LogicalResult
TailPlanner::checkStale(const llvm::DenseSet<unsigned> &own) const {
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
LogicalResult TailPlanner::ownResults() {
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

/// The ops between the sums and the rank's results.
void TailPlanner::markOps() {
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

FailureOr<TailPlan> TailPlanner::run() {
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
  return TailPlanner(parts, schedule, rank).run();
}
