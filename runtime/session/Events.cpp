//===- Events.cpp - how streams wait for one another ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mark is a position in a communicator's queue, and on an asynchronous device
// an event as well, which is recorded when the mark is reached there. On the
// host the queues' order is all there is.
//
//===----------------------------------------------------------------------===//

#include "session/Call.h"

#include <algorithm>

using namespace mprt;

using State = Context::State;

/// The device's event that `number` is recorded in next; nothing that is queued
/// uses it.
static Expected<OnDevice::DeviceEvent *> freshEvent(State &state,
                                                    uint32_t number) {
  OnDevice &on = *state.onDevice;
  OnDevice::DeviceEvent *&event = on.events[number];
  if (event->uses == 0)
    return event;
  for (OnDevice::DeviceEvent &other : on.made)
    if (other.uses == 0 && std::find(on.events.begin(), on.events.end(),
                                     &other) == on.events.end()) {
      event = &other;
      return event;
    }
  Expected<uint32_t> made = state.device->createEvent();
  if (!made)
    return made.error();
  on.made.push_back({*made});
  event = &on.made.back();
  return event;
}

static bool checkEvent(State &state, const char *call, uint32_t stream,
                       uint32_t event) {
  if (state.failed() || !checkStream(state, call, stream))
    return false;
  if (event >= state.events.size())
    refuse(state, call,
           makeError(MPRT_INVALID_ARGUMENT, "there is no event ", event,
                     ", only ", state.events.size(), " events"));
  return !state.failed();
}

mprt_status mprt_event_record(mprt_context *ctx, uint32_t stream,
                              uint32_t number) {
  const char *name = "mprt_event_record";
  State &state = stateOf(ctx);
  if (!checkEvent(state, name, stream, number))
    return state.status;
  State::Event &mark = state.events[number];
  mark = {true, stream,
          stream == MPRT_COMPUTE_STREAM ? 0 : state.comm(stream).end()};
  if (!state.device->isAsynchronous())
    return state.status;
  OnDevice &on = *state.onDevice;
  auto guard = state.lock();
  Expected<OnDevice::DeviceEvent *> event = freshEvent(state, number);
  if (!event)
    return state.fail(event.error());
  ++on.calls;
  if (isDirect(state, stream)) {
    Error error = state.device->record(stream, (*event)->event);
    if (guard.owns_lock())
      guard.unlock();
    return error ? refuse(state, name, error) : state.status.load();
  }
  StreamWork work{};
  work.kind = StreamWork::Record;
  work.event = (*event)->event;
  work.eventUses = &(*event)->uses;
  ++*work.eventUses;
  if (guard.owns_lock())
    guard.unlock();
  mark.position = state.enqueue(stream, work);
  return state.status;
}

/// What is known of the work that a mark of a communicator's stream stands
/// after, for the trace of a wait.
static void describeWait(State &state, const State::Event &mark,
                         TraceEvent &event) {
  event.waitedStream = mark.stream;
  if (mark.stream == MPRT_COMPUTE_STREAM)
    return;
  // The mark itself is queued work of a staged communicator.
  Stream &queue = state.comm(mark.stream);
  uint64_t position = mark.position ? mark.position : queue.end();
  for (; position > 0 && queue.remembers(position); --position)
    if (const StreamWork &work = queue.at(position);
        work.kind == StreamWork::Collective) {
      event.collective = work.collective;
      event.position = position;
      return;
    }
}

mprt_status mprt_stream_wait(mprt_context *ctx, uint32_t stream,
                             uint32_t number) {
  const char *name = "mprt_stream_wait";
  State &state = stateOf(ctx);
  if (!checkEvent(state, name, stream, number))
    return state.status;
  const State::Event &mark = state.events[number];
  if (!mark.recorded)
    return refuse(state, name,
                  makeError(MPRT_INVALID_ARGUMENT, "event ", number,
                            " was never recorded"));
  // Within a stream there is order.
  if (mark.stream == stream)
    return state.status;
  OnDevice &on = *state.onDevice;
  bool computes = stream == MPRT_COMPUTE_STREAM;
  auto isReached = [&] {
    return on.isOrdered(mark.stream) ||
           state.comm(mark.stream).reached(mark.position);
  };
  // What is reached on the host is done; of the compute stream's waits a trace
  // tells all the same.
  if (!computes && !state.device->isAsynchronous() && isReached())
    return state.status;
  OnDevice::DeviceEvent &event = *on.events[number];
  if (!on.isOrdered(stream)) {
    auto guard = state.lock();
    if (!state.comm(stream).idle() || !isReached()) {
      StreamWork work{};
      work.kind = StreamWork::Wait;
      work.otherStream = mark.stream;
      work.otherPosition = mark.position;
      work.event = event.event;
      work.eventUses = &event.uses;
      ++*work.eventUses;
      ++on.calls;
      if (guard.owns_lock())
        guard.unlock();
      state.enqueue(stream, work);
      return state.status;
    }
  }
  TraceEvent traced{};
  traced.kind = TraceEvent::Wait;
  if (state.trace.enabled()) {
    auto guard = state.lock();
    describeWait(state, mark, traced);
  }
  const mprt_collective *waited = traced.collective;
  Call call(state, name, stream, waited && waited->name ? waited->name : "wait",
            waited ? waited->location : nullptr);
  if (!isReached())
    state.wait(mark.stream, mark.position);
  if (state.failed())
    return state.status;
  Error error = state.device->wait(stream, event.event);
  // Other streams' waits are not what a reader of a trace looks for.
  if (!computes)
    return call.end(error);
  return call.end(error, [&] { return traced; });
}
