//===- Call.cpp - one call of the C ABI -----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Call.h"

using namespace mprt;

using State = Context::State;

static unsigned rankOf(const State &state) {
  return state.transport ? state.transport->rank() : 0;
}

Error mprt::describeLoss(State &state, uint32_t stream,
                         const OnDevice::Last &given, const Error &error) {
  OnDevice &on = *state.onDevice;
  std::string last;
  if (given.call)
    last = std::string("; the last call on stream ") + std::to_string(stream) +
           " was " + given.call + " \"" + (given.name ? given.name : "") +
           "\" at " +
           (given.location && *given.location ? given.location
                                              : "an unknown location");
  return error.withContext(
      "rank " + std::to_string(rankOf(state)) + ": the device stopped: ",
      last + (on.waitsForEach ? ""
                              : "; MPRT_CUDA_SYNC=1 tells which call it was"));
}

uint64_t Call::mark() {
  Expected<uint64_t> made = state.device->mark(stream);
  if (made)
    return *made;
  fail(made.error());
  return 0;
}

void Call::note(TraceEvent event) {
  uint64_t end = mark();
  event.stream = stream;
  event.name = name ? name : nameOf(event.kind);
  event.location = location ? location : "";
  if (state.device->isAsynchronous()) {
    state.onDevice->timed.push_back({event, begin, end});
    return;
  }
  event.begin = *state.device->timeOf(begin);
  event.end = *state.device->timeOf(end);
  auto guard = state.lock();
  state.trace.record(event);
}

void Call::waitHere() {
  while (!state.device->isCapturing()) {
    Expected<bool> done = state.device->finished(stream);
    if (!done)
      fail(done.error());
    if (!done || *done)
      return;
  }
}

void Call::fail(const Error &error) {
  // A driver tells of what went wrong earlier at whatever call comes next.
  bool stopped =
      !state.onDevice->waitsForEach && state.device->isAsynchronous() &&
      !state.device->isCapturing() && !state.device->finished(stream);
  auto guard = state.lock();
  state.fail(
      stopped ? describeLoss(state, stream, before, error)
              : error.withContext(
                    std::string(call) + " \"" + (name ? name : "") + "\" at " +
                    (location && *location ? location : "an unknown location") +
                    " on rank " + std::to_string(rankOf(state)) + ": "));
}

mprt_status mprt::refuse(State &state, const char *call, const Error &error) {
  auto guard = state.lock();
  return state.fail(error.withContext(std::string(call) + " on rank " +
                                      std::to_string(rankOf(state)) + ": "));
}

bool mprt::checkStream(State &state, const char *call, uint32_t stream) {
  if (state.isStream(stream))
    return true;
  refuse(state, call,
         makeError(MPRT_INVALID_ARGUMENT, "there is no stream ", stream,
                   ", only 0 to ", state.streams.size()));
  return false;
}

bool mprt::isDirect(State &state, uint32_t stream) {
  return state.onDevice->isOrdered(stream) ||
         (state.device->isAsynchronous() && state.comm(stream).idle());
}
