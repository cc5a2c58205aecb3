//===- BucketPlanning.cpp - a block's collectives as a problem ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bucketing problem of a run of candidates, and the simulation by which
// plans are compared. A plan in the simulator: computation
// that depends on no collective runs first, each bucket starts when its last
// tensor is ready, and consumers follow bucket after bucket; of gathers, each
// starts when it can, and computation waits for it at the first use.
//
//===----------------------------------------------------------------------===//

#include "Communicate/BucketPlanning.h"
#include "Communicate/Communicator.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpcomm;

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

/// The ways in two levels too, copies included (without their launches), for
/// `mpcomm-decompose-collectives` will take them where they are faster.
static void addTwoLevelCosts(const CostModel &model, CollectiveOpInterface op,
                             CostCurve &cost) {
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  if (failed(shape) || op.getCollectiveKind() != CollectiveKind::AllReduce)
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
static void addCompressedCosts(const CostModel &model, BucketableOpInterface of,
                               const BucketLimits &limits, CostCurve &cost) {
  auto op = cast<CollectiveOpInterface>(of.getOperation());
  if (limits.compressions.empty() || !isCompressible(op))
    return;
  FailureOr<GroupShape> shape = model.getGroupShape(op);
  if (failed(shape) || shape->ranks < 2)
    return;
  if (limits.compressMinBytes >= 0) {
    if (CostModel::getWireBytes(op) < limits.compressMinBytes)
      return;
    cost.pieces.clear();
  }
  for (const WireFormat &format : limits.compressions)
    llvm::append_range(cost.pieces,
                       getCompressedCost(model, *shape, format, op).pieces);
}

/// What laying out rows takes (an all_reduce may lie anywhere in a range):
/// every byte is read and written.
static BucketInstance::Packing getPacking(const CostModel &model,
                                          BucketableOpInterface op) {
  FailureOr<int64_t> group = op.getGroupSize();
  CollectiveKind kind = op.getCollectiveKind();
  if (failed(group) || kind == CollectiveKind::AllReduce)
    return {};
  const DeviceModel &device = model.getCluster().device;
  double perByte = 2 / device.memoryBandwidth;
  // What is scattered or gathered is smaller on one side.
  double perBlock = perByte / static_cast<double>(*group);
  return {op.isGather() ? perBlock : perByte,
          kind == CollectiveKind::ReduceScatter ? perBlock : perByte,
          device.launch};
}

/// Makes `instance`, whose times are those of reductions, the mirror of a
/// problem of gathers. Bytes are those that lie in memory: of all ranks.
static void turnAround(BucketInstance &instance,
                       ArrayRef<BucketCandidate> candidates,
                       const BlockTimes &times, const BucketLimits &limits) {
  GatheringProblem &gathers = instance.gathers.emplace();
  gathers.capBytes = limits.getCap();
  gathers.memoryBytes = limits.memoryBytes;
  FailureOr<int64_t> group = candidates.front().getOp().getGroupSize();
  int64_t ranks = succeeded(group) ? *group : 1;
  for (CostCurve &cost : instance.problem.costs) {
    for (CostLine &piece : cost.pieces)
      piece.secondsPerByte /= static_cast<double>(ranks);
    gathers.costs.push_back(cost);
  }
  instance.origin = BucketingProblem::never;
  for (const BucketCandidate &candidate : candidates)
    instance.origin =
        std::min(instance.origin, times.getClock(candidate.ready));
  // The clock of ops that wait may be behind that of others before them.
  double needed = 0;
  for (const BucketCandidate &candidate : candidates)
    needed = std::max(needed, times.getClock(candidate.ready));
  for (auto [candidate, tensor] :
       llvm::zip_equal(candidates, instance.problem.tensors)) {
    needed = std::max(needed, candidate.use ? times.getBegin(candidate.use)
                                            : times.getEnd());
    gathers.tensors.push_back(
        {mpcomm::detail::multiplySaturated(tensor.bytes, ranks),
         times.getClock(candidate.ready) - instance.origin,
         needed - instance.origin, tensor.key});
  }
  gathers.computeEnd = std::max(times.getEnd(), needed) - instance.origin;
  // Larger buckets of state would be no faster, and take more memory until the
  // last of it is used.
  if (llvm::all_of(candidates, [](const BucketCandidate &candidate) {
        return gathersState(candidate.getOp());
      }))
    for (const CostCurve &cost : gathers.costs)
      if (int64_t bytes = cost.getSaturatingBytes())
        gathers.capBytes = std::min(gathers.capBytes, bytes);
  instance.problem = gathers.mirror();
}

BucketInstance mpcomm::buildInstance(ArrayRef<BucketCandidate> candidates,
                                     const BlockTimes &times,
                                     const CostModel *model,
                                     const BucketLimits &limits) {
  bool isGather = !candidates.empty() && candidates.front().getOp().isGather();
  BucketInstance instance;
  BucketingProblem &problem = instance.problem;
  problem.capBytes = limits.getCap();
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
      instance.packing.push_back(model ? getPacking(*model, candidate.op)
                                       : BucketInstance::Packing());
    }
    BucketingProblem::Tensor tensor;
    tensor.bytes = candidate.bytes;
    tensor.ready = times.getReady(candidate.ready);
    tensor.stream = stream->second;
    tensor.key = key->second;
    tensor.consumer = times.getConsumer(candidate.op);
    tensor.splittable = candidate.getOp().isSplittable() &&
                        candidate.getOp()->getNumOperands() == 1;
    int64_t elements = mpcomm::detail::countElements(
        candidate.getOp()->getOperand(0).getType());
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
  if (isGather)
    turnAround(instance, candidates, times, limits);
  return instance;
}

//===----------------------------------------------------------------------===//
// Plans against each other
//===----------------------------------------------------------------------===//

/// Seconds that lay out a bucket, and that hand it out.
static std::pair<double, double>
getPackingSeconds(const BucketInstance &instance,
                  const BucketingPlan::Bucket &bucket) {
  int64_t tensors = bucket.end - bucket.begin;
  if (tensors < 2 || instance.packing.empty())
    return {0, 0};
  const BucketInstance::Packing &packing = instance.packing[bucket.key];
  double each = packing.perTensor * static_cast<double>(tensors);
  double bytes = static_cast<double>(bucket.bytes);
  return {packing.before * bytes + each, packing.after * bytes + each};
}

/// Fills the simulated program of a plan for gathers.
static void playGathers(const BucketInstance &instance,
                        const BucketingPlan &plan, SimProgram &program) {
  const GatheringProblem &gathers = *instance.gathers;
  // Starts and awaits by the computation before them.
  struct Event {
    double at;
    bool isAwait;
    int bucket;
  };
  SmallVector<Event> events;
  double ready = 0;
  for (auto [i, bucket] : llvm::enumerate(plan.buckets)) {
    ready = std::max(ready, bucket.ready);
    events.push_back({ready, false, static_cast<int>(i)});
    double needed = gathers.tensors[plan.slices[bucket.begin].tensor].needed;
    events.push_back({needed, true, static_cast<int>(i)});
  }
  llvm::sort(events, [](const Event &a, const Event &b) {
    return std::tuple(a.at, a.isAwait, a.bucket) <
           std::tuple(b.at, b.isAwait, b.bucket);
  });
  auto compute = [&](double seconds) {
    if (seconds > 0)
      program.instructions.push_back(RankInstruction::compute(seconds));
  };
  compute(instance.origin);
  double now = 0;
  for (const Event &event : events) {
    compute(event.at - now);
    now = std::max(now, event.at);
    auto [before, after] =
        getPackingSeconds(instance, plan.buckets[event.bucket]);
    if (!event.isAwait)
      compute(before);
    program.instructions.push_back(event.isAwait
                                       ? RankInstruction::await(event.bucket)
                                       : RankInstruction::start(event.bucket));
    if (event.isAwait)
      compute(after);
  }
  compute(gathers.computeEnd - now);
}

static double simulatePlan(const BucketInstance &instance, BucketingPlan plan,
                           const Cluster &cluster) {
  const BucketingProblem &problem = instance.problem;
  if (instance.gathers)
    plan = instance.gathers->mirror(plan);
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
  if (instance.gathers) {
    playGathers(instance, plan, program);
    return simulateSeconds(sim);
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
    compute(getPackingSeconds(instance, plan.buckets[i]).first);
    program.instructions.push_back(RankInstruction::start(i));
  }
  compute(problem.computeEnd - now);
  for (int i : order) {
    program.instructions.push_back(RankInstruction::await(i));
    compute(getPackingSeconds(instance, plan.buckets[i]).second +
            plan.buckets[i].consumer);
  }
  return simulateSeconds(sim);
}

static BucketingPlan planByRule(const BucketingProblem &problem,
                                BucketPolicy policy,
                                const BucketLimits &limits) {
  bool capped = limits.capBytes != BucketingProblem::unlimited;
  auto cap = [&](int64_t bytes) {
    return std::min(capped ? limits.capBytes : bytes, limits.peakBytes);
  };
  switch (policy) {
  case BucketPolicy::Solved:
    return solveBuckets(problem);
  case BucketPolicy::DDP:
    return bucketLikeDDP(
        problem, cap(int64_t(25) << 20),
        std::min(limits.firstBytes ? limits.firstBytes : int64_t(1) << 20,
                 limits.peakBytes));
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
  chosen.lowerBound = instance.origin +
                      instance.problem.lowerBound(BucketingObjective::StepEnd);
  if (instance.gathers && !chosen.rule.empty())
    chosen.plan = instance.gathers->mirror(chosen.plan);
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
