//===- Entry.cpp - the C ABI that programs call ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a device the calls are DeviceCalls.cpp's. On the host the compute stream
// is the calling thread, so that its work is done when a call returns. Kernels
// and matrix products on a communication stream run here too, after what was
// enqueued on that stream before. After each kernel and product the
// communication streams are moved on.
//
//===----------------------------------------------------------------------===//

#include "session/DeviceCalls.h"
#include "support/DType.h"

#include <cstring>

using namespace mprt;

using State = Context::State;

namespace {

/// Traces work that the calling thread does; costs nothing where no trace is
/// taken.
class Span {
public:
  explicit Span(State &state)
      : state(state), begin(state.trace.enabled() ? nowNanoseconds() : 0) {}

  void end(TraceEvent::Kind kind, uint32_t stream, const char *name,
           const char *location, uint64_t bytes, uint64_t flops = 0,
           const char *type = nullptr) {
    if (!begin)
      return;
    TraceEvent event{};
    event.kind = kind;
    event.stream = stream;
    event.name = name ? name : nameOf(kind);
    event.location = location ? location : "";
    event.begin = begin;
    event.end = nowNanoseconds();
    event.bytes = bytes;
    event.flops = flops;
    event.type = type;
    auto guard = state.lock();
    state.trace.record(event);
  }

private:
  State &state;
  uint64_t begin;
};

} // namespace

// A broadcast operand counts once, C twice if it is added to.
Work mprt::workOf(const mprt_gemm_desc &d) {
  uint64_t m = d.m, n = d.n, k = d.k;
  uint64_t a = m * k, b = k * n, c = m * n, flops = 2 * m * n * k;
  for (uint32_t i = 0; i < d.batch_rank; ++i) {
    uint64_t size = d.batch[i];
    a *= d.batch_a[i] ? size : 1;
    b *= d.batch_b[i] ? size : 1;
    c *= size;
    flops *= size;
  }
  uint64_t bytes = a * sizeOf(mprt_dtype(d.type_a)) +
                   b * sizeOf(mprt_dtype(d.type_b)) +
                   c * sizeOf(mprt_dtype(d.type_c)) * (d.accumulate ? 2 : 1);
  return {bytes, flops};
}

Work mprt::workOf(const mprt_window_desc &desc) {
  return {host::Window::countBytes(desc), host::Window::countFlops(desc)};
}

static mprt_status invalid(State &state, const char *call,
                           const std::string &what) {
  auto guard = state.lock();
  unsigned rank = state.transport ? state.transport->rank() : 0;
  return state.fail(
      makeError(MPRT_INVALID_ARGUMENT, call, " on rank ", rank, ": ", what));
}

static std::string noStream(const State &state, uint32_t stream) {
  return "there is no stream " + std::to_string(stream) + ", only 0 to " +
         std::to_string(state.streams.size());
}

/// Lets everything before the present end of a communication stream happen.
static bool reachEnd(State &state, const char *call, uint32_t stream) {
  if (stream == MPRT_COMPUTE_STREAM)
    return true;
  if (!state.isStream(stream)) {
    invalid(state, call, noStream(state, stream));
    return false;
  }
  state.wait(stream, state.comm(stream).end());
  return !state.failed();
}

mprt_status mprt_launch(mprt_context *ctx, uint32_t stream,
                        const mprt_kernel *kernel, void *const *args) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  if (state.device)
    return on_device::launch(state, stream, *kernel, args);
  if (!reachEnd(state, "mprt_launch", stream))
    return state.status;
  Span span(state);
  kernel->fn(args);
  span.end(TraceEvent::Kernel, stream, kernel->name, kernel->location,
           kernel->bytes, kernel->flops);
  ++state.stats.launches;
  state.poll();
  return state.status;
}

mprt_status mprt_gemm(mprt_context *ctx, uint32_t stream,
                      const mprt_gemm_desc *desc, const void *a, const void *b,
                      void *c) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  if (state.device)
    return on_device::gemm(state, stream, *desc, a, b, c);
  if (!reachEnd(state, "mprt_gemm", stream))
    return state.status;
  Span span(state);
  if (Error error = state.gemm.run(*desc, a, b, c)) {
    auto guard = state.lock();
    return state.fail(makeError(
        error.status(), "mprt_gemm \"", desc->name ? desc->name : "", "\" at ",
        desc->location ? desc->location : "an unknown location", " on rank ",
        state.transport ? state.transport->rank() : 0, ": ", error.message()));
  }
  Work work = workOf(*desc);
  span.end(TraceEvent::Gemm, stream, desc->name, desc->location, work.bytes,
           work.flops, nameOf(mprt_dtype(desc->type_a)));
  ++state.stats.gemms;
  state.poll();
  return state.status;
}

mprt_status mprt_gemm_epilogue(mprt_context *ctx, uint32_t stream,
                               const mprt_gemm_desc *desc, const void *a,
                               const void *b, void *c,
                               const mprt_epilogue *epilogue,
                               void *const *args) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  if (state.device)
    return on_device::gemmWithEpilogue(state, stream, *desc, a, b, c, *epilogue,
                                       args);
  auto guard = state.lock();
  return state.fail(makeError(
      MPRT_UNSUPPORTED, "mprt_gemm_epilogue \"", desc->name ? desc->name : "",
      "\" at ", desc->location ? desc->location : "an unknown location",
      " on rank ", state.transport ? state.transport->rank() : 0,
      ": the host has no epilogues, expected a program for target=cpu"));
}

/// mprt_convolution or mprt_pool, which `call` names.
static mprt_status slide(mprt_context *ctx, const char *call, uint32_t stream,
                         const mprt_window_desc *desc, const void *a,
                         const void *b, void *c) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  if (state.device)
    return on_device::window(state, call, stream, *desc, a, b, c);
  if (!reachEnd(state, call, stream))
    return state.status;
  Span span(state);
  if (Error error = state.window.run(*desc, a, b, c)) {
    auto guard = state.lock();
    return state.fail(makeError(
        error.status(), call, " \"", desc->name ? desc->name : "", "\" at ",
        desc->location ? desc->location : "an unknown location", " on rank ",
        state.transport ? state.transport->rank() : 0, ": ", error.message()));
  }
  bool isProduct = desc->kind <= MPRT_CONVOLUTION_FILTER_GRAD;
  Work work = workOf(*desc);
  span.end(isProduct ? TraceEvent::Gemm : TraceEvent::Kernel, stream,
           desc->name, desc->location, work.bytes, work.flops,
           isProduct ? nameOf(mprt_dtype(desc->type)) : nullptr);
  ++(isProduct ? state.stats.gemms : state.stats.launches);
  state.poll();
  return state.status;
}

mprt_status mprt_convolution(mprt_context *ctx, uint32_t stream,
                             const mprt_window_desc *desc, const void *a,
                             const void *b, void *c) {
  return slide(ctx, "mprt_convolution", stream, desc, a, b, c);
}

mprt_status mprt_pool(mprt_context *ctx, uint32_t stream,
                      const mprt_window_desc *desc, const void *a,
                      const void *b, void *c) {
  return slide(ctx, "mprt_pool", stream, desc, a, b, c);
}

/// Copies, or fills with zero where `src` is null.
static mprt_status move(State &state, const char *call, uint32_t stream,
                        void *dst, const void *src, uint64_t bytes) {
  if (state.failed())
    return state.status;
  if (bytes == 0)
    return MPRT_OK;
  if (!state.isStream(stream))
    return invalid(state, call, noStream(state, stream));
  if (state.device)
    return on_device::move(state, call, stream, dst, src, bytes);
  if (stream != MPRT_COMPUTE_STREAM) {
    StreamWork work{};
    work.kind = src ? StreamWork::Copy : StreamWork::Zero;
    work.source = src;
    work.target = dst;
    work.bytes = bytes;
    state.enqueue(stream, work);
    return state.status;
  }
  Span span(state);
  if (src)
    memcpy(dst, src, bytes);
  else
    memset(dst, 0, bytes);
  span.end(src ? TraceEvent::Copy : TraceEvent::Zero, stream, nullptr, nullptr,
           bytes);
  state.poll();
  return state.status;
}

mprt_status mprt_copy(mprt_context *ctx, uint32_t stream, void *dst,
                      const void *src, uint64_t bytes) {
  State &state = stateOf(ctx);
  if (bytes != 0 && (!dst || !src) && !state.failed())
    return invalid(state, "mprt_copy", "a buffer is null");
  return move(state, "mprt_copy", stream, dst, src, bytes);
}

mprt_status mprt_zero(mprt_context *ctx, uint32_t stream, void *dst,
                      uint64_t bytes) {
  State &state = stateOf(ctx);
  if (bytes != 0 && !dst && !state.failed())
    return invalid(state, "mprt_zero", "the buffer is null");
  return move(state, "mprt_zero", stream, dst, nullptr, bytes);
}

const void *mprt_constant(mprt_context *ctx, const void *host, uint64_t bytes) {
  State &state = stateOf(ctx);
  if (state.failed())
    return nullptr;
  return state.device ? on_device::constant(state, host, bytes) : host;
}

mprt_status mprt_collective_run(mprt_context *ctx, uint32_t stream,
                                const mprt_collective *collective,
                                const void *send, void *recv) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  if (state.device)
    return on_device::collective(state, stream, *collective, send, recv);
  state.enqueueCollective(stream, *collective, send, recv);
  return state.status;
}

static bool checkEvent(State &state, const char *call, uint32_t stream,
                       uint32_t event) {
  if (!state.isStream(stream))
    invalid(state, call, noStream(state, stream));
  else if (event >= state.events.size())
    invalid(state, call,
            "there is no event " + std::to_string(event) + ", only " +
                std::to_string(state.events.size()) + " events");
  return !state.failed();
}

mprt_status mprt_event_record(mprt_context *ctx, uint32_t stream,
                              uint32_t event) {
  State &state = stateOf(ctx);
  if (state.failed() || !checkEvent(state, "mprt_event_record", stream, event))
    return state.status;
  if (state.device)
    return on_device::record(state, stream, event);
  uint64_t position =
      stream == MPRT_COMPUTE_STREAM ? 0 : state.comm(stream).end();
  state.events[event] = {true, stream, position};
  return state.status;
}

mprt_status mprt_stream_wait(mprt_context *ctx, uint32_t stream,
                             uint32_t event) {
  State &state = stateOf(ctx);
  if (state.failed() || !checkEvent(state, "mprt_stream_wait", stream, event))
    return state.status;
  const State::Event &mark = state.events[event];
  if (!mark.recorded)
    return invalid(state, "mprt_stream_wait",
                   "event " + std::to_string(event) + " was never recorded");
  if (state.device)
    return on_device::wait(state, stream, event);
  // The compute stream is where this call is; within a stream there is order.
  if (mark.stream == MPRT_COMPUTE_STREAM || mark.stream == stream)
    return state.status;
  if (state.comm(mark.stream).reached(mark.position)) {
    if (stream == MPRT_COMPUTE_STREAM)
      state.traceWait(mark.stream, mark.position, nowNanoseconds());
    return state.status;
  }
  if (stream == MPRT_COMPUTE_STREAM) {
    state.wait(mark.stream, mark.position);
    return state.status;
  }
  StreamWork work{};
  work.kind = StreamWork::Wait;
  work.otherStream = mark.stream;
  work.otherPosition = mark.position;
  state.enqueue(stream, work);
  return state.status;
}

mprt_status mprt_status_of(const mprt_context *ctx) {
  return stateOf(const_cast<mprt_context *>(ctx)).status;
}

const char *mprt_message_of(const mprt_context *ctx) {
  const State &state = stateOf(const_cast<mprt_context *>(ctx));
  return state.failed() ? state.message.c_str() : "";
}
