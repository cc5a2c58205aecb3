//===- Joint.cpp - buckets and order chosen together ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A node is *early* if it depends on no tensor's collective. Early nodes are
// what an order is of: they make the tensors. As no tensor's collective comes
// after another one's, whatever a bucket needs is early, and buckets can be
// put into any order of early nodes, each after the last that it needs.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/Overlap/Joint.h"
#include "Overlap/OverlapImpl.h"
#include <algorithm>
#include <numeric>

using namespace mpcomm;
using namespace mpcomm::overlap;

namespace {

class Planner {
public:
  Planner(const JointProblem &problem, const JointOptions &options);
  JointPlan run();

private:
  BucketingProblem timeTensors(const std::vector<int> &order,
                               std::vector<int> &tensors) const;
  bool evaluate(const std::vector<int> &order, JointPlan &result,
                std::vector<int> &next) const;
  std::vector<int> orderOf(const OverlapSchedule &schedule,
                           const std::vector<int> &origin) const;

  const JointProblem &problem;
  const JointOptions &options;
  StepGraph graph;
  std::vector<int> tensorOf; // by node; -1: none
  std::vector<int> consumes; // by node: the last tensor it depends on; -1: none
  std::vector<int> early;    // in the input's order
};

} // namespace

/// The tensor of each node, -1 for those that are none.
static std::vector<int> findTensors(const JointProblem &problem) {
  std::vector<int> tensorOf(problem.step.nodes.size(), -1);
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    tensorOf[problem.nodes[i]] = int(i);
  return tensorOf;
}

/// Of each node the node of the last tensor's collective, itself left out, that
/// it depends on; -1: it is early.
static std::vector<int> findConsumed(const StepGraph &graph,
                                     const std::vector<int> &tensorOf) {
  std::vector<int> consumes(tensorOf.size(), -1);
  for (size_t n = 0; n < consumes.size(); ++n)
    for (int before : graph.predecessors[n])
      consumes[n] = std::max(
          {consumes[n], consumes[before], tensorOf[before] >= 0 ? before : -1});
  return consumes;
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

std::string JointProblem::check() const {
  if (std::string wrong = step.check(); !wrong.empty())
    return wrong;
  if (nodes.size() != buckets.tensors.size())
    return "expects a node for each of " +
           std::to_string(buckets.tensors.size()) + " tensors, got " +
           std::to_string(nodes.size());
  if (buckets.streams.size() != step.streams.size())
    return "expects the streams of the step for the buckets";
  for (size_t k = 0; k < buckets.costs.size(); ++k)
    for (const CostLine &piece : buckets.costs[k].pieces)
      if (piece.link < -1 || piece.link >= int(step.links.size()))
        return "key " + std::to_string(k) + " names link " +
               std::to_string(piece.link) + " of " +
               std::to_string(step.links.size());
  std::vector<char> isNamed(step.nodes.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::string name = "tensor " + std::to_string(i);
    if (nodes[i] < 0 || nodes[i] >= int(step.nodes.size()) ||
        step.nodes[nodes[i]].stream < 0)
      return name + " names no collective";
    if (isNamed[nodes[i]])
      return name + " names a collective of another one's";
    isNamed[nodes[i]] = true;
    if (step.nodes[nodes[i]].stream != buckets.tensors[i].stream)
      return name + " is on another stream than its collective";
  }
  std::vector<int> consumes = findConsumed(StepGraph(step), findTensors(*this));
  for (size_t i = 0; i < nodes.size(); ++i)
    if (consumes[nodes[i]] >= 0)
      return "tensor " + std::to_string(i) + " comes after another one";
  return "";
}

/// The step in which every tensor travels by itself for its share of what one
/// collective for all of its key and stream takes. `isBound`: latency and
/// transfer such that slowedBound, too, holds for every plan.
static OverlapProblem shareCosts(const JointProblem &problem, bool isBound) {
  OverlapProblem shared = problem.step;
  size_t keys = problem.buckets.costs.size();
  std::vector<int64_t> sums(problem.buckets.streams.size() * keys, 0);
  auto sumOf = [&](const BucketingProblem::Tensor &tensor) -> int64_t & {
    return sums[tensor.stream * keys + tensor.key];
  };
  for (const BucketingProblem::Tensor &tensor : problem.buckets.tensors)
    sumOf(tensor) += tensor.bytes;
  double a = shared.computeRateUnderComm, b = shared.commRateUnderCompute;
  double gain = std::max(0.0, a + b - 1);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const BucketingProblem::Tensor &tensor = problem.buckets.tensors[i];
    const CostCurve &cost = problem.buckets.costs[tensor.key];
    int64_t sum = sumOf(tensor);
    const CostLine &piece = cost.best(sum);
    double share = sum > 0 ? double(tensor.bytes) / double(sum) : 0;
    OverlapProblem::Node &node = shared.nodes[problem.nodes[i]];
    node.link = piece.link;
    node.latency = piece.latency * share;
    node.transfer = piece.secondsPerByte * double(tensor.bytes);
    if (!isBound)
      continue;
    // Another piece may cost more, but more of it latency, which hides better;
    // a link that it does not use does not hold it up.
    double scale = 1;
    for (const CostLine &other : cost.pieces) {
      auto compare = [&](double ofLatency, double ofTransfer) {
        auto weigh = [&](const CostLine &p) {
          return ofLatency * p.latency +
                 ofTransfer * p.secondsPerByte * double(sum);
        };
        if (weigh(other) < scale * weigh(piece))
          scale = weigh(other) / weigh(piece);
      };
      compare(b, 1);
      compare(1 - a, 1 - gain / b);
    }
    node.latency *= scale;
    node.transfer *= scale;
    if (cost.pieces.size() > 1)
      node.link = -1;
  }
  return shared;
}

double JointProblem::lowerBound(const std::vector<int> &order) const {
  OverlapProblem shared = shareCosts(*this, /*isBound=*/true);
  if (order.empty())
    return shared.lowerBound();
  // Every tensor a key and a bucket of its own; computation in a chain.
  JointProblem single = *this;
  single.buckets.costs.clear();
  BucketingPlan plan;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const OverlapProblem::Node &node = shared.nodes[nodes[i]];
    int64_t bytes = buckets.tensors[i].bytes;
    double perByte = bytes > 0 ? node.transfer / double(bytes) : 0;
    single.buckets.costs.push_back({{{node.latency, perByte, node.link}}});
    BucketingPlan::Bucket bucket;
    bucket.stream = node.stream;
    bucket.key = int(i);
    bucket.begin = int64_t(i);
    bucket.end = int64_t(i) + 1;
    bucket.bytes = bytes;
    plan.slices.push_back({int64_t(i), 0, bytes});
    plan.buckets.push_back(bucket);
  }
  std::vector<int> origin;
  OverlapProblem chain = bucketStep(single, order, plan, &origin);
  std::vector<char> isEarly(step.nodes.size(), false);
  for (int n : order)
    isEarly[n] = step.nodes[n].stream < 0;
  int last = -1;
  for (int n = 0; n < int(chain.nodes.size()); ++n) {
    if (origin[n] < 0 || !isEarly[origin[n]])
      continue;
    if (last >= 0)
      chain.nodes[n].after.push_back(last);
    last = n;
  }
  return chain.lowerBound();
}

OverlapProblem mpcomm::bucketStep(const JointProblem &problem,
                                  const std::vector<int> &order,
                                  const BucketingPlan &plan,
                                  std::vector<int> *origin) {
  const OverlapProblem &step = problem.step;
  StepGraph graph(step);
  std::vector<int> tensorOf = findTensors(problem);
  std::vector<std::vector<int>> bucketsOf(problem.nodes.size());
  std::vector<std::vector<int>> neededBy(step.nodes.size()); // buckets, by node
  std::vector<int> missing(plan.buckets.size(), 0);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    std::vector<int> needs;
    for (int64_t s = plan.buckets[b].begin; s < plan.buckets[b].end; ++s) {
      int64_t tensor = plan.slices[s].tensor;
      bucketsOf[tensor].push_back(int(b));
      const std::vector<int> &before =
          graph.predecessors[problem.nodes[tensor]];
      needs.insert(needs.end(), before.begin(), before.end());
    }
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    missing[b] = int(needs.size());
    for (int node : needs)
      neededBy[node].push_back(int(b));
  }

  OverlapProblem result = step;
  result.nodes.clear();
  result.input.clear();
  std::vector<int> ofNode(step.nodes.size(), -1), origins;
  std::vector<int> ofBucket(plan.buckets.size(), -1);
  auto addBucket = [&](int b) {
    const BucketingPlan::Bucket &bucket = plan.buckets[b];
    const CostLine &piece =
        problem.buckets.costs[bucket.key].pieces[bucket.piece];
    OverlapProblem::Node node;
    node.stream = bucket.stream;
    node.latency = piece.latency;
    node.transfer = piece.secondsPerByte * double(bucket.bytes);
    node.link = piece.link;
    for (int64_t s = bucket.begin; s < bucket.end; ++s) {
      int tensor = problem.nodes[plan.slices[s].tensor];
      for (int before : step.nodes[tensor].after)
        node.after.push_back(ofNode[before]);
      node.stagingBytes += step.nodes[tensor].stagingBytes;
    }
    ofBucket[b] = int(result.nodes.size());
    origins.push_back(-1);
    result.nodes.push_back(std::move(node));
  };
  /// What stands for a node of the step: buckets, if it is a tensor's.
  auto visitNew = [&](int node, auto visit) {
    if (tensorOf[node] < 0)
      return visit(ofNode[node]);
    for (int b : bucketsOf[tensorOf[node]])
      visit(ofBucket[b]);
  };
  auto addNode = [&](int n) {
    OverlapProblem::Node node = step.nodes[n];
    node.after.clear();
    for (int before : step.nodes[n].after)
      visitNew(before, [&](int now) { node.after.push_back(now); });
    ofNode[n] = int(result.nodes.size());
    origins.push_back(n);
    result.nodes.push_back(std::move(node));
    for (int b : neededBy[n])
      if (--missing[b] == 0)
        addBucket(b);
  };
  for (size_t b = 0; b < plan.buckets.size(); ++b)
    if (missing[b] == 0)
      addBucket(int(b));
  for (int n : order)
    addNode(n);
  for (int n = 0; n < int(step.nodes.size()); ++n)
    if (ofNode[n] < 0 && tensorOf[n] < 0)
      addNode(n);

  for (OverlapProblem::Value &value : result.values) {
    std::vector<int> users;
    for (int user : value.users)
      visitNew(user, [&](int now) { users.push_back(now); });
    if (value.producer >= 0) {
      // Of a tensor in parts: the first part makes it, the others write to it,
      // and who uses it needs them all.
      std::vector<int> makers;
      visitNew(value.producer, [&](int now) { makers.push_back(now); });
      std::sort(makers.begin(), makers.end());
      for (int user : users)
        if (makers.size() > 1)
          result.nodes[user].after.insert(result.nodes[user].after.end(),
                                          makers.begin(), makers.end());
      value.producer = makers.front();
      users.insert(users.end(), makers.begin() + 1, makers.end());
    }
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    std::erase(users, value.producer);
    value.users = std::move(users);
  }

  // Starts where they are, awaits where they are needed.
  StepGraph bucketed(result);
  std::vector<char> isInFlight(result.nodes.size(), false);
  std::vector<OverlapStep> input;
  auto await = [&](int node) {
    if (!isInFlight[node])
      return;
    isInFlight[node] = false;
    input.push_back({RankInstruction::Await, node});
  };
  for (int n = 0; n < int(result.nodes.size()); ++n) {
    for (int before : bucketed.predecessors[n])
      await(before);
    isInFlight[n] = bucketed.isCollective(n);
    input.push_back(
        {isInFlight[n] ? RankInstruction::Start : RankInstruction::Compute, n});
  }
  for (int n = 0; n < int(result.nodes.size()); ++n)
    await(n);
  result.input = std::move(input);
  if (origin)
    *origin = std::move(origins);
  return result;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

Planner::Planner(const JointProblem &problem, const JointOptions &options)
    : problem(problem), options(options), graph(problem.step),
      tensorOf(findTensors(problem)), consumes(findConsumed(graph, tensorOf)) {
  for (const OverlapStep &step : graph.input)
    if (step.kind != RankInstruction::Await && tensorOf[step.node] < 0 &&
        consumes[step.node] < 0)
      early.push_back(step.node);
}

/// The bucketing problem of an order; `tensors` gets the tensors of `problem`
/// in its order.
BucketingProblem Planner::timeTensors(const std::vector<int> &order,
                                      std::vector<int> &tensors) const {
  BucketingProblem timed = problem.buckets;
  std::vector<double> ends(consumes.size(), 0);
  double now = 0;
  for (int n : order) {
    now += graph.isCollective(n) ? 0 : graph.secondsOf(n);
    ends[n] = now;
  }
  timed.computeEnd = now;
  std::vector<double> consumers(consumes.size(), 0);
  for (size_t n = 0; n < consumes.size(); ++n)
    if (consumes[n] >= 0 && !graph.isCollective(int(n)))
      consumers[consumes[n]] += graph.secondsOf(int(n));
  for (size_t i = 0; i < timed.tensors.size(); ++i) {
    BucketingProblem::Tensor &tensor = timed.tensors[i];
    tensor.ready = 0;
    for (int before : graph.predecessors[problem.nodes[i]])
      tensor.ready = std::max(tensor.ready, ends[before]);
    tensor.consumer = consumers[problem.nodes[i]];
  }
  tensors.resize(timed.tensors.size());
  std::iota(tensors.begin(), tensors.end(), 0);
  std::sort(tensors.begin(), tensors.end(), [&](int x, int y) {
    return std::pair(timed.tensors[x].ready, problem.nodes[x]) <
           std::pair(timed.tensors[y].ready, problem.nodes[y]);
  });
  std::vector<BucketingProblem::Tensor> sorted;
  sorted.reserve(tensors.size());
  for (int i : tensors)
    sorted.push_back(timed.tensors[i]);
  timed.tensors = std::move(sorted);
  return timed;
}

std::vector<int> Planner::orderOf(const OverlapSchedule &schedule,
                                  const std::vector<int> &origin) const {
  std::vector<int> order;
  for (const OverlapStep &step : schedule.steps) {
    int node = origin.empty() ? step.node : origin[step.node];
    if (step.kind != RankInstruction::Await && node >= 0 &&
        tensorOf[node] < 0 && consumes[node] < 0)
      order.push_back(node);
  }
  return order;
}

/// Buckets for an order, and their schedule. True if that is the best so far;
/// `next` then gets the order of its schedule.
bool Planner::evaluate(const std::vector<int> &order, JointPlan &result,
                       std::vector<int> &next) const {
  ++result.tried;
  std::vector<int> tensors;
  BucketingProblem timed = timeTensors(order, tensors);
  BucketingPlan plan = options.plan ? options.plan(timed) : solveBuckets(timed);
  if (!plan.error.empty()) {
    if (result.tried == 1)
      result.error = plan.error;
    return false;
  }
  for (BucketingPlan::Slice &slice : plan.slices)
    slice.tensor = tensors[slice.tensor];
  std::vector<int> origin;
  OverlapProblem bucketed = bucketStep(problem, order, plan, &origin);
  OverlapSchedule schedule = scheduleList(bucketed, options.schedule);
  if (!schedule.error.empty()) {
    if (result.tried == 1)
      result.error = schedule.error;
    return false;
  }
  if (result.tried == 1)
    result.firstSeconds = schedule.seconds;
  else if (schedule.seconds >= result.seconds * (1 - 1e-9))
    return false;
  result.seconds = schedule.seconds;
  result.order = order;
  result.isReordered = order != early;
  result.plan = std::move(plan);
  next = orderOf(schedule, origin);
  return true;
}

JointPlan Planner::run() {
  JointPlan result;
  result.lowerBound = problem.lowerBound();
  std::vector<int> next;
  auto isDone = [&] {
    return result.seconds <= result.lowerBound * (1 + options.tolerance);
  };
  if (!evaluate(early, result, next) || isDone())
    return result;
  // The order in which gradients without latency would travel best.
  OverlapProblem single = shareCosts(problem, /*isBound=*/false);
  for (int node : problem.nodes)
    single.nodes[node].latency = 0;
  OverlapSchedule free = scheduleList(single, options.schedule);
  if (free.error.empty())
    if (std::vector<int> order = orderOf(free, {}); order != early)
      evaluate(order, result, next);
  for (int round = 0; round < options.rounds && !isDone(); ++round) {
    std::vector<int> order = std::move(next);
    if (order == result.order || !evaluate(order, result, next))
      break;
  }
  return result;
}

JointPlan mpcomm::planJointly(const JointProblem &problem,
                              const JointOptions &options) {
  JointPlan plan = Planner(problem, options).run();
  if (plan.error.empty())
    plan.orderBound = problem.lowerBound(plan.order);
  return plan;
}
