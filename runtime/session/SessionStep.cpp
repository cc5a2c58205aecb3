//===- SessionStep.cpp - steps and evaluations ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a caller gives is checked before anything runs: a mistake in it is no
// failure of the session. What the program or a peer does wrong is one.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "session/Arrays.h"
#include "support/Trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

using namespace mprt;

/// The arrays of a batch by the arguments that they are for.
static Expected<std::vector<const mpcomm_array *>>
matchBatch(const ManifestFunction &function,
           std::span<const mpcomm_array> batch) {
  std::vector<const mpcomm_array *> given(function.arguments.size());
  for (const mpcomm_array &array : batch) {
    if (!array.name)
      return fail("an array of the batch has no name");
    const ManifestArgument *argument = function.argumentOf(array.name);
    if (!argument || argument->role != Role::Batch)
      return makeError(MPRT_NOT_FOUND, "function '", function.name,
                       "' takes no batch tensor '", printable(array.name), "'");
    const mpcomm_array *&place = given[argument - function.arguments.data()];
    if (place)
      return fail("batch tensor '", printable(array.name), "' is given twice");
    if (Error error = checkArray(array, *argument))
      return error;
    place = &array;
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (function.arguments[i].role == Role::Batch && !given[i])
      return fail("batch tensor '", printable(function.arguments[i].name),
                  "' of function '", function.name, "' is missing, expected ",
                  mprt::describe(function.arguments[i].type,
                                 function.arguments[i].shape));
  return given;
}

Error Session::feed(Binding &binding, std::span<const mpcomm_array> batch,
                    uint64_t forStep, std::vector<void *> *inPlace) {
  const ManifestFunction &function = *binding.function;
  Expected<std::vector<const mpcomm_array *>> given =
      matchBatch(function, batch);
  if (!given)
    return given.error();
  onDevice->beginInputs();
  for (size_t i = 0; i < given->size(); ++i) {
    const mpcomm_array *array = (*given)[i];
    if (!array)
      continue;
    const ManifestArgument &argument = function.arguments[i];
    void *data = state->slot(binding.arguments[i]).data;
    if (inPlace && !argument.updated && isUsableInPlace(*array, argument)) {
      data = const_cast<void *>(array->data);
      (*inPlace)[i] = data;
    } else if (Error error = storeArray(*array, argument, data)) {
      return error;
    }
    if (argument.range)
      if (Error error = checkValues(argument, data, *argument.range))
        return error;
  }
  setScalars(binding, forStep);
  return {};
}

void Session::setScalars(Binding &binding, uint64_t forStep) {
  stepper->storeScalars(binding, forStep, seed,
                        [&](const ManifestArgument &argument) {
                          return hyperparameter(argument, forStep);
                        });
}

/// Where in the model's source that is which `message` names, as far as the
/// record of the last collectives knows.
static std::string locationIn(const std::string &message,
                              const Context &context) {
  for (const FlightEntry &entry : context.flight()) {
    const char *location = entry.collective.location;
    if (location && *location && message.find(location) != std::string::npos)
      return location;
  }
  return "";
}

Error Session::callFailed(const Error &error) {
  // The others would wait for this rank.
  rank->context().fail(error);
  giveUp(error.at(locationIn(error.message(), rank->context())));
  return failure;
}

void Session::watch(const ManifestFunction &function, bool isTraining) {
  if (watchedFunction != &function)
    stepper->watch(function, isTraining);
  watchedFunction = &function;
}

void Session::fill(const StepOutcome &outcome, mpcomm_result &result) {
  const ManifestFunction &function = *lastCalled;
  result.step = steps;
  result.has_loss = outcome.loss.has_value();
  result.loss = outcome.loss.value_or(0);
  metricValues.clear();
  std::vector<size_t> metrics = function.metrics();
  for (size_t i = 0; i < metrics.size(); ++i)
    metricValues.push_back(
        {function.results[metrics[i]].name.c_str(), outcome.metrics[i]});
  result.metric_count = uint32_t(metricValues.size());
  result.metrics = metricValues.data();
  result.has_loss_scale = outcome.lossScale.scale.has_value();
  result.loss_scale = outcome.lossScale.scale.value_or(0);
  result.is_skipped = outcome.lossScale.isSkipped;
  nonFinite = outcome.lossScale.nonFinite;
  nonFiniteNames.clear();
  for (const std::string &name : nonFinite)
    nonFiniteNames.push_back(name.c_str());
  result.nonfinite_count = uint32_t(nonFiniteNames.size());
  result.nonfinite = nonFiniteNames.data();
}

/// Updates that a step has left for the next one to begin with.
Error Session::applyPending() {
  if (!hasPending)
    return {};
  const ManifestFunction *function = find(ManifestFunction::applyPending);
  watch(*function, /*isTraining=*/false);
  Binding &binding = state->bindingOf(*function);
  if (Error error = stepper->call(binding, binding.pointers))
    return callFailed(error);
  if (Expected<StepOutcome> outcome = stepper->read(); !outcome)
    return callFailed(outcome.error());
  waitedUntil = nowNanoseconds();
  hasPending = false;
  return {};
}

Error Session::step(std::span<const mpcomm_array> batch, bool isFed,
                    std::span<const mpcomm_array> next, mpcomm_result &result) {
  uint64_t begin = nowNanoseconds();
  (void)finishWriting(/*waits=*/false);
  if (Error error = checkReady())
    return error;
  const ManifestFunction *function = find("train_step");
  if (!function)
    return Error(MPRT_NOT_FOUND, programs[current].program->path() +
                                     ": no function 'train_step'");
  if (Error error = checkValuesOf(*function))
    return error;
  watch(*function, /*isTraining=*/true);
  Binding &binding = state->bindingOf(*function);
  std::vector<void *> pointers = binding.pointers;
  bool isAsynchronous = rank->device().isAsynchronous();
  if (!next.empty() && adaptation)
    return Error(MPRT_UNSUPPORTED, "the next batch, in a session that adapts: "
                                   "the plan may be another one then");
  if (!next.empty())
    if (auto matched = matchBatch(*function, next); !matched)
      return matched.error();
  uint64_t fed = nowNanoseconds();
  if (!(isFed && fedStep == steps)) {
    fedStep.reset();
    if (Error error =
            feed(binding, batch, steps, isAsynchronous ? nullptr : &pointers))
      return error;
    if (Error error = onDevice->sendInputs())
      return callFailed(error);
  } else if (fedError) {
    return fedError;
  } else if (valuesChanged) {
    setScalars(binding, steps);
    if (Error error = onDevice->sendInputs())
      return callFailed(error);
  }
  // Collectives of evaluations are not the step's.
  if (adaptation)
    (void)rank->context().takeCollectiveTimes();
  Stats before = rank->context().stats();
  uint64_t called = nowNanoseconds();
  ReplayTime time{.inputs = called - fed};
  if (Error error = stepper->call(binding, pointers))
    return callFailed(error);
  uint64_t returned = nowNanoseconds();
  lastCalled = function;
  const ManifestFunction *pending = find(ManifestFunction::applyPending);
  hasPending = pending && pending->isApplyPending();
  fedStep.reset();
  if (!next.empty()) {
    // It travels while the device is busy with this one.
    fedError = feed(binding, next, steps + 1, nullptr);
    if (!fedError)
      if (Error error = onDevice->sendInputs())
        return callFailed(error);
    fedStep = steps + 1;
    valuesChanged = false;
  }
  time.inputs += stepper->placingNanoseconds() + nowNanoseconds() - returned;
  Expected<StepOutcome> outcome = stepper->read();
  if (!outcome)
    return callFailed(outcome.error());
  uint64_t waitedBefore = std::exchange(waitedUntil, nowNanoseconds());
  ++steps;
  if (Error error =
          gatherNonFinite(manifestOf(), *rank, outcome->lossScale.nonFinite))
    return failed(error);
  fill(*outcome, result);
  result.milliseconds = 1e-6 * double(nowNanoseconds() - begin);
  Stats spent = rank->context().stats() - before;
  if (spent.graphTimed) {
    time.launch = spent.graphLaunchNanoseconds;
    time.wait = spent.deviceNanoseconds;
    time.idle = returned - waitedBefore;
    time.rest = nowNanoseconds() - begin;
    time.rest -= std::min(time.rest, time.inputs + time.launch + time.wait);
    replays.add(time);
  }
  result.exposed_milliseconds =
      isAsynchronous ? -1 : 1e3 * spent.exposedSeconds();
  emit(MPCOMM_EVENT_STEP, "", result.loss, result.milliseconds,
       result.exposed_milliseconds);
  return noteStep(1e-3 * result.milliseconds,
                  1e-3 * result.exposed_milliseconds);
}

Error Session::evaluate(const std::string &name,
                        std::span<const mpcomm_array> batch,
                        mpcomm_result &result) {
  uint64_t begin = nowNanoseconds();
  (void)finishWriting(/*waits=*/false);
  if (Error error = checkReady())
    return error;
  if (Error error = applyPending())
    return error;
  const ManifestFunction *function = find(name);
  if (name == ManifestFunction::applyPending &&
      (!function || function->isApplyPending()))
    return {};
  if (!function)
    return makeError(MPRT_NOT_FOUND, "rank ", index(), " runs no function '",
                     printable(name), "'");
  if (name == "train_step")
    return fail("'train_step' is called by steps");
  if (Error error = checkValuesOf(*function))
    return error;
  watch(*function, /*isTraining=*/false);
  Binding &binding = state->bindingOf(*function);
  std::vector<void *> pointers = binding.pointers;
  fedStep.reset();
  if (Error error = feed(binding, batch, steps,
                         rank->device().isAsynchronous() ? nullptr : &pointers))
    return error;
  if (Error error = onDevice->sendInputs())
    return callFailed(error);
  if (Error error = stepper->call(binding, pointers))
    return callFailed(error);
  lastCalled = function;
  Expected<StepOutcome> outcome = stepper->read();
  if (!outcome)
    return callFailed(outcome.error());
  waitedUntil = nowNanoseconds();
  fill(*outcome, result);
  result.milliseconds = 1e-6 * double(nowNanoseconds() - begin);
  result.exposed_milliseconds = -1;
  emit(MPCOMM_EVENT_EVALUATED, name, result.loss, result.milliseconds, -1);
  return {};
}
