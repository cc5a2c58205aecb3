//===- Urgent.cpp - threads that others wait for --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scheduler of Linux 6.6 and later (EEVDF) lets a thread finish its slice,
// 3 ms, before one that woke up runs, whatever its nice value: a message that
// passes four threads would take 12 ms.
//
//===----------------------------------------------------------------------===//

#include "support/Urgent.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mprt;

/// The kernel's struct sched_attr, of which older headers know nothing.
namespace {
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0; // SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
} // namespace

/// The shortest slice that there is, in nanoseconds.
static constexpr uint64_t sliceNanoseconds = 100'000;
/// How far below that of its process a thread puts its nice value.
static constexpr int32_t niceSteps = 10;

void mprt::becomeUrgent() {
#ifdef SYS_sched_setattr
  SchedulingAttributes attributes;
  attributes.runtime = sliceNanoseconds;
  int32_t nice = getpriority(PRIO_PROCESS, 0);
  for (int32_t wanted : {std::max(nice - niceSteps, -20), nice}) {
    attributes.nice = wanted;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0)
      return;
  }
#endif
}
