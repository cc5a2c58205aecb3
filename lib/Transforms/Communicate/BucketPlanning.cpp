//===- BucketPlanning.cpp - a block's reductions as a problem -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of a block, the bucketing problem of a run of candidates, and the
// simulation by which plans are compared. A plan in the simulator: computation
// that depends on no collective runs first, each bucket starts when its last
// tensor is ready, and consumers follow bucket after bucket.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BucketPlanning.h"
#include "Communicate/Communicator.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// BlockTimes
//===----------------------------------------------------------------------===//

BlockTimes::BlockTimes(Block &block, const StepModel *step) : step(step) {
  if (!step)
    return;
  // What depends on a collective, with the last one that it depends on.
  llvm::DenseMap<Operation *, Operation *> late;
  for (Operation &op : block) {
    Operation *after = nullptr;
    auto visit = [&](Operation *user) {
      for (Value operand : user->getOperands()) {
        auto it = late.find(operand.getDefiningOp());
        if (it != late.end() && (!after || step->getPosition(after) <
                                               step->getPosition(it->second)))
          after = it->second;
      }
    };
    if (!late.empty()) {
      if (op.getNumRegions() == 0)
        visit(&op);
      else
        op.walk(visit);
    }
    if (isMovableCollective(&op))
      late[&op] = &op;
    else if (after) {
      late[&op] = after;
      consumers[after] += step->getSeconds(&op);
    } else
      computeEnd += step->getSeconds(&op);
    ends.push_back(computeEnd);
  }
}

double BlockTimes::getReady(Operation *op) const {
  int position = step && op ? step->getPosition(op) : -1;
  return position < 0 || position >= static_cast<int>(ends.size())
             ? 0
             : ends[position];
}

double BlockTimes::getConsumer(Operation *collective) const {
  return consumers.lookup(collective);
}

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

/// The ways in two levels too, copies included (without their launches), for
/// `mpcomm-decompose-collectives` will take them where they are faster.
static void addTwoLevelCosts(const CostModel &model, AllReduceOp op,
                             CostCurve &cost) {
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  if (failed(shape))
    return;
  double packing = 4 / model.getCluster().device.memoryBandwidth;
  for (unsigned level = 0, e = shape->inside.size(); level < e; ++level)
    if (auto ways = getTwoLevelCost(model, *shape, level))
      for (CostLine way : ways->pieces) {
        way.secondsPerByte += packing;
        cost.pieces.push_back(way);
      }
}

/// The compressed ways too: alone where all that is as large as this reduction
/// will be compressed.
static void addCompressedCosts(const CostModel &model, AllReduceOp op,
                               const BucketLimits &limits, CostCurve &cost) {
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  if (!limits.compression || !isCompressible(op) || failed(shape) ||
      shape->ranks < 2)
    return;
  if (limits.compressMinBytes >= 0) {
    if (CostModel::getWireBytes(op) < limits.compressMinBytes)
      return;
    cost.pieces.clear();
  }
  llvm::append_range(
      cost.pieces,
      getCompressedCost(model, *shape, *limits.compression, op).pieces);
}

BucketInstance mpcomm::buildInstance(ArrayRef<BucketCandidate> candidates,
                                     const BlockTimes &times,
                                     const CostModel *model,
                                     const BucketLimits &limits) {
  BucketInstance instance;
  BucketingProblem &problem = instance.problem;
  problem.capBytes = limits.capBytes;
  // A multiple of the size of any element.
  problem.splitBytes = llvm::alignTo(limits.splitBytes, 64);
  problem.streams.clear();
  llvm::MapVector<Attribute, int> streams, keys;
  // By key: from where to where the pieces of two levels are.
  SmallVector<std::pair<size_t, size_t>> twoLevel;
  SmallVector<int64_t> bytes; // by key
  for (const BucketCandidate &candidate : candidates) {
    auto [stream, isNewStream] =
        streams.try_emplace(getCommunicator(candidate.op), streams.size());
    if (isNewStream)
      problem.streams.push_back({0, limits.memoryBytes});
    auto [key, isNewKey] = keys.try_emplace(candidate.key, keys.size());
    if (isNewKey) {
      CostCurve cost;
      FailureOr<CostCurve> ways = failure();
      if (model)
        ways = model->getCollective(candidate.op);
      if (succeeded(ways))
        cost = *ways;
      size_t flat = cost.pieces.size();
      if (succeeded(ways) && limits.decomposes)
        addTwoLevelCosts(*model, candidate.op, cost);
      twoLevel.push_back({flat, cost.pieces.size()});
      if (succeeded(ways))
        addCompressedCosts(*model, candidate.op, limits, cost);
      if (cost.pieces.size() < twoLevel.back().second)
        twoLevel.back() = {0, 0};
      if (cost.pieces.empty())
        cost.pieces.emplace_back();
      problem.costs.push_back(std::move(cost));
    }
    BucketingProblem::Tensor tensor;
    tensor.bytes = candidate.bytes;
    tensor.ready = times.getReady(candidate.ready);
    tensor.stream = stream->second;
    tensor.key = key->second;
    tensor.consumer = times.getConsumer(candidate.op);
    tensor.splittable = candidate.getOp().getInputs().size() == 1;
    int64_t elements = mpcomm::detail::countElements(
        candidate.getOp().getInputs().front().getType());
    tensor.elementBytes =
        elements ? std::max<int64_t>(1, candidate.bytes / elements) : 1;
    bytes.resize(problem.costs.size(), 0);
    bytes[tensor.key] += tensor.bytes;
    problem.tensors.push_back(tensor);
    problem.computeEnd = std::max(problem.computeEnd, tensor.ready);
  }
  problem.computeEnd = std::max(problem.computeEnd, times.getComputeEnd());
  for (auto [cost, range, sum] : llvm::zip(problem.costs, twoLevel, bytes)) {
    unsigned best = cost.bestIndex(sum);
    instance.isTwoLevel.push_back(best >= range.first && best < range.second);
  }
  return instance;
}

//===----------------------------------------------------------------------===//
// Plans against each other
//===----------------------------------------------------------------------===//

static double simulatePlan(const BucketInstance &instance,
                           const BucketingPlan &plan, const Cluster &cluster) {
  const BucketingProblem &problem = instance.problem;
  SimProblem sim;
  sim.computeRateUnderComm = cluster.computeRateUnderComm;
  sim.commRateUnderCompute = cluster.commRateUnderCompute;
  for (const LinkLevel &link : cluster.links)
    sim.links.push_back({link.contends});
  sim.communicators.assign(problem.streams.size(), {{0}});
  sim.classes.emplace_back();
  SimProgram &program = sim.classes.front();

  size_t count = plan.buckets.size();
  SmallVector<double> ready(count);
  SmallVector<double> streamReady(problem.streams.size(), 0);
  SmallVector<int> order;
  for (auto [i, bucket] : llvm::enumerate(plan.buckets)) {
    // A stream keeps its order, also where a later bucket is ready first.
    double &last = streamReady[bucket.stream];
    last = ready[i] = std::max(last, bucket.ready);
    SimCollective collective;
    collective.communicator = bucket.stream;
    const CostLine &piece = problem.costs[bucket.key].pieces[bucket.piece];
    collective.latency = piece.latency;
    collective.transfer = piece.secondsPerByte * bucket.bytes;
    collective.link = piece.link;
    program.collectives.push_back(collective);
    order.push_back(i);
  }
  auto compute = [&](double seconds) {
    if (seconds > 0)
      program.instructions.push_back(RankInstruction::compute(seconds));
  };
  llvm::sort(order, [&](int a, int b) {
    return std::pair(ready[a], a) < std::pair(ready[b], b);
  });
  double now = 0;
  for (int i : order) {
    compute(ready[i] - now);
    now = std::max(now, ready[i]);
    program.instructions.push_back(RankInstruction::start(i));
  }
  compute(problem.computeEnd - now);
  for (int i : order) {
    program.instructions.push_back(RankInstruction::await(i));
    compute(plan.buckets[i].consumer);
  }
  return simulateSeconds(sim);
}

static BucketingPlan planByRule(const BucketingProblem &problem,
                                BucketPolicy policy,
                                const BucketLimits &limits) {
  bool capped = limits.capBytes != BucketingProblem::unlimited;
  auto cap = [&](int64_t bytes) { return capped ? limits.capBytes : bytes; };
  switch (policy) {
  case BucketPolicy::Solved:
    return solveBuckets(problem);
  case BucketPolicy::DDP:
    return bucketLikeDDP(problem, cap(int64_t(25) << 20),
                         limits.firstBytes ? limits.firstBytes
                                           : int64_t(1) << 20);
  case BucketPolicy::XLA:
    return bucketLikeXLA(problem, cap(int64_t(30) << 20));
  case BucketPolicy::Horovod:
    return bucketLikeHorovod(problem, cap(int64_t(128) << 20));
  case BucketPolicy::Megatron:
    return bucketLikeMegatron(problem);
  case BucketPolicy::MGWFBP:
    return bucketLikeMGWFBP(problem);
  case BucketPolicy::One:
    return bucketAllInOne(problem);
  case BucketPolicy::None:
    return bucketOnePerTensor(problem);
  }
  return BucketingPlan();
}

static StringRef nameOf(BucketPolicy policy) {
  switch (policy) {
  case BucketPolicy::Solved:
    return "solved";
  case BucketPolicy::DDP:
    return "ddp";
  case BucketPolicy::XLA:
    return "xla";
  case BucketPolicy::Horovod:
    return "horovod";
  case BucketPolicy::Megatron:
    return "megatron";
  case BucketPolicy::MGWFBP:
    return "mg-wfbp";
  case BucketPolicy::One:
    return "one";
  case BucketPolicy::None:
    return "none";
  }
  return "";
}

ChosenPlan mpcomm::chooseBuckets(BucketInstance instance,
                                 const Cluster *cluster, BucketPolicy policy,
                                 const BucketLimits &limits) {
  ChosenPlan chosen;
  chosen.error = instance.problem.check();
  if (!chosen.error.empty())
    return chosen;
  auto simulated = [&](const BucketingPlan &plan) {
    return cluster ? simulatePlan(instance, plan, *cluster) : 0;
  };
  auto choose = [&](BucketPolicy rule, BucketingPlan plan, double seconds) {
    chosen.plan = std::move(plan);
    chosen.rule = nameOf(rule);
    chosen.seconds = seconds;
  };
  // In the order of preference: a later plan has to be better to be taken.
  SmallVector<BucketPolicy> rules = {policy};
  if (policy == BucketPolicy::Solved)
    rules.append({BucketPolicy::None, BucketPolicy::DDP, BucketPolicy::XLA,
                  BucketPolicy::Horovod, BucketPolicy::Megatron,
                  BucketPolicy::MGWFBP, BucketPolicy::One});
  constexpr double worthwhile = 1 - 1e-6;
  for (BucketPolicy rule : rules) {
    BucketingPlan plan = planByRule(instance.problem, rule, limits);
    bool isKept = plan.error.empty();
    if (isKept && policy == BucketPolicy::Solved)
      isKept = plan.verify(instance.problem).empty();
    if (!isKept && !plan.error.empty() && chosen.error.empty())
      chosen.error = plan.error;
    if (!isKept)
      continue;
    double seconds = simulated(plan);
    if (rule == BucketPolicy::None)
      chosen.inputSeconds = seconds;
    if (chosen.rule.empty() || seconds < worthwhile * chosen.seconds)
      choose(rule, std::move(plan), seconds);
    if (!cluster)
      break; // nothing to compare by
  }
  if (!chosen.rule.empty())
    chosen.error.clear();
  chosen.lowerBound = instance.problem.lowerBound(BucketingObjective::StepEnd);
  chosen.problem = std::move(instance.problem);
  return chosen;
}

ChosenPlan mpcomm::planBuckets(ArrayRef<BucketCandidate> candidates,
                               const BlockTimes &times, const CostModel *model,
                               BucketPolicy policy,
                               const BucketLimits &limits) {
  if (!times.areKnown() || !model) {
    model = nullptr;
    if (policy == BucketPolicy::Solved)
      policy = BucketPolicy::DDP; // needs no times
  }
  return chooseBuckets(buildInstance(candidates, times, model, limits),
                       model ? &model->getCluster() : nullptr, policy, limits);
}
