//===- Stepper.h - calls of a program's functions -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From inputs that have been stored to numbers that can be looked at: what a
// call takes besides its batch, the call, and what is read after it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_STEPPER_H
#define MPCOMM_RUNTIME_SESSION_STEPPER_H

#include "session/Rank.h"
#include "session/program/Program.h"
#include "session/state/DeviceState.h"
#include "session/state/LossScale.h"

#include <functional>

namespace mprt {

/// What a call gave.
struct StepOutcome {
  std::optional<double> loss;
  /// In the order of ManifestFunction::metrics.
  std::vector<double> metrics;
  /// Of training.
  LossScaleRecord lossScale;
};

class Stepper {
public:
  /// All outlive this; `arena` is scratch memory for each function of the
  /// program.
  Stepper(Rank &rank, const Program &program, RankState &state,
          DeviceState &device, void *arena)
      : rank(&rank), program(&program), state(&state), device(&device),
        arena(arena) {}

  /// Stores the hyperparameters, by `valueOf`, and random bits for `step`.
  void
  storeScalars(Binding &binding, uint64_t step, uint64_t seed,
               const std::function<double(const ManifestArgument &)> &valueOf);

  /// Calls a function with the inputs that were sent last, and otherwise
  /// `pointers`, which run parallel to those of the binding. It may still run
  /// when this returns, until `read`.
  Error call(Binding &binding, const std::vector<void *> &pointers);

  /// What the last call spent on putting its inputs in their place.
  uint64_t placingNanoseconds() const { return placing; }

  /// From here on `read` is of that function. Takes note of the loss scale,
  /// if it trains: call it again when the state was changed otherwise.
  void watch(const ManifestFunction &function, bool isTraining);
  /// Waits for the last call and reads what it gave.
  Expected<StepOutcome> read();

private:
  Rank *rank;
  const Program *program;
  RankState *state;
  DeviceState *device;
  void *arena;
  uint64_t placing = 0;
  std::optional<size_t> lossSlot;
  std::vector<size_t> metricSlots;
  std::optional<LossScaleWatch> lossScale;
  /// Slots of all of it.
  std::vector<size_t> watched;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_STEPPER_H
