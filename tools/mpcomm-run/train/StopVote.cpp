//===- StopVote.cpp - all ranks stop after the same step ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StopVote.h.
//
//===----------------------------------------------------------------------===//

#include "train/StopVote.h"

#include <algorithm>

using namespace mpcomm::run;

/// About the time from one question to the next.
static constexpr double secondsBetween = 0.1;
static constexpr uint64_t mostSteps = 10'000;

Expected<int> StopVote::afterStep() {
  if (++steps < interval)
    return 0;
  return ask();
}

Expected<int> StopVote::ask() {
  if (session.size() == 1)
    return asked.load();
  struct Vote {
    double secondsPerStep;
    int64_t signal;
  };
  std::chrono::duration<double> passed = Clock::now() - before;
  Vote mine = {passed.count() /
                   static_cast<double>(std::max<uint64_t>(steps, 1)),
               asked.load()};
  std::vector<Vote> all(session.size());
  if (Error error = session.gather(&mine, all.data(), sizeof(mine)))
    return error;
  double longest = 0;
  for (const Vote &vote : all) {
    if (vote.signal)
      return static_cast<int>(vote.signal);
    longest = std::max(longest, vote.secondsPerStep);
  }
  double wanted = std::min(secondsBetween / std::max(longest, 1e-9),
                           static_cast<double>(mostSteps));
  interval = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  steps = 0;
  before = Clock::now();
  return 0;
}
