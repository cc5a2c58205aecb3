//===- Meeting.h - a few words between ranks outside of any program -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks gather bytes of all, or send some to one another, through a context of
// their own: it counts neither as a program's communication nor into its
// trace. It is how NCCL's ids go round, and how ranks agree.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_MEETING_H
#define MPCOMM_RUNTIME_SESSION_MEETING_H

#include "comm/Transport.h"
#include "session/Context.h"

namespace mprt {

class Meeting {
public:
  /// All ranks of `transport`, which outlives this, call it. A wait in which
  /// nothing moves for `timeoutSeconds` fails.
  static Expected<std::unique_ptr<Meeting>> create(Transport &transport,
                                                   double timeoutSeconds);

  /// Every rank's `bytes` at `mine` to every rank's `all`, in order of rank.
  /// The memory is the caller's again when this returns, as of the others.
  Error gather(const void *mine, void *all, uint64_t bytes);
  /// Gives `bytes` at `data` to rank `to`, which receives as many from this
  /// one; both wait for it. Errors call it `what`, a literal.
  Error send(unsigned to, const void *data, uint64_t bytes, const char *what);
  Error receive(unsigned from, void *data, uint64_t bytes, const char *what);

  /// Where ranks meet from now on, as errors call it; a literal.
  void setPlace(const char *name) { place = name; }

private:
  Meeting() = default;
  Error run(mprt_collective_kind kind, int32_t peer, const void *send,
            void *receive, uint64_t bytes, const char *what);

  const char *place = "mprt";
  /// The runtime may keep a pointer to it.
  mprt_collective call = {};
  /// Memory of calls that failed: a communicator's thread may be at it still.
  std::vector<std::unique_ptr<uint8_t[]>> retired;
  unsigned ranks = 0;
  /// Goes first, before what its threads may have a hand on.
  std::unique_ptr<Context> context;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_MEETING_H
