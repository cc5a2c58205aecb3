//===- DeviceState.h - the buffers of a program on a device ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state (RankState.h) keeps its buffers on the host, where the host
// computes on them. On an asynchronous device they have a twin with the same
// layout, and programs work on that. What each step gives anew (batch,
// hyperparameters, random bits) goes through one of two staging areas, so that
// a batch is gathered and copied while the step before it runs:
//
//   pinned[k] --copy stream--> area[k] --compute stream--> the buffers
//
// What is read after a step is fetched; the rest when it is asked for.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_DEVICESTATE_H
#define MPCOMM_RUNTIME_SESSION_DEVICESTATE_H

#include "session/state/RankState.h"
#include "support/Error.h"

#include "session/World.h"

namespace mprt {

class DeviceState {
public:
  /// Makes the twins of `state`'s buffers, where there are any, and copies
  /// their values; `state` then gives programs those. All three outlive this.
  static Expected<DeviceState> create(mprt::Device &device,
                                      mprt::Context &context, RankState &state);

  /// From here on what is stored into the buffers of a step is for the next
  /// one. The step before the last must be finished.
  void beginInputs();
  /// Sends what was stored since `beginInputs` on its way.
  Error sendInputs();
  /// Puts what was sent last in its place, before what is enqueued next.
  Error placeInputs();

  /// Waits for all that is enqueued, and brings these slots to the host.
  Error fetch(const std::vector<size_t> &slots);
  /// The same for all state.
  Error fetchState();
  /// The other way: these slots to the device, at once.
  Error store(const std::vector<size_t> &slots);

private:
  DeviceState(mprt::Device &device, mprt::Context &context, RankState &state)
      : device(&device), context(&context), state(&state) {}

  mprt::Device *device;
  mprt::Context *context;
  RankState *state;
  char *twin = nullptr;
  /// By k.
  char *pinned[2] = {}, *area[2] = {};
  uint32_t arrived[2] = {};
  int current = 0;
  /// What is fetched passes through here.
  char *fetched = nullptr;
  uint64_t fetchedBytes = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_DEVICESTATE_H
