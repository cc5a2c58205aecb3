//===- Trainer.cpp - what one rank does -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `run` is last and reads as the outline. If all ranks see the same failure
// (the loss is one number, reduced by the program), rank 0 reports it.
//
//===----------------------------------------------------------------------===//

#include "train/Trainer.h"

#include "files/OutputFile.h"
#include "report/Trace.h"
#include "train/Resume.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

static double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

/// All ranks call it: what a rank finds wrong, all of them do.
Error Trainer::choosePlan() {
  const std::string &wanted = job.options.variant;
  auto info = sized<mpcomm_session_info>();
  if (Error error = session(mpcomm_session_describe, &info))
    return error;
  std::string known;
  for (uint32_t number = 0; number < info.programs && !wanted.empty();
       ++number) {
    const char *name = "";
    if (Error error = session(mpcomm_session_variant, number, &name))
      return error;
    if (wanted == name) {
      if (job.firstStep >= job.options.variantAfter)
        return session(mpcomm_session_switch, number);
      if (job.options.variantAfter >= job.lastStep && job.train)
        return fail("--variant-after ", job.options.variantAfter,
                    ": the last step is ", job.lastStep,
                    ", expected fewer steps before the plan");
      later = number;
      return {};
    }
    if (*name)
      known += (known.empty() ? " '" : ", '") + std::string(name) + "'";
  }
  return wanted.empty()
             ? Error()
             : fail(job.program->path(), ": no variant '", printable(wanted),
                    "', expected one of", known.empty() ? " none" : known);
}

Expected<Trainer::Plans> Trainer::loadedPlans() const {
  auto info = sized<mpcomm_session_info>();
  if (Error error = session(mpcomm_session_describe, &info))
    return error;
  Plans plans;
  plans.current = info.current;
  for (uint32_t number = 0; number < info.programs; ++number) {
    const char *json = nullptr;
    if (Error error = session(mpcomm_session_manifest, number, &json))
      return error;
    Expected<Manifest> manifest = mprt::parseManifest(json);
    if (manifest.failed())
      return manifest.error();
    plans.manifests.push_back(manifest.take());
  }
  return plans;
}

Error Trainer::startToAdapt() {
  const RunOptions &options = job.options;
  if (!options.watchesNetwork())
    return {};
  auto wanted = sized<mpcomm_adapt_options>();
  wanted.every = static_cast<uint32_t>(options.adaptEvery);
  wanted.numerics = options.adapt.empty() ? nullptr : options.adapt.c_str();
  wanted.only_watch = options.adapt.empty();
  if (!options.planCommand.empty())
    wanted.plan_command = options.planCommand.c_str();
  if (Error error = session(mpcomm_session_adapt, &wanted))
    return error.isElsewhere() ? error
                               : error.withContext("--adapt or --monitor: ");
  Error opened;
  if (!options.monitor.empty() && session.index() == 0) {
    monitor.reset(std::fopen(options.monitor.c_str(), "we"));
    if (!monitor)
      opened = fail("--monitor ", options.monitor,
                    ": cannot open: ", std::strerror(errno));
  }
  return session.agree(opened);
}

Error Trainer::writeMonitor() {
  const char *json = nullptr;
  if (Error error = session(mpcomm_session_network, &json))
    return error;
  if (std::fprintf(monitor.get(), "%s\n", json) < 0 ||
      std::fflush(monitor.get()) != 0)
    return fail("--monitor ", job.options.monitor,
                ": cannot write: ", std::strerror(errno));
  return {};
}

Error Trainer::prepare() {
  const RunOptions &options = job.options;
  // What is set comes before what a checkpoint has.
  for (const auto &[name, value] : options.hyperparameters)
    if (Error error = session(mpcomm_session_set, name.c_str(), value))
      return error;
  if (job.learningRateArgument()) {
    auto schedule = sized<mpcomm_schedule>();
    schedule.decay = static_cast<int32_t>(job.learningRate.kind);
    schedule.base = job.learningRate.base;
    schedule.warmup = job.learningRate.warmup;
    schedule.total = job.learningRate.total;
    if (Error error = session(mpcomm_session_set_schedule, &schedule))
      return error;
  } else if (options.lr) {
    // Of a program that has none.
    (void)session(mpcomm_session_set, "lr", *options.lr);
  }
  if (Error error = session(mpcomm_session_set_seed, job.seed))
    return error;
  // What is another than in the checkpoint has been told.
  auto resume = sized<mpcomm_resume_options>();
  resume.anyway = 1;
  if (!options.resume.empty())
    if (Error error =
            session(mpcomm_session_resume, options.resume.c_str(), &resume))
      return error;
  if (!options.weights.empty())
    if (Error error =
            session(mpcomm_session_read_state, options.weights.c_str()))
      return error;
  isAsynchronous = session.totals().is_asynchronous;
  if (!job.data)
    return {};
  sampler.emplace(job.sampler());
  if (job.train)
    reader = std::make_unique<BatchReader>(
        *job.data,
        [this](uint64_t step) { return sampler->indices(step, job.dataRank); },
        options.shuffle, *job.train, job.firstStep, job.lastStep,
        isAsynchronous);
  return {};
}

Error Trainer::checkStart() {
  const RunOptions &options = job.options;
  auto plan = sized<mpcomm_save_plan>();
  plan.keep = static_cast<uint32_t>(options.checkpointKeep);
  plan.every = options.checkpointEvery;
  plan.last = job.lastStep;
  if (!options.checkpoint.empty())
    if (Error error = session(mpcomm_session_plan_saves,
                              options.checkpoint.c_str(), &plan))
      return error.isElsewhere() ? error
                                 : fail("--checkpoint ", error.message());
  Error difference = session(mpcomm_session_compare);
  if (difference.status() != MPRT_MISMATCH)
    return difference;
  return fail("ranks start from different state: ", difference.message(),
              "; give every rank the same weights or checkpoint");
}

void Trainer::note(const std::string &text) {
  if (job.outputs.trace)
    marks.push_back({mprt::nowNanoseconds(), text});
  if (report)
    report->note(text);
}

void Trainer::hear(const mpcomm_event &event) {
  if (event.kind == MPCOMM_EVENT_WARNING)
    note(std::string("warning: ") + event.text);
  if (event.kind == MPCOMM_EVENT_NETWORK)
    note(std::string("network: ") + event.text);
  if (event.kind == MPCOMM_EVENT_ADAPTED)
    note("step " + std::to_string(event.step) +
         ", another plan: " + event.text);
  if (event.kind == MPCOMM_EVENT_SAVED)
    saved = begun;
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

Error Trainer::checkLoss(uint64_t step, double loss) const {
  if (std::isfinite(loss) || job.options.allowNonFinite)
    return {};
  if (session.index() != 0)
    return Error::elsewhereOn(0);
  return fail("step ", step, ", rank 0: the loss is ", loss,
              "; --allow-nonfinite goes on, --check-numerics tells which "
              "tensor went bad first");
}

Error Trainer::checkData(std::optional<Dataset> &data) {
  return data ? session.agree(data->checkUnchanged(job.options.allowNonFinite))
              : Error();
}

Error Trainer::visitState(
    const std::function<Error(const mpcomm_tensor &)> &visit) const {
  uint32_t count = 0;
  if (Error error = session(mpcomm_session_state_count, &count))
    return error;
  for (uint32_t i = 0; i < count; ++i) {
    auto tensor = sized<mpcomm_tensor>();
    if (Error error = session(mpcomm_session_state_at, i, &tensor))
      return error;
    // Its values, which may be on a device.
    if (tensor.is_local)
      if (Error error = session(mpcomm_session_tensor, tensor.name, &tensor))
        return error;
    if (tensor.is_local)
      if (Error error = visit(tensor))
        return error;
  }
  return {};
}

Error Trainer::checkState(uint64_t step) const {
  return visitState([&](const mpcomm_tensor &tensor) -> Error {
    auto type = static_cast<DType>(tensor.dtype);
    uint64_t count = tensor.bytes / sizeOf(type);
    // A buffer may hold a maximum of nothing.
    size_t first =
        findNonFinite(type, tensor.data, count, tensor.role == MPCOMM_BUFFER);
    if (first == count)
      return {};
    return fail("step ", step, ", rank ", session.index(), ": tensor '",
                printable(tensor.name), "', element ", first, ": ",
                loadFloat(type, tensor.data, first), " is not finite");
  });
}

Error Trainer::flipBit() const {
  bool isDone = false;
  return visitState([&](const mpcomm_tensor &tensor) -> Error {
    size_t size = sizeOf(static_cast<DType>(tensor.dtype));
    if (tensor.role == MPCOMM_PARAMETER && tensor.bytes && !isDone) {
      // Of the least bit, the sum of the next update may leave nothing.
      static_cast<char *>(tensor.data)[std::max<size_t>(size, 2) - 2] ^= 0x20;
      isDone = true;
    }
    return {};
  });
}

Error Trainer::call(uint64_t step, mpcomm_result &result) {
  std::span<const mpcomm_array> batch, next;
  auto take = [&](uint64_t of, std::span<const mpcomm_array> &taken) -> Error {
    if (!reader)
      return {};
    Expected<std::span<const mpcomm_array>> found = reader->take(of);
    if (found)
      taken = *found;
    return found.error();
  };
  Clock::time_point start = Clock::now();
  if (fed != step)
    if (Error error = take(step, batch))
      return error;
  dataWait = millisecondsSince(start);
  // It travels while the device is busy with this one.
  bool runsAhead = isAsynchronous && step + 1 < job.lastStep;
  if (runsAhead)
    if (Error error = take(step + 1, next))
      return error;
  maybeFail(fault, session.index(), step + 1);
  auto options = sized<mpcomm_step_options>();
  options.next = next.data();
  options.next_count = static_cast<uint32_t>(next.size());
  uint64_t begin = mprt::nowNanoseconds();
  if (Error error =
          session(mpcomm_session_step, batch.data(),
                  static_cast<uint32_t>(batch.size()), &options, &result))
    return error;
  if (job.outputs.any())
    spans.push_back({begin, mprt::nowNanoseconds()});
  if (!next.empty())
    fed = step + 1;
  return {};
}

Error Trainer::trainStep(uint64_t step, StepRecord &record) {
  Clock::time_point start = Clock::now();
  position.step.store(step + 1, std::memory_order_relaxed);
  if (sampler)
    record.epoch = sampler->epochOf(step);
  auto result = sized<mpcomm_result>();
  if (Error error = call(step, result))
    return error;
  if (fault.hits(Fault::Kind::Flip, session.index()) && fault.step == step + 1)
    if (Error error = flipBit())
      return error;
  record.step = step + 1;
  // Where a device computes, it hides that of the next step.
  if (reader && !isAsynchronous)
    record.dataMilliseconds = dataWait;
  record.milliseconds = millisecondsSince(start);
  if (result.exposed_milliseconds >= 0)
    record.exposedMilliseconds = result.exposed_milliseconds;
  record.loss = result.loss;
  for (uint32_t i = 0; i < result.metric_count; ++i)
    record.metrics.emplace_back(result.metrics[i].name,
                                result.metrics[i].value);
  record.hasLr = job.learningRateArgument() != nullptr;
  record.lr = job.learningRate.at(step);
  if (result.has_loss_scale) {
    record.lossScale = result.loss_scale;
    record.isSkipped = result.is_skipped;
    skipped = skipped.value_or(0) + result.is_skipped;
  }
  record.nonFinite.assign(result.nonfinite,
                          result.nonfinite + result.nonfinite_count);
  if (job.options.checkNumerics)
    if (Error error = checkState(step + 1))
      return error;
  return checkLoss(step + 1, record.loss);
}

//===----------------------------------------------------------------------===//
// After a step
//===----------------------------------------------------------------------===//

Error Trainer::finishWriting() {
  return job.options.checkpointBackground
             ? session.agree(session(mpcomm_session_wait))
             : Error();
}

Error Trainer::compareReplicas(uint64_t done) {
  Error difference = session(mpcomm_session_compare);
  if (difference.status() != MPRT_MISMATCH)
    return difference;
  const std::string &path = job.options.checkpoint;
  std::string kept;
  if (saved)
    kept =
        "; " + path + " keeps the checkpoint of step " + std::to_string(*saved);
  else if (!path.empty())
    kept = "; " + describeUnchanged(path);
  return fail("step ", done, ": ", difference.message(), kept);
}

Error Trainer::save(const std::string &path, mpcomm_save_options options) {
  std::map<std::string, std::string> texts = describeData(job);
  std::vector<mpcomm_text> metadata;
  for (const auto &[key, value] : texts)
    metadata.push_back({key.c_str(), value.c_str()});
  if (!options.weights_only) {
    options.metadata = metadata.data();
    options.metadata_count = static_cast<uint32_t>(metadata.size());
    options.keep = static_cast<uint32_t>(job.options.checkpointKeep);
  }
  options.allow_difference = job.options.checkReplicas == 0u;
  return session(mpcomm_session_save, path.c_str(), &options);
}

static bool falls(uint64_t step, uint64_t every) {
  return every && step % every == 0;
}

Error Trainer::keep(uint64_t done) {
  const RunOptions &options = job.options;
  bool isLast = done == job.lastStep;
  bool isKept = !isLast && !options.checkpoint.empty() &&
                (stopped || falls(done, options.checkpointEvery));
  bool isCompared = falls(done, options.checkReplicas.value_or(0));
  if (isKept || isCompared || stopped)
    if (Error error = finishWriting())
      return error;
  // What was trained on other data is not kept, nor goes on for long.
  if (isKept || isLast || (sampler && done % sampler->stepsPerEpoch() == 0))
    if (Error error = checkData(job.data))
      return error;
  if (!isKept)
    return isCompared ? compareReplicas(done) : Error();
  auto request = sized<mpcomm_save_options>();
  request.background = options.checkpointBackground && !stopped;
  request.skip_nonfinite = options.allowNonFinite;
  begun = done;
  return save(options.checkpoint, request);
}

Error Trainer::keepLast() {
  const RunOptions &options = job.options;
  if (Error error = finishWriting())
    return error;
  auto request = sized<mpcomm_save_options>();
  if (!options.checkpoint.empty())
    if (Error error = save(options.checkpoint, request))
      return error;
  request.weights_only = 1;
  return options.saveWeights.empty() ? Error()
                                     : save(options.saveWeights, request);
}

Error Trainer::afterStep(uint64_t done) {
  Expected<int> stop = stopVote.afterStep();
  if (stop.failed())
    return stop.error();
  stopped = done < job.lastStep ? *stop : 0;
  if (monitor && falls(done - job.firstStep, job.options.adaptEvery))
    if (Error error = writeMonitor())
      return error;
  // Before the checkpoint: a run that resumes it does not evaluate again.
  if (job.evaluate && falls(done, job.options.evaluateEvery) &&
      done < job.lastStep)
    if (Error error = evaluate(done, /*isLast=*/false))
      return error;
  return keep(done);
}

Error Trainer::train() {
  for (uint64_t done = job.firstStep; done < job.lastStep && !stopped;) {
    if (later && done == job.options.variantAfter) {
      if (Error error = session(mpcomm_session_switch, *later))
        return error;
      note("step " + std::to_string(done) + ", another plan: '" +
           job.options.variant + "'");
    }
    StepRecord record;
    if (Error error = trainStep(done, record))
      return error;
    if (Error error = report->step(record))
      return error;
    if (Error error = afterStep(++done))
      return error;
    const std::string &file = job.options.checkpoint;
    if (stopped)
      report->note("stopped after step " + std::to_string(done) +
                   " by signal " + std::to_string(stopped) +
                   (file.empty() ? "; without --checkpoint its state is lost"
                                 : "; --resume " + file + " continues"));
  }
  return stopped ? Error() : keepLast();
}

//===----------------------------------------------------------------------===//
// After the last step
//===----------------------------------------------------------------------===//

Error Trainer::finish() {
  mpcomm_totals totals = session.totals();
  MemoryUse mine;
  mine.peakResident = peakResidentBytes();
  mine.arena = totals.arena_bytes;
  mine.parameters = totals.parameter_bytes;
  mine.optimizerState = totals.optimizer_bytes;
  mine.device = totals.device_bytes;
  std::vector<MemoryUse> all(job.ranks);
  if (Error error = session.gather(&mine, all.data(), sizeof(mine)))
    return error;
  if (*totals.graph_note)
    report->note(std::string("note: steps run call by call, not as a graph: ") +
                 totals.graph_note);
  report->finish(all, skipped,
                 isAsynchronous ? std::optional(totals) : std::nullopt);
  return {};
}

Error Trainer::writeSteps() {
  const RunOptions &options = job.options;
  Expected<RecordedTrace> trace = traceOf(session);
  if (trace.failed())
    return trace.error();
  Expected<Plans> plans = loadedPlans();
  if (plans.failed())
    return plans.error();
  const Manifest *plan = &plans->manifests[plans->current];
  std::vector<TraceEvent> events;
  for (size_t i = 0; i < trace->events.size(); ++i)
    if (trace->programs[i] == plans->current)
      events.push_back(trace->events[i]);
  std::vector<StepSpan> steps = completeSteps(spans, events, trace->dropped);
  // One rank of each stage; where there are none, rank 0.
  bool shows = job.dataRank == 0;
  const std::string &name = plan->program;
  StepsOrigin origin{name.empty() ? job.program->path() : name,
                     session.backend(),
                     job.ranks,
                     plan->places,
                     session.index(),
                     plan,
                     session.hasOneMachine()};
  // Rank 0 writes what all have made.
  auto write = [&](const std::string &path, const std::string &mine,
                   auto merge) -> Error {
    Expected<std::vector<std::string>> all = session.gatherText(mine);
    if (all.failed())
      return all.error();
    return session.agree(session.index() == 0 ? writeText(path, merge(*all))
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
  std::vector<uint64_t> numbers(session.size());
  if (Error error = session.gather(&number, numbers.data(), sizeof(number)))
    return error;
  StepSpan own = numbers[0] < spans.size() ? spans[numbers[0]] : StepSpan();
  std::vector<StepSpan> all(session.size());
  if (Error error = session.gather(&own, all.data(), sizeof(own)))
    return error;
  StepSpan base = own;
  // Other machines have other clocks.
  if (session.hasOneMachine())
    for (uint64_t r = 0; r < session.size(); ++r)
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
  Expected<Plans> plans = loadedPlans();
  return plans ? writeTrace(job.options.trace, plans->manifests, session, marks)
               : plans.error();
}

Error Trainer::run() {
  ReportedSteps steps = {job.firstStep, job.lastStep};
  if (job.data) {
    steps.samples = job.globalBatch();
    steps.tokens = steps.samples * job.data->tokensPerSample();
  }
  if (Error error = session.agree(prepare()))
    return error;
  if (Error error = choosePlan())
    return error;
  auto forward = [](void *trainer, const mpcomm_event *event) {
    static_cast<Trainer *>(trainer)->hear(*event);
  };
  if (Error error =
          session(mpcomm_session_on_event, +forward, static_cast<void *>(this)))
    return error;
  if (Error error = checkStart())
    return error;
  if (Error error = startToAdapt())
    return error;
  // A run that cannot start leaves the log of the one before it.
  Expected<Report> made =
      Report::create(job.options, session.index() == 0, steps);
  if (Error error = session.agree(made.error()))
    return error;
  report.emplace(made.take());
  report->begin(job.describe());
  if (isAsynchronous)
    report->note(std::string("rank 0 computes on ") +
                 session.totals().device_name);
  for (const std::string &warning : job.warnings)
    report->note("warning: " + warning);
  if (job.train) {
    position.stopsWhenAsked = true;
    Error status = train();
    position.stopsWhenAsked = false;
    if (status.failed()) {
      report->interrupt();
      // What led there is what the trace was asked for.
      Expected<Plans> plans = loadedPlans();
      if (plans && session.index() == 0 && !job.options.trace.empty())
        (void)writeOwnTrace(job.options.trace, plans->manifests, session,
                            marks);
      return status;
    }
    if (Error error = finish())
      return error;
  }
  if (job.evaluate && !stopped)
    if (Error error = evaluate(job.lastStep, /*isLast=*/true))
      return error;
  if (Error error = writeTraces())
    return error;
  return report->close();
}
