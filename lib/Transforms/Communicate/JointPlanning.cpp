//===- JointPlanning.cpp - an order of gradients for buckets --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/JointPlanning.h"
#include "Communicate/OverlapPlanning.h"

using namespace mlir;
using namespace mpcomm;

std::optional<JointPlan>
mpcomm::chooseOrder(const StepModel &step, const CostModel &model,
                    ArrayRef<BucketCandidate> candidates,
                    const BucketLimits &limits, size_t maxNodes,
                    std::string &why) {
  std::optional<OverlapGraph> graph =
      OverlapGraph::get(step, model, maxNodes, why, /*isSynchronous=*/true);
  if (!graph)
    return std::nullopt;
  if (candidates.size() > maxNodes) {
    why = "the step has more collectives to merge than max-nodes";
    return std::nullopt;
  }
  Block *block = candidates.front().getOp()->getBlock();
  BucketInstance instance = buildInstance(
      candidates, BlockTimes(*block, &step, true), &model, limits);
  JointProblem problem;
  problem.step = graph->problem;
  problem.buckets = std::move(instance.problem);
  problem.buckets.streams.assign(problem.step.streams.size(),
                                 {0, limits.memoryBytes});
  llvm::DenseMap<Operation *, int> nodeOf;
  for (size_t n = 0; n < problem.step.nodes.size(); ++n)
    for (Operation *op : graph->getOps(static_cast<int>(n)))
      nodeOf[op] = static_cast<int>(n);
  for (auto [candidate, tensor] :
       llvm::zip_equal(candidates, problem.buckets.tensors)) {
    int node = nodeOf.lookup(candidate.op);
    problem.nodes.push_back(node);
    tensor.stream = problem.step.nodes[node].stream;
  }
  why = problem.check();
  if (!why.empty())
    return std::nullopt;

  JointOptions options;
  options.plan = [&](const BucketingProblem &timed) {
    BucketInstance again;
    again.problem = timed;
    again.packing = instance.packing;
    ChosenPlan chosen = chooseBuckets(std::move(again), &model.getCluster(),
                                      BucketPolicy::Solved, limits);
    chosen.plan.error = chosen.error;
    return std::move(chosen.plan);
  };
  // The parts of a bucket in two levels run beside those of others, which the
  // problem does not know: its choice among orders would be a guess.
  if (llvm::is_contained(instance.isTwoLevel, true))
    options.tolerance = std::numeric_limits<double>::infinity();
  JointPlan plan = planJointly(problem, options);
  why = plan.error;
  if (!why.empty())
    return std::nullopt;
  if (plan.isReordered)
    graph->moveToFront(plan.order);
  return plan;
}
