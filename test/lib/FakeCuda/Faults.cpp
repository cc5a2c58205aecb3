//===- Faults.cpp - saying what touched what it must not ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Faults.h"

#include "State.h"

#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake;

static thread_local const char *running = nullptr;
static struct sigaction previous;

FaultScope::FaultScope(const char *name) { running = name; }
FaultScope::~FaultScope() { running = nullptr; }

static void onFault(int, siginfo_t *info, void *) {
  char line[256];
  int length = 0;
  auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (running)
    length = std::snprintf(line, sizeof line, "fake CUDA: %s faults at %p%s\n",
                           running, info->si_addr,
                           state().memory.isDevice(address)
                               ? ", a device pointer that is no operand"
                               : "");
  else if (state().memory.isDevice(address))
    length = std::snprintf(line, sizeof line,
                           "fake CUDA: the host touches device memory at %p\n",
                           info->si_addr);
  if (length > 0 && write(STDERR_FILENO, line, size_t(length)) < 0) {
  }
  // The instruction is tried again, and ends as it would have without us.
  sigaction(SIGSEGV, &previous, nullptr);
}

void fake::installFaultHandler() {
  struct sigaction action = {};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous);
}

void fake::useFaultStack() {
  constexpr size_t bytes = 64 << 10;
  stack_t stack = {};
  stack.ss_sp = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = bytes;
  if (stack.ss_sp != MAP_FAILED)
    sigaltstack(&stack, nullptr);
}
