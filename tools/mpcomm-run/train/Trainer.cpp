//===- Trainer.cpp - what one rank does -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `run` is last and reads as the outline. If all ranks see the same failure
// (the loss is one number, reduced by the program), only rank 0 reports it; the
// others have a Status without a message.
//
//===----------------------------------------------------------------------===//

#include "train/Trainer.h"

#include "train/StateSurvey.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

static double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

Status Trainer::prepare() {
  if (job.weights) {
    if (Status status = job.state->load(*job.weights); status.failed())
      return status;
    // The file may be large; nothing reads it again.
    job.weights.reset();
  }
  Result<void *> memory = rank.allocate(job.arenaBytes());
  if (memory.failed())
    return memory.error();
  arena = *memory;
  Result<DeviceState> made =
      DeviceState::create(rank.device(), rank.context(), *job.state);
  if (made.failed())
    return fail("rank ", rank.index(), ": ", made.message());
  device.emplace(made.take());
  if (job.data)
    sampler.emplace(job.data->samples(), batchSizeOf(job.trainers),
                    job.dataRanks, job.seed, job.options.shuffle);
  return {};
}

void Trainer::setScalars(Binding &binding, uint64_t step) {
  const std::vector<ManifestArgument> &arguments = binding.function->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ManifestArgument &argument = arguments[i];
    char *data = job.state->slot(binding.arguments[i]).data;
    if (argument.role == Role::Hyperparameter)
      storeNumber(argument.type, data, 0, job.hyperparameter(argument, step));
    if (argument.role != Role::Rng)
      continue;
    // A function of seed, step and samples: needs no place in a checkpoint.
    SplitMix64 mixed(job.seed);
    SplitMix64 generator(mixed.next() ^ (step * job.dataRanks + job.dataRank));
    for (uint64_t at = 0; at < argument.bytes; at += sizeof(uint64_t)) {
      uint64_t word = generator.next();
      std::memcpy(data + at, &word,
                  std::min<uint64_t>(sizeof(word), argument.bytes - at));
    }
  }
}

Status Trainer::feed(Binding &binding, Dataset *data, Sampler *order,
                     uint64_t step) {
  device->beginInputs();
  if (data && order)
    data->gather(order->indices(step, job.dataRank), *job.state, binding);
  setScalars(binding, step);
  return device->sendInputs();
}

Status Trainer::call(Binding &binding) {
  if (Status status = device->placeInputs(); status.failed())
    return status;
  mprt_entry entry = job.program->entryOf(*binding.function);
  int32_t status = rank.context().call(entry, binding.pointers.data(),
                                       binding.pointers.size(), arena);
  if (status != MPRT_OK)
    return rank.describeFailure(binding.function->name, status);
  job.state->adoptResults(binding);
  return {};
}

Status Trainer::checkLoss(uint64_t step, double loss) const {
  if (std::isfinite(loss) || job.options.allowNonFinite)
    return {};
  if (rank.index() != 0)
    return fail("");
  return fail("step ", step, ", rank 0: the loss is ", loss,
              "; --allow-nonfinite goes on, --check-numerics tells which "
              "tensor went bad first");
}

Status Trainer::checkData(std::optional<Dataset> &data) {
  return data ? rank.agree(data->checkUnchanged(job.options.allowNonFinite))
              : Status();
}

Status Trainer::checkState(uint64_t step) const {
  for (const StateTensor &tensor : job.state->tensors(/*optimizer=*/true)) {
    uint64_t count = *elementsOf(tensor.shape);
    size_t first = findNonFinite(tensor.type, tensor.data, count,
                                 mayBeInfinite(tensor.role));
    if (first < count)
      return fail("step ", step, ", rank ", rank.index(), ": tensor '",
                  printable(tensor.name), "', element ", first, ": ",
                  loadFloat(tensor.type, tensor.data, first), " is not finite");
  }
  return {};
}

Status Trainer::gatherNonFinite(std::vector<std::string> &parameters) {
  auto checks = [](const ManifestFunction *function) {
    return std::any_of(function->results.begin(), function->results.end(),
                       [](const ManifestResult &result) {
                         return result.name == "nonfinite";
                       });
  };
  if (job.dataRanks == job.ranks ||
      std::none_of(job.trainers.begin(), job.trainers.end(), checks))
    return {};
  auto found = static_cast<uint8_t>(!parameters.empty());
  std::vector<uint8_t> any(rank.size());
  if (Status status = rank.gather(&found, any.data(), 1); status.failed())
    return status;
  if (std::all_of(any.begin(), any.end(), [](uint8_t f) { return f == 0; }))
    return {};
  std::string mine;
  for (const std::string &name : parameters)
    mine += name + '\0';
  Result<std::vector<std::string>> all = rank.gatherText(
      job.dataRank == 0 ? mine : std::string(), "names of parameters");
  if (all.failed())
    return all.error();
  for (uint64_t r = 1; r < rank.size() && rank.index() == 0; ++r)
    for (size_t at = 0; at < (*all)[r].size();) {
      std::string name = (*all)[r].c_str() + at;
      at += name.size() + 1;
      // Stages that share a parameter find the same.
      if (std::find(parameters.begin(), parameters.end(), name) ==
          parameters.end())
        parameters.push_back(std::move(name));
    }
  return {};
}

void Trainer::flipBit() {
  const std::vector<Slot> &all = job.state->all();
  auto slot = std::find_if(all.begin(), all.end(), [](const Slot &candidate) {
    return candidate.role == Role::Parameter && candidate.bytes > 0;
  });
  // Of the least bit, the sum of the next update may leave nothing.
  if (slot != all.end())
    slot->data[std::max<size_t>(sizeOf(slot->type), 2) - 2] ^= 0x20;
}

Status Trainer::trainStep(uint64_t step, StepRecord &record) {
  Binding &binding = job.state->bindingOf(*job.train);
  Clock::time_point start = Clock::now();
  double exposedBefore = rank.context().stats().exposedSeconds();
  if (position)
    position->store(step + 1, std::memory_order_relaxed);
  Sampler *order = sampler ? &*sampler : nullptr;
  Dataset *data = order ? &*job.data : nullptr;
  if (order)
    record.epoch = order->epochOf(step);
  if (fed != step)
    if (Status status = feed(binding, data, order, step); status.failed())
      return status;
  maybeFail(fault, rank.index(), step + 1);
  uint64_t begin = mprt::nowNanoseconds();
  if (Status status = call(binding); status.failed())
    return status;
  // The next batch is gathered while the device is busy with this one.
  bool runsAhead = rank.device().isAsynchronous();
  if (runsAhead && step + 1 < job.lastStep) {
    if (Status status = feed(binding, data, order, step + 1); status.failed())
      return status;
    fed = step + 1;
  }
  if (Status status = device->fetch(watched); status.failed())
    return status;
  if (job.outputs.any())
    spans.push_back({begin, mprt::nowNanoseconds()});

  if (fault.hits(Fault::Kind::Flip, rank.index()) && fault.step == step + 1)
    flipBit();
  record.step = step + 1;
  record.milliseconds = millisecondsSince(start);
  if (!runsAhead)
    record.exposedMilliseconds =
        1e3 * (rank.context().stats().exposedSeconds() - exposedBefore);
  const Slot &loss = job.state->slot(lossSlot);
  record.loss = loadFloat(loss.type, loss.data, 0);
  for (const auto &[name, index] : metricSlots) {
    const Slot &metric = job.state->slot(index);
    record.metrics.emplace_back(name, loadFloat(metric.type, metric.data, 0));
  }
  record.hasLr = job.learningRateArgument() != nullptr;
  record.lr = job.learningRate.at(step);
  record.lossScale = lossScale.read(*job.state);
  if (Status status = gatherNonFinite(record.lossScale.nonFinite);
      status.failed())
    return status;
  if (job.options.checkNumerics) {
    if (Status status = device->fetchState(); status.failed())
      return status;
    if (Status status = checkState(step + 1); status.failed())
      return status;
  }
  return checkLoss(step + 1, record.loss);
}

Status Trainer::train(Report &report, StateKeeper &keeper) {
  const ManifestFunction &function = *job.train;
  lossSlot =
      job.state->bindingOf(function)
          .results[function.resultOf(Role::Loss) - function.results.data()];
  lossScale.attach(*job.state, function);
  watched = lossScale.slots();
  watched.push_back(lossSlot);
  metricSlots.clear();
  for (size_t i : function.metrics()) {
    size_t slot = job.state->bindingOf(function).results[i];
    metricSlots.emplace_back(function.results[i].name, slot);
    watched.push_back(slot);
  }
  // Of state as the host has it.
  auto withState = [&](auto action) -> Status {
    if (Status status = device->fetchState(); status.failed())
      return status;
    return action();
  };
  const RunOptions &options = job.options;
  auto falls = [](uint64_t step, uint64_t every) {
    return every && step % every == 0;
  };
  for (uint64_t step = job.firstStep; step < job.lastStep; ++step) {
    StepRecord record;
    if (Status status = trainStep(step, record); status.failed()) {
      report.interrupt();
      return status;
    }
    if (Status status = report.step(record); status.failed())
      return status;
    uint64_t done = step + 1;
    bool isKept = falls(done, options.checkpointEvery) && done < job.lastStep;
    Status status;
    // What was trained on other data is not kept, nor goes on for long.
    if (isKept || done == job.lastStep ||
        (sampler && done % sampler->stepsPerEpoch() == 0))
      status = checkData(job.data);
    if (status.ok() && isKept)
      status = withState(
          [&] { return keeper.writeCheckpoint(done, /*atEnd=*/false); });
    else if (status.ok() && falls(done, options.checkReplicas.value_or(0)))
      status = withState([&] { return keeper.checkReplicas(done); });
    if (status.failed()) {
      report.interrupt();
      return status;
    }
  }
  uint64_t last = job.lastStep;
  Status status;
  if (!options.checkpoint.empty())
    status =
        withState([&] { return keeper.writeCheckpoint(last, /*atEnd=*/true); });
  if (status.ok() && !options.saveWeights.empty())
    status = withState([&] { return keeper.writeWeights(last); });
  if (status.failed())
    report.interrupt();
  return status;
}

std::optional<HostCost> Trainer::hostCost() const {
  if (!rank.device().isAsynchronous())
    return std::nullopt;
  mprt::Stats stats = rank.context().stats();
  auto average = [](uint64_t sum, uint64_t count) {
    return count ? static_cast<double>(sum) / static_cast<double>(count) : 0;
  };
  HostCost cost;
  cost.eagerMicroseconds =
      1e-3 * average(stats.eagerNanoseconds, stats.eagerTimed);
  cost.calls = average(stats.eagerCalls, stats.eagerSteps);
  cost.graphMicroseconds =
      1e-3 * average(stats.graphNanoseconds, stats.graphSteps);
  cost.nodes = average(stats.graphNodes, stats.graphSteps);
  return cost;
}

Status Trainer::finish(Report &report) {
  MemoryUse mine;
  mine.peakResident = peakResidentBytes();
  mine.arena = job.arenaBytes();
  mine.parameters =
      job.state->bytesOf(Role::Parameter) + job.state->bytesOf(Role::Buffer);
  mine.optimizerState = job.state->bytesOf(Role::OptimizerState);
  mine.device = rank.deviceBytes();
  std::vector<MemoryUse> all(job.ranks);
  if (Status status = rank.gather(&mine, all.data(), sizeof(mine));
      status.failed())
    return status;
  if (const std::string &why = rank.context().graphNote(); !why.empty())
    report.note("note: steps run call by call, not as a graph: " + why);
  report.finish(all, lossScale.skipped(), hostCost());
  return {};
}

Status Trainer::writeSteps() {
  const RunOptions &options = job.options;
  std::vector<TraceEvent> events = rank.context().trace().events();
  std::vector<StepSpan> steps =
      completeSteps(spans, events, rank.context().trace().dropped());
  // One rank of each stage; where there are none, rank 0.
  bool shows = job.dataRank == 0;
  const std::string &name = job.program->manifest().program;
  StepsOrigin origin{name.empty() ? job.program->path() : name,
                     rank.backend(),
                     job.ranks,
                     job.program->manifest().places,
                     rank.index(),
                     &job.program->manifest(),
                     rank.localRanks() == rank.size()};
  // Rank 0 writes what all have made.
  auto write = [&](const std::string &path, const std::string &mine,
                   auto merge) -> Status {
    Result<std::vector<std::string>> all =
        rank.gatherText(mine, "steps of a rank");
    if (all.failed())
      return all.error();
    return rank.agree(rank.index() == 0 ? writeText(path, merge(*all))
                                        : Status());
  };
  if (job.outputs.timeline) {
    Result<std::pair<StepSpan, StepSpan>> step = chooseStep(medianStep(steps));
    if (step.failed())
      return step.error();
    auto render = shows ? renderTimeline : renderArrivals;
    std::string mine = render(step->first, step->second, events, origin);
    if (Status status = write(options.timeline, mine, mergeTimelines);
        status.failed())
      return status;
  }
  if (!job.outputs.profile)
    return {};
  return write(options.profile,
               shows ? renderProfile(steps, events, origin) : "",
               mergeProfiles);
}

Result<std::pair<StepSpan, StepSpan>>
Trainer::chooseStep(const StepSpan &median) {
  // Rank 0's choice, by its number.
  uint64_t number = 0;
  while (number < spans.size() && spans[number].begin != median.begin)
    ++number;
  std::vector<uint64_t> numbers(rank.size());
  if (Status status = rank.gather(&number, numbers.data(), sizeof(number));
      status.failed())
    return status;
  StepSpan own = numbers[0] < spans.size() ? spans[numbers[0]] : StepSpan();
  std::vector<StepSpan> all(rank.size());
  if (Status status = rank.gather(&own, all.data(), sizeof(own));
      status.failed())
    return status;
  StepSpan base = own;
  // Other machines have other clocks.
  if (rank.localRanks() == rank.size())
    for (uint64_t r = 0; r < rank.size(); ++r)
      if (job.program->manifest().dataRankOf(r) == 0) {
        base.begin = std::min(base.begin, all[r].begin);
        base.end = std::max(base.end, all[r].end);
      }
  return std::make_pair(own, base);
}

Status Trainer::writeTraces() {
  if (job.outputs.timeline || job.outputs.profile)
    if (Status status = writeSteps(); status.failed())
      return status;
  if (!job.outputs.trace)
    return {};
  return writeTrace(job.options.trace, job.program->manifest(), rank);
}

Status Trainer::run() {
  Result<Report> report = Report::create(job.options, rank.index() == 0,
                                         job.firstStep, job.lastStep);
  Status mine = report.failed() ? report.error() : prepare();
  if (Status status = rank.agree(mine); status.failed())
    return status;

  StateKeeper keeper(job, rank,
                     [&](const std::string &line) { report->note(line); });
  if (Status status = keeper.checkStart(); status.failed())
    return status;
  report->begin(job.describe());
  if (rank.device().isAsynchronous())
    report->note("rank 0 computes on " + rank.device().describe());
  for (const std::string &warning : job.warnings)
    report->note("warning: " + warning);
  if (job.train) {
    if (Status status = train(*report, keeper); status.failed()) {
      // What led there is what the trace was asked for.
      if (rank.index() == 0 && !job.options.trace.empty())
        (void)writeOwnTrace(job.options.trace, job.program->manifest(), rank);
      return status;
    }
    if (Status status = finish(*report); status.failed())
      return status;
  }
  if (job.evaluate)
    if (Status status = evaluate(*report); status.failed())
      return status;
  if (Status status = writeTraces(); status.failed())
    return status;
  return report->close();
}
