//===- StagePartition.cpp - the stage problem and its partitions ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a well-formed problem is, what a partition comes to, and whether it is
// one. Figures come from the definitions, stage by stage, and not from the
// sums over ranges that the solver uses.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/StagePartition/StagePartition.h"
#include "StagePartition/StagePartitionDetail.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::stages;

using Op = StagePartitionProblem::Op;
using Parameter = StagePartitionProblem::Parameter;
using Value = StagePartitionProblem::Value;

/// A duration.
static bool isSeconds(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

/// "" if all of `readers` are in [begin, end), else what is wrong.
static std::string checkOps(const char *what, const std::vector<int> &readers,
                            int begin, size_t end) {
  for (int op : readers)
    if (op < begin || op >= int(end))
      return std::string("expected ") + what + " in [" + std::to_string(begin) +
             ", " + std::to_string(end) + "), got " + std::to_string(op);
  return "";
}

static std::string checkValue(const StagePartitionProblem &problem,
                              const Value &value) {
  size_t n = problem.ops.size();
  if (value.bytes < 0 || value.gradientBytes < 0)
    return "expected at least 0 bytes, got " +
           std::to_string(std::min(value.bytes, value.gradientBytes));
  if (value.producer < -1 || value.producer >= int(n))
    return "expected a producer in [-1, " + std::to_string(n) + "), got " +
           std::to_string(value.producer);
  std::string error =
      checkOps("consumers", value.consumers, value.producer + 1, n);
  return error.empty() ? checkOps("keepers", value.keepers,
                                  std::max(value.producer, 0), n)
                       : error;
}

static std::string checkParameter(const StagePartitionProblem &problem,
                                  const Parameter &parameter) {
  if (parameter.bytes < 0)
    return "expected at least 0 bytes, got " + std::to_string(parameter.bytes);
  if (!isSeconds(parameter.reductionSeconds))
    return "expected seconds that are finite and not negative";
  if (parameter.users.empty())
    return "expected a user";
  return checkOps("users", parameter.users, 0, problem.ops.size());
}

/// Whether sums may come to more than the solver counts with.
static std::string checkFigures(const StagePartitionProblem &problem) {
  double seconds = 0, crossing = 0, kept = 0, parameters = 0, uses = 0;
  for (const Op &op : problem.ops)
    seconds += op.forward + op.backwardInput + op.backwardWeight;
  for (const Value &value : problem.values) {
    crossing += double(value.bytes) + double(value.gradientBytes);
    kept += double(value.bytes) * double(value.keepers.size());
    uses += double(value.keepers.size());
  }
  for (const Parameter &parameter : problem.parameters) {
    parameters += double(parameter.bytes) * double(parameter.users.size());
    seconds += parameter.reductionSeconds * double(parameter.users.size());
    uses += double(parameter.users.size());
  }
  int64_t inFlight = 0;
  for (const StagePartitionProblem::Stage &stage : problem.stages)
    inFlight = std::max(inFlight, stage.inFlight);
  seconds += 4 * (problem.linkLatency + problem.linkSecondsPerByte * crossing);
  if (!(seconds * 1e12 < maxFigure))
    return "expected less than 2^60 picoseconds in all";
  double boundaries =
      double(problem.stages.size()) + 2 * double(problem.boundaryBuffers);
  if (!(crossing * boundaries + kept * double(inFlight) + parameters <
        maxFigure))
    return "expected less than 2^60 bytes in all";
  double count = 1 << 30;
  if (!(uses < count && double(problem.ops.size()) < count &&
        double(problem.stages.size()) < count))
    return "expected less than 2^30 ops, stages and uses of values";
  return "";
}

std::string StagePartitionProblem::check() const {
  if (stages.empty())
    return "expected at least a stage";
  if (!isSeconds(linkLatency) || !isSeconds(linkSecondsPerByte))
    return "expected a link's latency and seconds a byte that are finite and "
           "not negative";
  if (!(exposedShare >= 0 && exposedShare <= 1))
    return "expected a share from 0 to 1 of exposed transfers, got " +
           std::to_string(exposedShare);
  if (boundaryBuffers < 0)
    return "expected at least 0 buffers a boundary, got " +
           std::to_string(boundaryBuffers);
  for (size_t s = 0; s < stages.size(); ++s)
    if (stages[s].inFlight < 0 || stages[s].memoryBytes < 0)
      return "stage " + std::to_string(s) +
             ": expected micro-batches and a memory bound, neither negative";
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!isSeconds(ops[i].forward) || !isSeconds(ops[i].backwardInput) ||
        !isSeconds(ops[i].backwardWeight))
      return "op " + std::to_string(i) +
             ": expected seconds that are finite and not negative";
    if (ops[i].stage < -1 || ops[i].stage >= int(stages.size()))
      return "op " + std::to_string(i) + ": expected a stage in [-1, " +
             std::to_string(stages.size()) + "), got " +
             std::to_string(ops[i].stage);
  }
  for (size_t v = 0; v < values.size(); ++v)
    if (std::string error = checkValue(*this, values[v]); !error.empty())
      return "value " + std::to_string(v) + ": " + error;
  for (size_t k = 0; k < parameters.size(); ++k)
    if (std::string error = checkParameter(*this, parameters[k]);
        !error.empty())
      return "parameter " + std::to_string(k) + ": " + error;
  return checkFigures(*this);
}

const char *mpcomm::getName(StageBinding binding) {
  switch (binding) {
  case StageBinding::Compute:
    return "compute";
  case StageBinding::Transfer:
    return "transfer";
  case StageBinding::Memory:
    return "memory";
  case StageBinding::Constraint:
    return "constraint";
  }
  return "";
}

std::vector<int> StagePartition::stageOfOp() const {
  std::vector<int> result;
  for (size_t s = 0; s < stages.size(); ++s)
    result.resize(stages[s].end, int(s));
  return result;
}

/// The stages of `ops`, each once, in order.
static std::vector<int> collectStages(const std::vector<int> &ops,
                                      const std::vector<int> &stageOfOp) {
  std::vector<int> result;
  for (int op : ops)
    result.push_back(stageOfOp[op]);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void StagePartition::evaluate(const StagePartitionProblem &problem) {
  size_t p = stages.size();
  std::vector<int> stageOf = stageOfOp();
  for (Stage &stage : stages)
    stage = {.begin = stage.begin, .end = stage.end};
  // By boundary s, before stage s: what crosses it; boundaries 0 and p are the
  // ends.
  std::vector<int64_t> there(p + 1), back(p + 1);
  for (const Value &value : problem.values) {
    for (int s : collectStages(value.keepers, stageOf))
      stages[s].activationBytes += value.bytes;
    if (value.producer < 0)
      continue;
    int last = stageOf[getLastReader(value)];
    for (int s = stageOf[value.producer] + 1; s <= last; ++s) {
      there[s] += value.bytes;
      back[s] += value.gradientBytes;
    }
  }
  std::vector<Ticks> reduction(p);
  tiedParameters.clear();
  for (size_t k = 0; k < problem.parameters.size(); ++k) {
    const Parameter &parameter = problem.parameters[k];
    std::vector<int> holders = collectStages(parameter.users, stageOf);
    for (int s : holders) {
      stages[s].parameterBytes += parameter.bytes;
      if (holders.size() > 1)
        reduction[s] += toTicks(parameter.reductionSeconds);
    }
    if (holders.size() > 1)
      tiedParameters.push_back(int(k));
  }
  Ticks slowest = 0, sum = 0;
  boundaryBytes = peakBytes = 0;
  for (size_t s = 0; s < p; ++s) {
    Stage &stage = stages[s];
    CutFigures in = getCutFigures(problem, there[s], back[s]);
    CutFigures out = getCutFigures(problem, there[s + 1], back[s + 1]);
    Ticks compute = 0;
    for (int i = stage.begin; i < stage.end; ++i)
      compute += getTicks(problem.ops[i]);
    Ticks exposed = in.exposed + out.exposed;
    Ticks link = std::max(in.link, out.link);
    Ticks ticks = std::max(compute + reduction[s] + exposed, link);
    stage.computeSeconds = toSeconds(compute);
    stage.reductionSeconds = toSeconds(reduction[s]);
    stage.exposedSeconds = toSeconds(exposed);
    stage.linkSeconds = toSeconds(link);
    stage.seconds = toSeconds(ticks);
    slowest = std::max(slowest, ticks);
    sum += ticks;
    stage.bufferBytes = in.buffer + out.buffer;
    stage.memoryBytes = stage.parameterBytes + stage.bufferBytes +
                        problem.stages[s].inFlight * stage.activationBytes;
    stage.sentBytes = there[s + 1];
    stage.returnedBytes = back[s];
    boundaryBytes += out.bytes;
    peakBytes = std::max(peakBytes, stage.memoryBytes);
  }
  seconds = toSeconds(slowest);
  balance = sum > 0 ? double(slowest) * double(p) / double(sum) : 1;
}

std::string StagePartition::verify(const StagePartitionProblem &problem) const {
  if (std::string wrong = problem.check(); !wrong.empty())
    return wrong;
  if (!error.empty())
    return error;
  if (stages.size() != problem.stages.size())
    return "expected " + std::to_string(problem.stages.size()) +
           " stages, got " + std::to_string(stages.size());
  int end = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].begin != end || stages[s].end <= end)
      return "stage " + std::to_string(s) +
             ": does not begin where the one before ends, or is empty";
    end = stages[s].end;
  }
  if (end != int(problem.ops.size()))
    return "expected the last stage to end at op " +
           std::to_string(problem.ops.size()) + ", got " + std::to_string(end);
  StagePartition again = *this;
  again.evaluate(problem);
  std::vector<int> stageOf = stageOfOp();
  for (size_t i = 0; i < stageOf.size(); ++i)
    if (int given = problem.ops[i].stage; given >= 0 && given != stageOf[i])
      return "op " + std::to_string(i) + ": expected in stage " +
             std::to_string(given) + ", got " + std::to_string(stageOf[i]);
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage &x = stages[s], &y = again.stages[s];
    if (x.computeSeconds != y.computeSeconds ||
        x.reductionSeconds != y.reductionSeconds ||
        x.exposedSeconds != y.exposedSeconds ||
        x.linkSeconds != y.linkSeconds || x.seconds != y.seconds ||
        x.parameterBytes != y.parameterBytes ||
        x.activationBytes != y.activationBytes ||
        x.bufferBytes != y.bufferBytes || x.memoryBytes != y.memoryBytes ||
        x.sentBytes != y.sentBytes || x.returnedBytes != y.returnedBytes)
      return "stage " + std::to_string(s) +
             ": has figures that do not follow from its ops";
    if (x.memoryBytes > problem.stages[s].memoryBytes)
      return "stage " + std::to_string(s) + ": needs " +
             std::to_string(x.memoryBytes) + " bytes, more than " +
             std::to_string(problem.stages[s].memoryBytes);
  }
  if (seconds != again.seconds || boundaryBytes != again.boundaryBytes ||
      peakBytes != again.peakBytes || balance != again.balance ||
      tiedParameters != again.tiedParameters)
    return "has figures that do not follow from its stages";
  return "";
}
