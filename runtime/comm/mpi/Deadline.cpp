//===- Deadline.cpp - an end to calls that wait for ever ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/mpi/Deadline.h"

#include <chrono>
#include <sstream>

using namespace mprt;
using namespace mprt::mpi;

Deadline::Deadline(const MpiOptions &options, Error error) {
  if (!options.giveUp || options.timeoutSeconds <= 0)
    return;
  std::chrono::duration<double> limit(options.timeoutSeconds);
  thread = std::thread(
      [this, giveUp = options.giveUp, limit, error = std::move(error)] {
        std::unique_lock<std::mutex> guard(mutex);
        if (changed.wait_for(guard, limit, [this] { return over; }))
          return;
        std::ostringstream after;
        after << " within " << limit.count() << " s";
        giveUp(error.withContext("", after.str()));
      });
}

Deadline::~Deadline() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> guard(mutex);
    over = true;
  }
  changed.notify_one();
  thread.join();
}
