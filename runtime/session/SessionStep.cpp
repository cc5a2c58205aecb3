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
  return onDevice->sendInputs();
}

void Session::setScalars(Binding &binding, uint64_t forStep) {
  const std::vector<ManifestArgument> &arguments = binding.function->arguments;
  const Manifest &manifest = manifestOf();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ManifestArgument &argument = arguments[i];
    char *data = state->slot(binding.arguments[i]).data;
    if (argument.role == Role::Hyperparameter)
      storeNumber(argument.type, data, 0, hyperparameter(argument, forStep));
    if (argument.role == Role::Rng)
      storeRandomBits(argument, data, seed,
                      forStep * manifest.dataRanks() +
                          manifest.dataRankOf(index()));
  }
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

Error Session::callFailed(const ManifestFunction &function, int32_t status) {
  Error error = rank->describeFailure(function.name, status);
  failure = Error(error.status(), error.message(),
                  locationIn(error.message(), rank->context()));
  emit(MPCOMM_EVENT_FAILED, error.message());
  return failure;
}

Error Session::call(Binding &binding, const std::vector<void *> &pointers) {
  if (Error error = onDevice->placeInputs())
    return error;
  LoadedProgram &loaded = programs[current];
  mprt_entry entry = loaded.program->entryOf(*binding.function);
  int32_t status = rank->context().call(entry, pointers.data(), pointers.size(),
                                        loaded.arena);
  if (status != MPRT_OK)
    return callFailed(*binding.function, status);
  state->adoptResults(binding);
  lastCalled = binding.function;
  return {};
}

void Session::watch(const ManifestFunction &function, bool isTraining) {
  if (watchedFunction == &function)
    return;
  watchedFunction = &function;
  watched.clear();
  metricSlots.clear();
  lossSlot.reset();
  lossScale.reset();
  const std::vector<size_t> &results = state->bindingOf(function).results;
  if (isTraining) {
    lossScale.emplace();
    lossScale->attach(*state, function);
    watched = lossScale->slots();
  }
  if (const ManifestResult *loss = function.resultOf(Role::Loss)) {
    lossSlot = results[loss - function.results.data()];
    watched.push_back(*lossSlot);
  }
  for (size_t i : function.metrics()) {
    metricSlots.emplace_back(function.results[i].name, results[i]);
    watched.push_back(results[i]);
  }
}

void Session::fill(mpcomm_result &result) {
  auto valueOf = [&](size_t index) {
    const Slot &slot = state->slot(index);
    return loadFloat(slot.type, slot.data, 0);
  };
  result.step = steps;
  result.has_loss = lossSlot.has_value();
  if (lossSlot)
    result.loss = valueOf(*lossSlot);
  metricValues.clear();
  for (const auto &[name, index] : metricSlots)
    metricValues.push_back({name.c_str(), valueOf(index)});
  result.metric_count = uint32_t(metricValues.size());
  result.metrics = metricValues.data();
  result.has_loss_scale = lossScaleRecord.scale.has_value();
  result.loss_scale = lossScaleRecord.scale.value_or(0);
  result.is_skipped = lossScaleRecord.isSkipped;
  nonFiniteNames.clear();
  for (const std::string &name : lossScaleRecord.nonFinite)
    nonFiniteNames.push_back(name.c_str());
  result.nonfinite_count = uint32_t(nonFiniteNames.size());
  result.nonfinite = nonFiniteNames.data();
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
  if (!next.empty())
    if (auto matched = matchBatch(*function, next); !matched)
      return matched.error();
  if (!(isFed && fedStep == steps)) {
    fedStep.reset();
    if (Error error =
            feed(binding, batch, steps, isAsynchronous ? nullptr : &pointers))
      return error;
  } else if (fedError) {
    return fedError;
  } else if (valuesChanged) {
    setScalars(binding, steps);
    if (Error error = onDevice->sendInputs())
      return error;
  }
  double exposedBefore = rank->context().stats().exposedSeconds();
  Error error = call(binding, pointers);
  fedStep.reset();
  if (error.ok() && !next.empty()) {
    // It travels while the device is busy with this one.
    fedError = feed(binding, next, steps + 1, nullptr);
    fedStep = steps + 1;
    valuesChanged = false;
  }
  if (error.ok())
    error = onDevice->fetch(watched);
  if (error) {
    failure = failure ? failure : error;
    return error;
  }
  ++steps;
  lossScaleRecord = lossScale->read(*state);
  if (Error lost =
          gatherNonFinite(manifestOf(), *rank, lossScaleRecord.nonFinite))
    return failed(lost);
  fill(result);
  result.milliseconds = 1e-6 * double(nowNanoseconds() - begin);
  result.exposed_milliseconds =
      isAsynchronous
          ? -1
          : 1e3 * (rank->context().stats().exposedSeconds() - exposedBefore);
  emit(MPCOMM_EVENT_STEP, "", result.loss, result.milliseconds,
       result.exposed_milliseconds);
  return {};
}

Error Session::evaluate(const std::string &name,
                        std::span<const mpcomm_array> batch,
                        mpcomm_result &result) {
  uint64_t begin = nowNanoseconds();
  (void)finishWriting(/*waits=*/false);
  if (Error error = checkReady())
    return error;
  const ManifestFunction *function = find(name);
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
  Error error = call(binding, pointers);
  if (error.ok())
    error = onDevice->fetch(watched);
  if (error) {
    failure = failure ? failure : error;
    return error;
  }
  lossScaleRecord = {};
  fill(result);
  result.milliseconds = 1e-6 * double(nowNanoseconds() - begin);
  result.exposed_milliseconds = -1;
  emit(MPCOMM_EVENT_EVALUATED, name, result.loss, result.milliseconds, -1);
  return {};
}
