//===- Trainer.cpp - what one rank does -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `run` is last and reads as the outline. If all ranks see the same failure
// (the loss is one number, reduced by the program), only rank 0 reports it; the
// others have an Error without a message.
//
//===----------------------------------------------------------------------===//

#include "train/Trainer.h"

#include "session/state/StateSurvey.h"
#include "train/Resume.h"

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

static KeeperOptions keeperOptionsOf(const TrainingJob &job) {
  return {job.options.checkpoint, job.options.checkReplicas != 0u,
          job.options.timeoutSeconds};
}

Error Trainer::prepare() {
  if (job.weights) {
    if (Error error = job.state->load(*job.weights))
      return error;
    // The file may be large; nothing reads it again.
    job.weights.reset();
  }
  Expected<void *> memory = rank.allocate(job.arenaBytes());
  if (memory.failed())
    return memory.error();
  Expected<DeviceState> made =
      DeviceState::create(rank.device(), rank.context(), *job.state);
  if (made.failed())
    return fail("rank ", rank.index(), ": ", made.message());
  device.emplace(made.take());
  stepper.emplace(rank, *job.program, *job.state, *device, *memory);
  if (!job.data)
    return {};
  sampler.emplace(job.sampler());
  if (job.train)
    reader = std::make_unique<BatchReader>(
        *job.data,
        [this](uint64_t step) { return sampler->indices(step, job.dataRank); },
        job.options.shuffle, job.state->bindingOf(*job.train), job.firstStep,
        job.lastStep);
  return {};
}

Error Trainer::feed(Binding &binding, BatchReader *batches, uint64_t step) {
  device->beginInputs();
  if (batches) {
    Clock::time_point start = Clock::now();
    if (Error error = batches->take(step, *job.state))
      return error;
    dataWait = millisecondsSince(start);
  }
  stepper->storeScalars(binding, step, job.seed,
                        [&](const ManifestArgument &argument) {
                          return job.hyperparameter(argument, step);
                        });
  return device->sendInputs();
}

Error Trainer::call(Binding &binding) {
  return stepper->call(binding, binding.pointers);
}

Error Trainer::checkLoss(uint64_t step, double loss) const {
  if (std::isfinite(loss) || job.options.allowNonFinite)
    return {};
  if (rank.index() != 0)
    return fail("");
  return fail("step ", step, ", rank 0: the loss is ", loss,
              "; --allow-nonfinite goes on, --check-numerics tells which "
              "tensor went bad first");
}

Error Trainer::checkData(std::optional<Dataset> &data) {
  return data ? rank.agree(data->checkUnchanged(job.options.allowNonFinite))
              : Error();
}

Error Trainer::checkState(uint64_t step) const {
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

void Trainer::flipBit() {
  const std::vector<Slot> &all = job.state->all();
  auto slot = std::find_if(all.begin(), all.end(), [](const Slot &candidate) {
    return candidate.role == Role::Parameter && candidate.bytes > 0;
  });
  // Of the least bit, the sum of the next update may leave nothing.
  if (slot != all.end())
    slot->data[std::max<size_t>(sizeOf(slot->type), 2) - 2] ^= 0x20;
}

Error Trainer::trainStep(uint64_t step, StepRecord &record) {
  Binding &binding = job.state->bindingOf(*job.train);
  Clock::time_point start = Clock::now();
  double exposedBefore = rank.context().stats().exposedSeconds();
  position.step.store(step + 1, std::memory_order_relaxed);
  if (sampler)
    record.epoch = sampler->epochOf(step);
  if (fed != step)
    if (Error error = feed(binding, reader.get(), step))
      return error;
  maybeFail(fault, rank.index(), step + 1);
  uint64_t begin = mprt::nowNanoseconds();
  if (Error error = call(binding))
    return error;
  // The next batch is gathered while the device is busy with this one.
  bool runsAhead = rank.device().isAsynchronous();
  if (runsAhead && step + 1 < job.lastStep) {
    if (Error error = feed(binding, reader.get(), step + 1))
      return error;
    fed = step + 1;
  }
  Expected<StepOutcome> outcome = stepper->read();
  if (outcome.failed())
    return outcome.error();
  if (job.outputs.any())
    spans.push_back({begin, mprt::nowNanoseconds()});

  if (fault.hits(Fault::Kind::Flip, rank.index()) && fault.step == step + 1)
    flipBit();
  record.step = step + 1;
  // Where a device computes, that of the next step, which it hides.
  if (reader && !runsAhead)
    record.dataMilliseconds = dataWait;
  record.milliseconds = millisecondsSince(start);
  if (!runsAhead)
    record.exposedMilliseconds =
        1e3 * (rank.context().stats().exposedSeconds() - exposedBefore);
  record.loss = *outcome->loss;
  std::vector<size_t> metrics = job.train->metrics();
  for (size_t i = 0; i < metrics.size(); ++i)
    record.metrics.emplace_back(job.train->results[metrics[i]].name,
                                outcome->metrics[i]);
  record.hasLr = job.learningRateArgument() != nullptr;
  record.lr = job.learningRate.at(step);
  record.lossScale = std::move(outcome->lossScale);
  if (Error error = gatherNonFinite(job.program->manifest(), rank,
                                    record.lossScale.nonFinite))
    return error;
  if (job.options.checkNumerics) {
    if (Error error = device->fetchState())
      return error;
    if (Error error = checkState(step + 1))
      return error;
  }
  return checkLoss(step + 1, record.loss);
}

Error Trainer::finishWriting(StateKeeper &keeper) {
  if (!job.options.checkpointBackground)
    return {};
  std::optional<WrittenCheckpoint> written = keeper.takeWritten(/*waits=*/true);
  return rank.agree(written ? written->error : Error());
}

SaveRequest Trainer::requestFor(uint64_t step) const {
  SaveRequest request{describeCheckpoint(job, step)};
  request.keep = job.options.checkpointKeep;
  if (job.options.allowNonFinite && step < job.lastStep)
    request.nonFinite = NonFinitePolicy::Skip;
  return request;
}

static bool falls(uint64_t step, uint64_t every) {
  return every && step % every == 0;
}

Error Trainer::keep(StateKeeper &keeper, uint64_t done) {
  const RunOptions &options = job.options;
  bool isLast = done == job.lastStep;
  bool isKept = !isLast && !options.checkpoint.empty() &&
                (stopped || falls(done, options.checkpointEvery));
  bool isCompared = falls(done, options.checkReplicas.value_or(0));
  if (isKept || isCompared || stopped)
    if (Error error = finishWriting(keeper))
      return error;
  // What was trained on other data is not kept, nor goes on for long.
  if (isKept || isLast || (sampler && done % sampler->stepsPerEpoch() == 0))
    if (Error error = checkData(job.data))
      return error;
  if (!isKept && !isCompared)
    return {};
  if (Error error = device->fetchState())
    return error;
  if (!isKept)
    return keeper.checkReplicas(job.sharedState(), done);
  SaveRequest request = requestFor(done);
  request.background = options.checkpointBackground && !stopped;
  return keeper.writeCheckpoint(job.sharedState(), request);
}

Error Trainer::keepLast(StateKeeper &keeper) {
  const RunOptions &options = job.options;
  if (Error error = finishWriting(keeper))
    return error;
  if (options.checkpoint.empty() && options.saveWeights.empty())
    return {};
  if (Error error = device->fetchState())
    return error;
  SaveRequest request = requestFor(job.lastStep);
  if (!options.checkpoint.empty())
    if (Error error = keeper.writeCheckpoint(job.sharedState(), request))
      return error;
  return options.saveWeights.empty()
             ? Error()
             : keeper.writeWeights(job.sharedState(), options.saveWeights,
                                   request);
}

Error Trainer::afterStep(Report &report, StateKeeper &keeper, uint64_t done) {
  Expected<int> stop = stopVote.afterStep();
  if (stop.failed())
    return stop.error();
  stopped = done < job.lastStep ? *stop : 0;
  // Before the checkpoint: a run that resumes it does not evaluate again.
  if (job.evaluate && falls(done, job.options.evaluateEvery) &&
      done < job.lastStep)
    if (Error error = evaluate(report, done, /*isLast=*/false))
      return error;
  return keep(keeper, done);
}

Error Trainer::train(Report &report, StateKeeper &keeper) {
  stepper->watch(*job.train, /*isTraining=*/true);
  auto failed = [&](Error error) {
    if (error)
      report.interrupt();
    return error;
  };
  for (uint64_t step = job.firstStep; step < job.lastStep; ++step) {
    StepRecord record;
    if (Error error = failed(trainStep(step, record)))
      return error;
    if (Error error = report.step(record))
      return error;
    if (Error error = failed(afterStep(report, keeper, step + 1)))
      return error;
    if (stopped) {
      const std::string &file = job.options.checkpoint;
      report.note("stopped after step " + std::to_string(step + 1) +
                  " by signal " + std::to_string(stopped) +
                  (file.empty() ? "; without --checkpoint its state is lost"
                                : "; --resume " + file + " continues"));
      return {};
    }
  }
  return failed(keepLast(keeper));
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

Error Trainer::finish(Report &report) {
  MemoryUse mine;
  mine.peakResident = peakResidentBytes();
  mine.arena = job.arenaBytes();
  mine.parameters =
      job.state->bytesOf(Role::Parameter) + job.state->bytesOf(Role::Buffer);
  mine.optimizerState = job.state->bytesOf(Role::OptimizerState);
  mine.device = rank.deviceBytes();
  std::vector<MemoryUse> all(job.ranks);
  if (Error error = rank.gather(&mine, all.data(), sizeof(mine)))
    return error;
  if (const std::string &why = rank.context().graphNote(); !why.empty())
    report.note("note: steps run call by call, not as a graph: " + why);
  report.finish(all, stepper->skipped(), hostCost());
  return {};
}

Error Trainer::writeSteps() {
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
                   auto merge) -> Error {
    Expected<std::vector<std::string>> all =
        rank.gatherText(mine, "steps of a rank");
    if (all.failed())
      return all.error();
    return rank.agree(rank.index() == 0 ? writeText(path, merge(*all))
                                        : Error());
  };
  if (job.outputs.timeline) {
    Expected<std::pair<StepSpan, StepSpan>> step =
        chooseStep(medianStep(steps));
    if (step.failed())
      return step.error();
    auto render = shows ? renderTimeline : renderArrivals;
    std::string mine = render(step->first, step->second, events, origin);
    if (Error error = write(options.timeline, mine, mergeTimelines))
      return error;
  }
  if (!job.outputs.profile)
    return {};
  return write(options.profile,
               shows ? renderProfile(steps, events, origin) : "",
               mergeProfiles);
}

Expected<std::pair<StepSpan, StepSpan>>
Trainer::chooseStep(const StepSpan &median) {
  // Rank 0's choice, by its number.
  uint64_t number = 0;
  while (number < spans.size() && spans[number].begin != median.begin)
    ++number;
  std::vector<uint64_t> numbers(rank.size());
  if (Error error = rank.gather(&number, numbers.data(), sizeof(number)))
    return error;
  StepSpan own = numbers[0] < spans.size() ? spans[numbers[0]] : StepSpan();
  std::vector<StepSpan> all(rank.size());
  if (Error error = rank.gather(&own, all.data(), sizeof(own)))
    return error;
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

Error Trainer::writeTraces() {
  if (job.outputs.timeline || job.outputs.profile)
    if (Error error = writeSteps())
      return error;
  if (!job.outputs.trace)
    return {};
  return writeTrace(job.options.trace, job.program->manifest(), rank);
}

Error Trainer::run() {
  ReportedSteps steps = {job.firstStep, job.lastStep};
  if (job.data) {
    steps.samples = job.globalBatch();
    steps.tokens = steps.samples * job.data->tokensPerSample();
  }
  if (Error error = rank.agree(prepare()))
    return error;
  std::optional<Report> report;
  StateKeeper keeper(keeperOptionsOf(job), rank,
                     [&](const std::string &line) { report->note(line); });
  if (job.resumed && job.options.checkpointKeep > 1)
    keeper.resume(job.options.resume, *job.resumed);
  if (Error error =
          keeper.checkStart(job.sharedState(), {job.firstStep, job.lastStep,
                                                job.options.checkpointEvery,
                                                job.options.checkpointKeep}))
    return error;
  // A run that cannot start leaves the log of the one before it.
  Expected<Report> made = Report::create(job.options, rank.index() == 0, steps);
  if (Error error = rank.agree(made.error()))
    return error;
  report.emplace(made.take());
  report->begin(job.describe());
  if (rank.device().isAsynchronous())
    report->note("rank 0 computes on " + rank.device().describe());
  for (const std::string &warning : job.warnings)
    report->note("warning: " + warning);
  if (job.train) {
    position.stopsWhenAsked = true;
    Error status = train(*report, keeper);
    position.stopsWhenAsked = false;
    if (status.failed()) {
      // What led there is what the trace was asked for.
      if (rank.index() == 0 && !job.options.trace.empty())
        (void)writeOwnTrace(job.options.trace, job.program->manifest(), rank);
      return status;
    }
    if (Error error = finish(*report))
      return error;
  }
  if (job.evaluate && !stopped)
    if (Error error = evaluate(*report, job.lastStep, /*isLast=*/true))
      return error;
  if (Error error = writeTraces())
    return error;
  return report->close();
}
