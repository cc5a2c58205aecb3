//===- Call.h - one call of the C ABI -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to session/: what Entry.cpp, Events.cpp and StepGraphs.cpp share.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_CALL_H
#define MPCOMM_RUNTIME_SESSION_CALL_H

#include "session/OnDevice.h"

namespace mprt {

/// One piece of work: marks its begin and its end where a trace is taken, keeps
/// its name for messages, and turns a failure into the context's.
class Call {
public:
  Call(Context::State &state, const char *call, uint32_t stream,
       const char *name, const char *location)
      : state(state), call(call), stream(stream), name(name),
        location(location), before(state.onDevice->last[stream]) {
    state.onDevice->last[stream] = {call, name, location};
    ++state.onDevice->calls;
    if (state.trace.enabled())
      begin = mark();
  }

  /// To be called with what the device said.
  mprt_status end(const Error &error) {
    if (error)
      fail(error);
    else if (state.onDevice->waitsForEach)
      waitHere();
    return state.status;
  }

  /// The same; where a trace is taken the work is what `describe` returns.
  template <typename Describe>
  mprt_status end(const Error &error, Describe describe) {
    if (!error && state.trace.enabled())
      note(describe());
    return end(error);
  }

private:
  uint64_t mark();
  void note(TraceEvent event);
  void waitHere();
  void fail(const Error &error);

  Context::State &state;
  const char *call;
  uint32_t stream;
  const char *name, *location;
  OnDevice::Last before; ///< what the stream was given before
  uint64_t begin = 0;
};

/// The error of a device that has stopped, at or before `last`, which was given
/// to `stream`.
Error describeLoss(Context::State &state, uint32_t stream,
                   const OnDevice::Last &last, const Error &error);

/// Fails the context: `call` cannot be done.
mprt_status refuse(Context::State &state, const char *call, const Error &error);

/// Whether there is such a stream; fails the context where there is not.
bool checkStream(Context::State &state, const char *call, uint32_t stream);

/// Whether work may go to `stream` of the device at once: nothing is queued
/// there, and it takes the calling thread no time.
bool isDirect(Context::State &state, uint32_t stream);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_CALL_H
