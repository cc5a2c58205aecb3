//===- Rank.h - one process among the ranks of a run ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A place in a world, opened for the programs of a manifest, and what
// ranks agree on outside of any step.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_RANK_H
#define MPCOMM_RUNTIME_SESSION_RANK_H

#include "files/Manifest.h"
#include "support/Agreement.h"
#include "support/Error.h"

#include "session/World.h"

#include <functional>
#include <string>
#include <vector>

struct mpcomm_session;

namespace mprt {

class Rank : public World {
public:
  explicit Rank(World world) : World(std::move(world)) {}

  /// Takes the device that programs of `manifest` compute on; `images` are the
  /// program's kernels. To be called before anything that needs it.
  Error openDevice(const Manifest &manifest, const mprt_image *images);

  /// Has NCCL move what programs send between the ranks' devices, instead of
  /// the backend by which the ranks have met. All ranks call it.
  Error openNccl();

  /// Asks NCCL of 2.26 or newer, through NCCL_LAUNCH_ORDER_IMPLICIT unless that
  /// is set, to keep to the order of the calls of all communicators where all
  /// ranks have the same one. To be called before there are threads of a
  /// device, which may read the environment.
  static void prepareNccl(const Manifest &manifest);

  /// Makes the context that programs of `manifest` run in, with `events`
  /// events. All ranks call it with the same program. The trace keeps `traced`
  /// events, and the flight record `flights` collectives.
  Error createContext(const Manifest &manifest, uint32_t events,
                      uint32_t traced, uint32_t flights = 64);

  /// Every rank's text, on rank 0; elsewhere this rank's alone. `what` is as of
  /// `send`.
  Expected<std::vector<std::string>> gatherText(const std::string &mine,
                                                const char *what);

  /// Outside of any program, as the function of this name.
  Error agree(const Error &mine);

  /// The context's message after `function` returned `status`.
  Error describeFailure(const std::string &function, int32_t status) const;
};

/// The rank that a session is, for what is measured below sessions: devices and
/// communicators without a program.
Rank &rankOf(mpcomm_session *session);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_RANK_H
