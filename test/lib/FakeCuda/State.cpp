//===- State.cpp - what the fake CUDA driver keeps ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "State.h"

#include "FakeCuda.h"
#include "Faults.h"

#include <cstdarg>
#include <cstdio>
#include <unistd.h>

using namespace fake;

State &fake::state() {
  static State *made = [] {
    auto *state = new State;
    state->options.read();
    state->random.seed(state->options.seed);
    state->memory.isPoisoned = state->options.computes;
    return state;
  }();
  return *made;
}

std::vector<Context *> &fake::contextStack() {
  static thread_local std::vector<Context *> stack;
  return stack;
}

Entry::Entry(const char *name, Needs needs) : lock(state().mutex) {
  State &s = state();
  result = s.options.count(name);
  if (result != CUDA_SUCCESS)
    return;
  if (isHostFunctionThread()) {
    explain("%s is called in a host function", name);
    result = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  if (needs == Nothing)
    return;
  if (!s.initialised || s.process != getpid()) {
    result = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  std::vector<Context *> &stack = contextStack();
  context = stack.empty() ? nullptr : stack.back();
  if (needs == Initialised)
    return;
  if (!context || !context->references)
    result = CUDA_ERROR_INVALID_CONTEXT;
  else
    result = context->error;
}

void fake::explain(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "fake CUDA: %s\n", text);
}

//===----------------------------------------------------------------------===//
// Hooks
//===----------------------------------------------------------------------===//

void mpfake_seed(uint64_t seed) {
  Lock lock(state().mutex);
  state().random.seed(seed);
}

uint64_t mpfake_count(const char *name) {
  Lock lock(state().mutex);
  return state().options.countOf(name);
}

void mpfake_fail(const char *text) {
  Lock lock(state().mutex);
  state().options.addFailures(text);
}

int mpfake_note(const char *name) {
  Lock lock(state().mutex);
  return state().options.count(name);
}

void *mpfake_device(const void *pointer) {
  Lock lock(state().mutex);
  return state().memory.translate(reinterpret_cast<uint64_t>(pointer));
}

void mpfake_elapse(uint64_t microseconds) {
  Lock lock(state().mutex);
  state().scheduler.elapse(std::chrono::microseconds(microseconds));
}

int mpfake_covers(const void *pointer, size_t bytes) {
  Lock lock(state().mutex);
  return state().memory.covers(reinterpret_cast<uint64_t>(pointer), bytes,
                               true);
}

int mpfake_computes() {
  Lock lock(state().mutex);
  return state().options.computes;
}

int mpfake_enqueue(void *handle, const char *name, int (*run)(void *),
                   void *data, void (*release)(void *)) {
  std::shared_ptr<void> owned(data, [release](void *data) {
    if (release)
      release(data);
  });
  Entry entry("mpfake_enqueue", Entry::Current);
  if (entry.result != CUDA_SUCCESS)
    return entry.result;
  std::shared_ptr<Stream> stream =
      findStream(entry, static_cast<CUstream>(handle));
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  Work work;
  work.kind = Work::Device;
  work.name = name;
  work.run = [owned, run] { return CUresult(run(owned.get())); };
  return enqueue(*stream, std::move(work));
}

__attribute__((destructor)) static void writeLog() {
  // The worker may hold the lock for good: it is not waited for.
  state().options.writeLog();
}
