//===- DeviceCalls.cpp - the C ABI on a device ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/DeviceCalls.h"

#include "comm/Validate.h"
#include "support/DType.h"

#include <algorithm>

using namespace mprt;

using State = Context::State;

static unsigned rankOf(const State &state) {
  return state.transport ? state.transport->rank() : 0;
}

namespace {

/// One piece of work: marks its begin and its end where a trace is taken, keeps
/// its name for messages, and turns a failure into the context's.
class DeviceCall {
public:
  DeviceCall(State &state, const char *call, uint32_t stream, const char *name,
             const char *location)
      : state(state), on(*state.onDevice), call(call), stream(stream),
        name(name), location(location) {
    on.last[stream] = {call, name, location};
    ++on.calls;
    if (!state.trace.enabled())
      return;
    Expected<uint32_t> mark = on.device.mark(stream);
    if (!mark)
      failure = mark.error();
    else
      begin = *mark;
  }

  /// To be called with what the device said.
  mprt_status end(Error error) {
    if (!error)
      error = failure;
    if (!error && on.waitsForEach && !on.device.isCapturing())
      error = waitHere();
    if (!error)
      return state.status;
    auto guard = state.lock();
    return state.fail(
        makeError(error.status(), call, " \"", name ? name : "", "\" at ",
                  location && *location ? location : "an unknown location",
                  " on rank ", rankOf(state), ": ", error.message()));
  }

  /// The same, and traces the work.
  mprt_status end(Error error, TraceEvent event) {
    if (!error && !failure && state.trace.enabled()) {
      Expected<uint32_t> mark = on.device.mark(stream);
      if (!mark)
        error = mark.error();
      else
        note(event, *mark);
    }
    return end(error);
  }

private:
  void note(TraceEvent &event, uint32_t mark) {
    event.stream = stream;
    event.name = name ? name : nameOf(event.kind);
    event.location = location ? location : "";
    on.timed.push_back({event, begin, mark});
  }

  Error waitHere() {
    while (true) {
      Expected<bool> done = on.device.finished(stream);
      if (!done)
        return done.error();
      if (*done)
        return {};
    }
  }

  State &state;
  OnDevice &on;
  const char *call;
  uint32_t stream;
  const char *name, *location;
  uint32_t begin = 0;
  Error failure;
};

TraceEvent eventOf(TraceEvent::Kind kind, Work work,
                   const char *type = nullptr) {
  TraceEvent event{};
  event.kind = kind;
  event.bytes = work.bytes;
  event.flops = work.flops;
  event.type = type;
  return event;
}

} // namespace

/// Whether work may be enqueued on `stream` at once: nothing is queued there
/// that has not come to the device.
static bool isDirect(State &state, uint32_t stream) {
  return state.onDevice->isOrdered(stream) || state.comm(stream).idle();
}

/// Checks the stream, and lets everything that is queued there come to the
/// device.
static bool reachEnd(State &state, const char *call, uint32_t stream) {
  if (!state.isStream(stream)) {
    auto guard = state.lock();
    state.fail(makeError(MPRT_INVALID_ARGUMENT, call, " on rank ",
                         rankOf(state), ": there is no stream ", stream,
                         ", only 0 to ", state.streams.size()));
    return false;
  }
  if (!isDirect(state, stream))
    state.wait(stream, state.comm(stream).end());
  return !state.failed();
}

//===----------------------------------------------------------------------===//
// Computing
//===----------------------------------------------------------------------===//

mprt_status on_device::launch(State &state, uint32_t stream,
                              const mprt_kernel &kernel, void *const *args) {
  if (!reachEnd(state, "mprt_launch", stream))
    return state.status;
  DeviceCall call(state, "mprt_launch", stream, kernel.name, kernel.location);
  Error error = state.device->launch(stream, kernel, args);
  ++state.stats.launches;
  call.end(error,
           eventOf(TraceEvent::Kernel, Work{kernel.bytes, kernel.flops}));
  state.poll();
  return state.status;
}

mprt_status on_device::gemm(State &state, uint32_t stream,
                            const mprt_gemm_desc &desc, const void *a,
                            const void *b, void *c) {
  if (!reachEnd(state, "mprt_gemm", stream))
    return state.status;
  DeviceCall call(state, "mprt_gemm", stream, desc.name, desc.location);
  Error error = state.device->gemm(stream, desc, a, b, c);
  ++state.stats.gemms;
  call.end(error, eventOf(TraceEvent::Gemm, workOf(desc),
                          nameOf(mprt_dtype(desc.type_a))));
  state.poll();
  return state.status;
}

mprt_status on_device::gemmWithEpilogue(State &state, uint32_t stream,
                                        const mprt_gemm_desc &desc,
                                        const void *a, const void *b, void *c,
                                        const mprt_epilogue &epilogue,
                                        void *const *args) {
  const char *name = "mprt_gemm_epilogue";
  if (!reachEnd(state, name, stream))
    return state.status;
  bool done = false;
  {
    DeviceCall call(state, name, stream, desc.name, desc.location);
    Error error;
    int32_t kind = epilogue.kind;
    bool hasBias = GemmEpilogue::hasBias(kind),
         hasMatrix = GemmEpilogue::hasMatrix(kind);
    uint32_t operands = epilogue.count ? epilogue.kernels[0]->operands : 0;
    if (kind < MPRT_BIAS || kind > MPRT_BIAS_GRAD_B ||
        (hasBias && epilogue.bias >= operands) ||
        (hasMatrix && epilogue.matrix >= operands)) {
      error = makeError(MPRT_INVALID_ARGUMENT, "an epilogue of kind ", kind,
                        " beside ", epilogue.count,
                        " kernels, expected 1 to 6, and kernels that have its "
                        "bias and its matrix");
    } else {
      Expected<bool> taken = state.device->gemmWithEpilogue(
          stream, desc, a, b, c,
          {mprt_epilogue_kind(kind), mprt_dtype(epilogue.bias_type),
           hasBias ? args[epilogue.bias] : nullptr,
           hasMatrix ? args[epilogue.matrix] : nullptr});
      error = taken ? Error() : taken.error();
      done = taken && *taken;
      if (taken && !done)
        error = state.device->gemm(stream, desc, a, b, c);
    }
    ++state.stats.gemms;
    call.end(error, eventOf(TraceEvent::Gemm, workOf(desc),
                            nameOf(mprt_dtype(desc.type_a))));
  }
  if (state.failed() || done) {
    state.poll();
    return state.status;
  }
  for (uint32_t i = 0; i < epilogue.count; ++i)
    if (launch(state, stream, *epilogue.kernels[i], args) != MPRT_OK)
      break;
  return state.status;
}

mprt_status on_device::window(State &state, const char *name, uint32_t stream,
                              const mprt_window_desc &desc, const void *a,
                              const void *b, void *c) {
  if (!reachEnd(state, name, stream))
    return state.status;
  DeviceCall call(state, name, stream, desc.name, desc.location);
  Error error = state.device->window(stream, desc, a, b, c);
  bool isProduct = desc.kind <= MPRT_CONVOLUTION_FILTER_GRAD;
  ++(isProduct ? state.stats.gemms : state.stats.launches);
  call.end(error, eventOf(isProduct ? TraceEvent::Gemm : TraceEvent::Kernel,
                          workOf(desc),
                          isProduct ? nameOf(mprt_dtype(desc.type)) : nullptr));
  state.poll();
  return state.status;
}

mprt_status on_device::move(State &state, const char *name, uint32_t stream,
                            void *target, const void *source, uint64_t bytes) {
  if (!isDirect(state, stream)) {
    StreamWork work{};
    work.kind = source ? StreamWork::Copy : StreamWork::Zero;
    work.source = source;
    work.target = target;
    work.bytes = bytes;
    ++state.onDevice->calls;
    state.enqueue(stream, work);
    return state.status;
  }
  DeviceCall call(state, name, stream, nullptr, nullptr);
  Error error = source ? state.device->copy(stream, target, source, bytes,
                                            CopyKind::OnDevice)
                       : state.device->zero(stream, target, bytes);
  call.end(error, eventOf(source ? TraceEvent::Copy : TraceEvent::Zero,
                          Work{bytes, 0}));
  state.poll();
  return state.status;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

const void *on_device::constant(State &state, const void *host,
                                uint64_t bytes) {
  void *&copy = state.onDevice->constants[host];
  if (copy)
    return copy;
  auto refuse = [&](const Error &error) {
    auto guard = state.lock();
    state.fail(makeError(error.status(), "a constant of ", bytes,
                         " bytes of the program on rank ", rankOf(state), ": ",
                         error.message()));
    return nullptr;
  };
  Expected<void *> memory = state.device->allocate(bytes);
  if (!memory)
    return refuse(memory.error());
  if (Error error = state.device->upload(*memory, host, bytes))
    return refuse(error);
  return copy = *memory;
}

mprt_status on_device::collective(State &state, uint32_t stream,
                                  const mprt_collective &collective,
                                  const void *send, void *recv) {
  OnDevice &on = *state.onDevice;
  bool known = stream != MPRT_COMPUTE_STREAM && state.isStream(stream);
  if (!known || !on.isOrdered(stream)) {
    ++on.calls;
    state.enqueueCollective(stream, collective, send, recv);
    return state.status;
  }
  DeviceCall call(state, "mprt_collective_run", stream, collective.name,
                  collective.location);
  Error error;
  if (on.device.isCapturing()) {
    error = state.checkCollective(stream, collective, send, recv);
    if (!error)
      error = state.comm(stream).communicator().start(collective, send, recv);
    on.captured.push_back(&collective);
    ++state.stats.collectives;
    state.stats.collectiveBytes += payloadOf(collective);
  } else {
    state.enqueueCollective(stream, collective, send, recv);
    if (state.failed())
      return state.status;
  }
  TraceEvent event =
      eventOf(TraceEvent::Collective, Work{payloadOf(collective), 0});
  event.collective = &collective;
  event.position = state.comm(stream).end();
  if (state.trace.enabled())
    event.queued = nowNanoseconds();
  return call.end(error, event);
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// The device's event that `number` is recorded in next; nothing that is queued
/// uses it.
static Expected<uint32_t> freshEvent(State &state, uint32_t number) {
  OnDevice &on = *state.onDevice;
  uint32_t &event = on.events[number];
  if (on.eventUses[event] == 0)
    return event;
  for (uint32_t other = 0; other < on.eventUses.size(); ++other)
    if (on.eventUses[other] == 0 &&
        std::find(on.events.begin(), on.events.end(), other) ==
            on.events.end()) {
      event = other;
      return event;
    }
  Expected<uint32_t> made = on.device.createEvent();
  if (made) {
    on.eventUses.push_back(0);
    event = *made;
  }
  return made;
}

mprt_status on_device::record(State &state, uint32_t stream, uint32_t number) {
  OnDevice &on = *state.onDevice;
  auto guard = state.lock();
  Expected<uint32_t> event = freshEvent(state, number);
  if (!event)
    return state.fail(event.error());
  ++on.calls;
  State::Event &mark = state.events[number];
  mark = {true, stream, 0};
  if (isDirect(state, stream)) {
    if (Error error = on.device.record(stream, *event))
      return state.fail(makeError(error.status(), "mprt_event_record on rank ",
                                  rankOf(state), ": ", error.message()));
    return state.status;
  }
  StreamWork work{};
  work.kind = StreamWork::Record;
  work.event = *event;
  work.eventUses = &on.eventUses[*event];
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

mprt_status on_device::wait(State &state, uint32_t stream, uint32_t number) {
  OnDevice &on = *state.onDevice;
  const State::Event &mark = state.events[number];
  // Within a stream there is order.
  if (mark.stream == stream)
    return state.status;
  auto isReached = [&] {
    return on.isOrdered(mark.stream) ||
           state.comm(mark.stream).reached(mark.position);
  };
  uint32_t event = on.events[number];
  if (stream != MPRT_COMPUTE_STREAM && !on.isOrdered(stream)) {
    auto guard = state.lock();
    if (!state.comm(stream).idle() || !isReached()) {
      StreamWork work{};
      work.kind = StreamWork::Wait;
      work.otherStream = mark.stream;
      work.otherPosition = mark.position;
      work.event = event;
      work.eventUses = &on.eventUses[event];
      ++*work.eventUses;
      ++on.calls;
      if (guard.owns_lock())
        guard.unlock();
      state.enqueue(stream, work);
      return state.status;
    }
  }
  TraceEvent traced = eventOf(TraceEvent::Wait, {});
  if (state.trace.enabled()) {
    auto guard = state.lock();
    describeWait(state, mark, traced);
  }
  const mprt_collective *waited = traced.collective;
  DeviceCall call(state, "mprt_stream_wait", stream,
                  waited && waited->name ? waited->name : "wait",
                  waited ? waited->location : nullptr);
  if (!isReached())
    state.wait(mark.stream, mark.position);
  if (state.failed())
    return state.status;
  auto guard = state.lock();
  Error error = on.device.wait(stream, event);
  if (guard.owns_lock())
    guard.unlock();
  // Other streams' waits are not what a reader of a trace looks for.
  if (stream != MPRT_COMPUTE_STREAM)
    return call.end(error);
  return call.end(error, traced);
}
