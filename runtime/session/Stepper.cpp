//===- Stepper.cpp - calls of a program's functions -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Stepper.h.
//
//===----------------------------------------------------------------------===//

#include "session/Stepper.h"

#include "support/Trace.h"

using namespace mprt;

void Stepper::storeScalars(
    Binding &binding, uint64_t step, uint64_t seed,
    const std::function<double(const ManifestArgument &)> &valueOf) {
  const std::vector<ManifestArgument> &arguments = binding.function->arguments;
  const Manifest &manifest = program->manifest();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ManifestArgument &argument = arguments[i];
    char *data = state->slot(binding.arguments[i]).data;
    if (argument.role == Role::Hyperparameter)
      storeNumber(argument.type, data, 0, valueOf(argument));
    if (argument.role == Role::Rng)
      storeRandomBits(argument, data, seed,
                      step * manifest.dataRanks() +
                          manifest.dataRankOf(rank->index()));
  }
}

Error Stepper::call(Binding &binding, const std::vector<void *> &pointers) {
  uint64_t begin = nowNanoseconds();
  if (Error error = device->placeInputs())
    return error;
  placing = nowNanoseconds() - begin;
  mprt_entry entry = program->entryOf(*binding.function);
  int32_t status =
      rank->context().call(entry, pointers.data(), pointers.size(), arena);
  if (status != MPRT_OK)
    return rank->describeFailure(binding.function->name, status);
  state->adoptResults(binding);
  return {};
}

void Stepper::watch(const ManifestFunction &function, bool isTraining) {
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
    metricSlots.push_back(results[i]);
    watched.push_back(results[i]);
  }
}

Expected<StepOutcome> Stepper::read() {
  if (Error error = device->fetch(watched))
    return error;
  auto valueOf = [&](size_t index) {
    const Slot &slot = state->slot(index);
    return loadFloat(slot.type, slot.data, 0);
  };
  StepOutcome outcome;
  if (lossSlot)
    outcome.loss = valueOf(*lossSlot);
  for (size_t index : metricSlots)
    outcome.metrics.push_back(valueOf(index));
  if (lossScale)
    outcome.lossScale = lossScale->read(*state);
  return outcome;
}
