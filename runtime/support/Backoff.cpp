//===- Backoff.cpp - how to wait for another process ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Backoff.h"

#include "support/Trace.h"

#include <ctime>
#include <sched.h>

using namespace mprt;

/// Pauses before the first yield where every rank has a core of its own: some
/// microseconds. Not more: with other work on the machine two ranks may share a
/// core all the same, and spin away each other's time.
static constexpr uint32_t spinsWithCores = 128;
/// The same where ranks share cores: the peer may need this very core.
static constexpr uint32_t spinsWithoutCores = 16;
/// Time of yields before the first sleep, and the length of a sleep. A yield
/// takes less than a microsecond on an idle machine and many milliseconds on a
/// busy one: the clock decides, not their number.
static constexpr uint64_t yieldNanoseconds = 20'000'000;
static constexpr long sleepNanoseconds = 50000;
static constexpr uint32_t turnsBetweenChecks = 256, yieldsBetweenLooks = 16;

unsigned mprt::availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  int count = CPU_COUNT(&set);
  return count > 0 ? unsigned(count) : 1;
}

static void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

Backoff::Backoff(unsigned ranks)
    : spins(ranks <= availableCores() ? spinsWithCores : spinsWithoutCores) {}

bool Backoff::pause() {
  ++turns;
  if (turns <= spins) {
    relax();
    return turns % turnsBetweenChecks == 0;
  }
  if (!sleeps) {
    sched_yield();
    if (turns % yieldsBetweenLooks)
      return false;
    uint64_t now = nowNanoseconds();
    if (began == 0)
      began = now;
    sleeps = now - began >= yieldNanoseconds;
    return turns % turnsBetweenChecks == 0 || sleeps;
  }
  timespec duration{0, sleepNanoseconds};
  nanosleep(&duration, nullptr);
  return true;
}
