//===- StopSignals.cpp - being asked to stop, without handlers ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StopSignals.h.
//
//===----------------------------------------------------------------------===//

#include "launch/StopSignals.h"

#include <cstring>
#include <iterator>

using namespace mpcomm::run;

static bool isIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

static constexpr int stopping[] = {SIGINT, SIGTERM, SIGHUP};
// Of the handler, which is there once.
static const std::atomic<bool> *listening;
static std::atomic<int> *taken;
static_assert(std::atomic<int>::is_always_lock_free);

static void takeStop(int signal) {
  // Of a second one, and where nobody listens, the default.
  if (listening->load())
    taken->store(signal);
  else
    raise(signal);
}

StopHandler::StopHandler(const std::atomic<bool> &listens,
                         std::atomic<int> &signal) {
  listening = &listens;
  taken = &signal;
  struct sigaction action = {};
  action.sa_handler = takeStop;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < std::size(stopping); ++i)
    sigaction(stopping[i], isIgnored(stopping[i]) ? nullptr : &action,
              &before[i]);
}

StopHandler::~StopHandler() {
  for (size_t i = 0; i < std::size(stopping); ++i)
    sigaction(stopping[i], &before[i], nullptr);
}

StopSignals::StopSignals() {
  // Where a parent has left it ignored, children vanish without a status.
  struct sigaction byDefault = {};
  byDefault.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &byDefault, &childBefore);
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (int signal : stopping)
    if (!isIgnored(signal))
      sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
}

StopSignals::~StopSignals() {
  sigaction(SIGCHLD, &childBefore, nullptr);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

int StopSignals::wait(std::chrono::milliseconds limit) const {
  timespec pause = {limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  int signal = sigtimedwait(&watched, nullptr, &pause);
  return signal > 0 && signal != SIGCHLD ? signal : 0;
}

std::string mpcomm::run::describeStop(int signal) {
  return "stopped by signal " + std::to_string(signal) + " (" +
         strsignal(signal) + ")";
}
