//===- StageProblem.cpp - the stages of a step as a problem ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parallelize/StageProblem.h"
#include "mpcomm/Dialect/MPComm/Utils/Sharding.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpcomm;

/// Bytes that a rank holds of a value of type `whole`: of all of it if
/// `sharding` is null.
static int64_t countShardBytes(func::FuncOp step, Type whole,
                               ShardingAttr sharding) {
  auto mesh = sharding ? SymbolTable::lookupNearestSymbolFrom<MeshOp>(
                             step, sharding.getMesh())
                       : MeshOp();
  if (auto tensor = dyn_cast<RankedTensorType>(whole); tensor && mesh) {
    std::string reason;
    FailureOr<RankedTensorType> held =
        getLocalType(sharding, tensor, mesh, reason);
    if (succeeded(held))
      whole = *held;
  }
  return mpcomm::detail::countBytes(whole);
}

int64_t mpcomm::countHeldBytes(func::FuncOp step, BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  bool isHeld = step.getArgAttr(index, kGlobalTypeAttr) != nullptr;
  return countShardBytes(step, argument.getType(),
                         isHeld ? ShardingAttr()
                                : getArgumentSharding(step, index));
}

int64_t mpcomm::countHeldBytes(func::FuncOp step, const MicroBatchSum &sum) {
  return countShardBytes(step, sum.getTotalType(), sum.getSharding());
}

llvm::DenseMap<BlockArgument, int64_t>
mpcomm::countOptimizerBytes(func::FuncOp step) {
  llvm::DenseMap<BlockArgument, int64_t> bytes;
  for (Operation &op : step.getFunctionBody().front()) {
    if (!isa<OptimizerOpInterface>(op))
      continue;
    BlockArgument parameter;
    int64_t state = 0;
    for (Value operand : op.getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (!argument)
        continue;
      auto role = getArgumentRole(step, argument.getArgNumber());
      if (role == Role::Parameter && !parameter)
        parameter = argument;
      else if (role == Role::OptimizerState)
        state += countHeldBytes(step, argument);
    }
    if (parameter)
      bytes[parameter] += state;
  }
  return bytes;
}

namespace {

/// Who reads a value: positions in the order of the forward pass.
struct Readers {
  std::vector<int> consumers, keepers;
};

class ProblemBuilder {
public:
  ProblemBuilder(const StageGraph &graph, const StepModel &step)
      : graph(graph), step(step) {}
  StagePartitionProblem build(int stages);

private:
  void addSeconds();
  void addReaders();
  void addValues();
  void addGradients();
  void addParameters();

  const StageGraph &graph;
  const StepModel &step;
  StagePartitionProblem problem;
  llvm::MapVector<Value, Readers> readers;
};

} // namespace

void ProblemBuilder::addSeconds() {
  problem.ops.resize(graph.getForward().size());
  for (auto [i, op] : llvm::enumerate(graph.getForward()))
    problem.ops[i].forward = step.getSeconds(op);
  for (Operation *op : graph.getAuxiliary())
    problem.ops[graph.getPosition(op)].forward += step.getSeconds(op);
  for (Operation *op : graph.getBackward()) {
    auto &at = problem.ops[graph.getPosition(op)];
    (graph.isInputGradient(op) ? at.backwardInput : at.backwardWeight) +=
        step.getSeconds(op);
  }
}

void ProblemBuilder::addReaders() {
  for (auto [i, op] : llvm::enumerate(graph.getForward()))
    for (Value root : graph.getOperandRoots(op))
      readers[root].consumers.push_back(i);
  for (Operation *op : graph.getAuxiliary())
    for (Value root : graph.getOperandRoots(op))
      readers[root].consumers.push_back(graph.getPosition(op));
  for (Operation *op : graph.getBackward())
    for (Value root : graph.getOperandRoots(op))
      readers[root].keepers.push_back(graph.getPosition(op));
  // Micro-batches are cut from the batch again when they are needed.
  for (BlockArgument batch : graph.getMicroBatch().batches)
    readers.erase(batch);
}

/// What the forward pass makes: it goes up to who reads it, and is kept where
/// the backward pass needs it.
void ProblemBuilder::addValues() {
  for (Operation *op :
       llvm::concat<Operation *const>(graph.getForward(), graph.getAuxiliary()))
    for (Value result : op->getResults()) {
      auto found = readers.find(result);
      if (found == readers.end())
        continue;
      StagePartitionProblem::Value value;
      value.bytes = mpcomm::detail::countBytes(result.getType());
      value.producer = graph.getPosition(op);
      for (int at :
           found->second.consumers) // auxiliary ops may share the position
        if (at > value.producer)
          value.consumers.push_back(at);
      for (int at : found->second.keepers)
        value.keepers.push_back(std::max(at, value.producer));
      problem.values.push_back(std::move(value));
    }
}

/// What the backward pass makes goes down to who reads it.
void ProblemBuilder::addGradients() {
  for (Operation *op : graph.getBackward())
    for (Value result : op->getResults()) {
      auto found = readers.find(result);
      int from = graph.getPosition(op), to = from;
      if (found != readers.end())
        for (int at : found->second.keepers)
          to = std::min(to, at);
      if (to == from)
        continue;
      StagePartitionProblem::Value value;
      value.gradientBytes = mpcomm::detail::countBytes(result.getType());
      value.producer = to;
      value.consumers = {from};
      problem.values.push_back(std::move(value));
    }
}

void ProblemBuilder::addParameters() {
  func::FuncOp function = graph.getMicroBatch().step;
  llvm::DenseMap<BlockArgument, int64_t> state = countOptimizerBytes(function);
  llvm::DenseMap<Value, int64_t> sums;
  for (auto [i, sum] : llvm::enumerate(graph.getMicroBatch().sums))
    if (BlockArgument parameter = graph.getParameter(i))
      sums[parameter] += countHeldBytes(function, sum);
  // A copy is where its parameter is.
  llvm::MapVector<BlockArgument, StagePartitionProblem::Parameter> parameters;
  for (BlockArgument argument : function.getArguments()) {
    BlockArgument original = graph.getReadParameter(argument);
    if (!original)
      continue;
    StagePartitionProblem::Parameter &parameter = parameters[original];
    parameter.bytes += countHeldBytes(function, argument) +
                       state.lookup(argument) + sums.lookup(argument);
    auto found = readers.find(argument);
    if (found == readers.end())
      continue;
    llvm::append_range(parameter.users, found->second.consumers);
    llvm::append_range(parameter.users, found->second.keepers);
  }
  for (auto &[argument, parameter] : parameters)
    if (!parameter.users.empty())
      problem.parameters.push_back(std::move(parameter));
}

StagePartitionProblem ProblemBuilder::build(int stages) {
  addSeconds();
  addReaders();
  addValues();
  addGradients();
  addParameters();
  problem.stages.resize(stages);
  return std::move(problem);
}

StagePartitionProblem mpcomm::buildStageProblem(const StageGraph &graph,
                                                const StepModel &step,
                                                int stages) {
  return ProblemBuilder(graph, step).build(stages);
}

bool mpcomm::mergeRuns(StagePartitionProblem &problem,
                       const std::vector<bool> &marked,
                       std::vector<int> &first) {
  std::vector<int> runOf;
  std::vector<StagePartitionProblem::Op> runs;
  bool hasMark = false, isConsistent = true;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    if (runs.empty() || (marked[i] && hasMark)) {
      runs.emplace_back();
      first.push_back(static_cast<int>(i));
    }
    hasMark |= marked[i];
    StagePartitionProblem::Op &run = runs.back(), &op = problem.ops[i];
    run.forward += op.forward;
    run.backwardInput += op.backwardInput;
    run.backwardWeight += op.backwardWeight;
    isConsistent &= op.stage < 0 || run.stage < 0 || run.stage == op.stage;
    if (op.stage >= 0)
      run.stage = op.stage;
    runOf.push_back(static_cast<int>(runs.size()) - 1);
  }
  auto renumber = [&](std::vector<int> &ops, int above) {
    for (int &op : ops)
      op = runOf[op];
    llvm::erase_if(ops, [&](int op) { return op <= above; });
    ops.erase(llvm::unique(ops), ops.end());
  };
  for (StagePartitionProblem::Value &value : problem.values) {
    value.producer = value.producer < 0 ? -1 : runOf[value.producer];
    renumber(value.consumers, value.producer);
    renumber(value.keepers, -1);
  }
  for (StagePartitionProblem::Parameter &parameter : problem.parameters)
    renumber(parameter.users, -1);
  problem.ops = std::move(runs);
  return isConsistent;
}
