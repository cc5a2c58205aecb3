//===- Entry.cpp - the C ABI that programs call ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The device does what is asked; of the host that is done when a call returns.
// Kernels and products on a communicator's stream go there after what is queued
// on it. After each call the communicators' streams are moved on.
//
//===----------------------------------------------------------------------===//

#include "session/Call.h"

#include "device/Descriptors.h"
#include "device/host/ConvolutionAndPool.h"
#include "support/DType.h"

#include <algorithm>

using namespace mprt;

using State = Context::State;

namespace {

/// What a call reads, writes and computes, for traces.
struct Work {
  uint64_t bytes, flops;
};

} // namespace

// A broadcast operand counts once, C twice if it is added to.
static Work workOf(const mprt_gemm_desc &d) {
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

static TraceEvent eventOf(TraceEvent::Kind kind, Work work,
                          const char *type = nullptr) {
  TraceEvent event{};
  event.kind = kind;
  event.bytes = work.bytes;
  event.flops = work.flops;
  event.type = type;
  return event;
}

/// Checks the stream, and lets everything that is queued there come to the
/// device.
static bool reachEnd(State &state, const char *call, uint32_t stream) {
  if (state.failed() || !checkStream(state, call, stream))
    return false;
  if (!isDirect(state, stream))
    state.wait(stream, state.comm(stream).end());
  return !state.failed();
}

//===----------------------------------------------------------------------===//
// Computing
//===----------------------------------------------------------------------===//

static Error nullOperand(const char *name) {
  return makeError(MPRT_INVALID_ARGUMENT, "operand ", name, " is null");
}

/// Fails where an operand that has elements is null. What is wrong with the
/// descriptor the device says.
static Error checkOperands(const mprt_gemm_desc &d, const void *a,
                           const void *b, const void *c) {
  if (check(d) || isEmpty(d))
    return {};
  if (d.k && (!a || !b))
    return nullOperand(a ? "b" : "a");
  return c ? Error() : nullOperand("c");
}

static Error checkOperands(const mprt_window_desc &d, const void *a,
                           const void *b, const void *c) {
  if (check(d))
    return {};
  const void *operands[] = {a, b, c};
  const char *names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    int64_t sizes[4];
    sizesOfOperand(d, i, sizes);
    if (!operands[i] && sizes[0] && sizes[1] && sizes[2] && sizes[3])
      return nullOperand(names[i]);
  }
  return {};
}

static Error checkArguments(const mprt_kernel &kernel, void *const *args) {
  if (args || !kernel.operands)
    return {};
  return makeError(MPRT_INVALID_ARGUMENT, "args is null, expected pointers to ",
                   kernel.operands, " operands");
}

mprt_status mprt_launch(mprt_context *ctx, uint32_t stream,
                        const mprt_kernel *kernel, void *const *args) {
  State &state = stateOf(ctx);
  if (!reachEnd(state, "mprt_launch", stream))
    return state.status;
  Call call(state, "mprt_launch", stream, kernel->name, kernel->location);
  Error error = checkArguments(*kernel, args);
  if (!error)
    error = state.device->launch(stream, *kernel, args);
  ++state.stats.launches;
  call.end(error, [&] {
    return eventOf(TraceEvent::Kernel, {kernel->bytes, kernel->flops});
  });
  state.poll();
  return state.status;
}

mprt_status mprt_gemm(mprt_context *ctx, uint32_t stream,
                      const mprt_gemm_desc *desc, const void *a, const void *b,
                      void *c) {
  State &state = stateOf(ctx);
  if (!reachEnd(state, "mprt_gemm", stream))
    return state.status;
  Call call(state, "mprt_gemm", stream, desc->name, desc->location);
  Error error = checkOperands(*desc, a, b, c);
  if (!error)
    error = state.device->gemm(stream, *desc, a, b, c);
  ++state.stats.gemms;
  call.end(error, [&] {
    return eventOf(TraceEvent::Gemm, workOf(*desc),
                   nameOf(mprt_dtype(desc->type_a)));
  });
  state.poll();
  return state.status;
}

mprt_status mprt_gemm_epilogue(mprt_context *ctx, uint32_t stream,
                               const mprt_gemm_desc *desc, const void *a,
                               const void *b, void *c,
                               const mprt_epilogue *epilogue,
                               void *const *args) {
  State &state = stateOf(ctx);
  if (!reachEnd(state, "mprt_gemm_epilogue", stream))
    return state.status;
  Call call(state, "mprt_gemm_epilogue", stream, desc->name, desc->location);
  Error wrong = check(*epilogue);
  for (uint32_t i = 0; i < epilogue->count && !wrong; ++i)
    wrong = checkArguments(*epilogue->kernels[i], args);
  if (!wrong)
    wrong = checkOperands(*desc, a, b, c);
  Expected<uint32_t> launched =
      wrong ? Expected<uint32_t>(wrong)
            : state.device->gemmWithEpilogue(stream, *desc, a, b, c, *epilogue,
                                             args);
  ++state.stats.gemms;
  if (launched)
    state.stats.launches += *launched;
  call.end(launched.error(), [&] {
    Work work = workOf(*desc);
    for (uint32_t i = 0; i < *launched; ++i) {
      work.bytes += epilogue->kernels[i]->bytes;
      work.flops += epilogue->kernels[i]->flops;
    }
    return eventOf(TraceEvent::Gemm, work, nameOf(mprt_dtype(desc->type_a)));
  });
  state.poll();
  return state.status;
}

/// mprt_convolution or mprt_pool, as `name` says.
static mprt_status convolveOrPool(mprt_context *ctx, const char *name,
                                  bool convolves, uint32_t stream,
                                  const mprt_window_desc *desc, const void *a,
                                  const void *b, void *c) {
  State &state = stateOf(ctx);
  if (!reachEnd(state, name, stream))
    return state.status;
  Call call(state, name, stream, desc->name, desc->location);
  bool isProduct = isConvolution(*desc);
  Error error = isProduct == convolves
                    ? checkOperands(*desc, a, b, c)
                    : makeError(MPRT_INVALID_ARGUMENT,
                                "its descriptor has the kind ", +desc->kind);
  if (!error)
    error = state.device->convolveOrPool(stream, *desc, a, b, c);
  ++(isProduct ? state.stats.gemms : state.stats.launches);
  call.end(error, [&] {
    return eventOf(isProduct ? TraceEvent::Gemm : TraceEvent::Kernel,
                   {host::ConvolutionAndPool::countBytes(*desc),
                    host::ConvolutionAndPool::countFlops(*desc)},
                   isProduct ? nameOf(mprt_dtype(desc->type)) : nullptr);
  });
  state.poll();
  return state.status;
}

mprt_status mprt_attention(mprt_context *ctx, uint32_t stream,
                           const mprt_attention_desc *desc, void *const *args) {
  State &state = stateOf(ctx);
  if (!reachEnd(state, "mprt_attention", stream))
    return state.status;
  Call call(state, "mprt_attention", stream, desc->name, desc->location);
  Error wrong = check(*desc);
  if (!wrong && !args)
    wrong =
        makeError(MPRT_INVALID_ARGUMENT, "args is null, expected pointers to ",
                  countOperands(*desc), " operands");
  Expected<uint32_t> launched =
      wrong ? Expected<uint32_t>(wrong)
            : state.device->attention(stream, *desc, args);
  if (launched)
    state.stats.launches += std::max(*launched, 1u);
  call.end(launched.error(), [&] {
    Work work{};
    for (uint32_t i = 0; i < desc->count; ++i) {
      work.bytes += desc->kernels[i]->bytes;
      work.flops += desc->kernels[i]->flops;
    }
    return eventOf(TraceEvent::Kernel, work);
  });
  state.poll();
  return state.status;
}

mprt_status mprt_convolution(mprt_context *ctx, uint32_t stream,
                             const mprt_window_desc *desc, const void *a,
                             const void *b, void *c) {
  return convolveOrPool(ctx, "mprt_convolution", true, stream, desc, a, b, c);
}

mprt_status mprt_pool(mprt_context *ctx, uint32_t stream,
                      const mprt_window_desc *desc, const void *a,
                      const void *b, void *c) {
  return convolveOrPool(ctx, "mprt_pool", false, stream, desc, a, b, c);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Copies, or fills with zero where `source` is null.
static mprt_status move(State &state, const char *name, uint32_t stream,
                        void *target, const void *source, uint64_t bytes) {
  if (state.failed() || bytes == 0 || !checkStream(state, name, stream))
    return state.status;
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
  Call call(state, name, stream, nullptr, nullptr);
  Error error = source ? state.device->copy(stream, target, source, bytes,
                                            CopyKind::OnDevice)
                       : state.device->zero(stream, target, bytes);
  call.end(error, [&] {
    return eventOf(source ? TraceEvent::Copy : TraceEvent::Zero, {bytes, 0});
  });
  state.poll();
  return state.status;
}

mprt_status mprt_copy(mprt_context *ctx, uint32_t stream, void *dst,
                      const void *src, uint64_t bytes) {
  State &state = stateOf(ctx);
  if (bytes != 0 && (!dst || !src) && !state.failed())
    return refuse(state, "mprt_copy", fail(dst ? "src" : "dst", " is null"));
  return move(state, "mprt_copy", stream, dst, src, bytes);
}

mprt_status mprt_zero(mprt_context *ctx, uint32_t stream, void *dst,
                      uint64_t bytes) {
  State &state = stateOf(ctx);
  if (bytes != 0 && !dst && !state.failed())
    return refuse(state, "mprt_zero", fail("dst is null"));
  return move(state, "mprt_zero", stream, dst, nullptr, bytes);
}

uint32_t mprt_rank(const mprt_context *ctx) {
  const State &state = stateOf(const_cast<mprt_context *>(ctx));
  return state.transport ? state.transport->rank() : 0;
}

const void *mprt_constant(mprt_context *ctx, const void *host, uint64_t bytes) {
  State &state = stateOf(ctx);
  if (state.failed())
    return nullptr;
  if (!host && bytes) {
    refuse(state, "mprt_constant", fail("host is null"));
    return nullptr;
  }
  if (!state.device->isAsynchronous())
    return host;
  void *&copy = state.onDevice->constants[host];
  if (copy)
    return copy;
  Expected<void *> memory = state.device->allocate(bytes);
  Error error =
      memory ? state.device->upload(*memory, host, bytes) : memory.error();
  if (!error)
    return copy = *memory;
  refuse(state,
         ("a constant of " + std::to_string(bytes) + " bytes of the program")
             .c_str(),
         error);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

mprt_status mprt_collective_run(mprt_context *ctx, uint32_t stream,
                                const mprt_collective *collective,
                                const void *send, void *recv) {
  State &state = stateOf(ctx);
  if (state.failed())
    return state.status;
  OnDevice &on = *state.onDevice;
  bool known = stream != MPRT_COMPUTE_STREAM && state.isStream(stream);
  if (!known || !on.isOrdered(stream)) {
    ++on.calls;
    state.enqueueCollective(stream, *collective, send, recv);
    return state.status;
  }
  Call call(state, "mprt_collective_run", stream, collective->name,
            collective->location);
  Error error;
  if (state.device->isCapturing()) {
    error = state.checkCollective(stream, *collective, send, recv);
    if (!error)
      error = state.comm(stream).communicator().start(*collective, send, recv);
    on.captured.push_back(collective);
    ++state.stats.collectives;
    state.stats.collectiveBytes += payloadOf(*collective);
  } else {
    state.enqueueCollective(stream, *collective, send, recv);
    if (state.failed())
      return state.status;
  }
  return call.end(error, [&] {
    TraceEvent event =
        eventOf(TraceEvent::Collective, {payloadOf(*collective), 0});
    event.collective = collective;
    event.position = state.comm(stream).end();
    event.queued = nowNanoseconds();
    return event;
  });
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

mprt_status mprt_status_of(const mprt_context *ctx) {
  return stateOf(const_cast<mprt_context *>(ctx)).status;
}

const char *mprt_message_of(const mprt_context *ctx) {
  const State &state = stateOf(const_cast<mprt_context *>(ctx));
  return state.failed() ? state.failure.message().c_str() : "";
}
