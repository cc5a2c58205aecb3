//===- Backoff.h - how to wait for another process ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each turn of a wait that found nothing to do pauses: first for a few cycles,
// which is the fastest answer while the peer runs on another core; then by
// giving the core away, which is what lets the peer run where there are more
// ranks than cores; after long by sleeping, so that a rank that waits for a
// checkpoint does not burn a core.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SUPPORT_BACKOFF_H
#define MPCOMM_RUNTIME_SUPPORT_BACKOFF_H

#include <cstdint>

namespace mprt {

/// Cores that this process may run on.
unsigned availableCores();

class Backoff {
public:
  /// `ranks`: processes of this program on this machine.
  explicit Backoff(unsigned ranks);

  /// Forgets how long it has waited; to be called when something moved.
  void reset() {
    turns = 0;
    began = 0;
    sleeps = false;
  }

  /// One turn. Returns true now and then (some microseconds to a millisecond
  /// apart), when it is time to look at clocks and at the peers' health.
  bool pause();

private:
  uint32_t turns = 0;
  /// When it looked at the clock first; 0: not yet.
  uint64_t began = 0;
  bool sleeps = false;
  uint32_t spins;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SUPPORT_BACKOFF_H
