//===- Monitor.cpp - what ranks wait for ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Monitor.h"

#include <algorithm>

using namespace mprt;

/// Requires an element.
static double medianOf(std::vector<double> values) {
  size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  return values[half];
}

void StepTimes::add(double seconds, double exposedSeconds,
                    CollectiveTimes collectives) {
  step.push_back(seconds);
  exposed.push_back(exposedSeconds);
  busy.push_back(1e-9 * double(collectives.busyNanoseconds));
  for (const auto &[id, time] : collectives.byId) {
    CollectiveTime &sum = byId[id];
    sum.count += time.count;
    sum.busyNanoseconds += time.busyNanoseconds;
    sum.waitedNanoseconds += time.waitedNanoseconds;
  }
}

RankTimes StepTimes::take(const std::vector<uint32_t> &ids) {
  std::vector<double> compute;
  for (size_t i = 0; i < step.size(); ++i)
    compute.push_back(std::max(0.0, step[i] - exposed[i]));
  RankTimes times;
  times.compute = medianOf(std::move(compute));
  double perStep = 1e-9 / double(step.size());
  times.step = medianOf(std::move(step));
  times.exposed = medianOf(std::move(exposed));
  times.busy = medianOf(std::move(busy));
  for (uint32_t id : ids) {
    times.busyOf.push_back(perStep * double(byId[id].busyNanoseconds));
    times.waitedOf.push_back(perStep * double(byId[id].waitedNanoseconds));
  }
  clear();
  return times;
}

NetworkView mprt::lookAt(const std::vector<RankTimes> &ranks,
                         const std::vector<unsigned> &group, unsigned mine) {
  NetworkView view;
  std::map<unsigned, double> transfer;
  for (size_t r = 0; r < ranks.size(); ++r) {
    view.step = std::max(view.step, ranks[r].step);
    view.exposed = std::max(view.exposed, ranks[r].exposed);
    view.compute = std::max(view.compute, ranks[r].compute);
    auto [known, isNew] = transfer.emplace(group[r], ranks[r].busy);
    known->second = std::min(known->second, ranks[r].busy);
  }
  std::map<unsigned, unsigned> sizes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    view.communication = std::max(view.communication, transfer[group[r]]);
    view.waited.push_back(ranks[r].busy - transfer[group[r]]);
    ++sizes[group[r]];
  }
  const RankTimes &own = ranks[mine];
  view.transferOf = own.busyOf;
  for (size_t r = 0; r < ranks.size(); ++r)
    if (group[r] == group[mine])
      for (size_t i = 0; i < view.transferOf.size(); ++i)
        view.transferOf[i] = std::min(view.transferOf[i], ranks[r].busyOf[i]);
  for (size_t i = 0; i < view.transferOf.size(); ++i)
    view.lateOf.push_back(own.busyOf[i] - view.transferOf[i]);
  // The last to come is waited for by as long as the second to last waits, at
  // the least.
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (sizes[group[r]] < 2 || view.waited[r] > 0)
      continue;
    double least = view.step;
    for (size_t other = 0; other < ranks.size(); ++other)
      if (other != r && group[other] == group[r])
        least = std::min(least, view.waited[other]);
    if (least > latenessSeconds && least > latenessShare * view.step &&
        least > view.lateness) {
      view.straggler = unsigned(r);
      view.lateness = least;
    }
  }
  return view;
}

std::optional<SlowLink> mprt::findSlowLink(const std::vector<LinkTime> &links) {
  if (links.size() < 3)
    return std::nullopt;
  std::vector<double> seconds;
  for (const LinkTime &link : links)
    seconds.push_back(link.seconds);
  // The lower one of an even number: both links of one rank of four may be
  // slow.
  size_t half = (seconds.size() - 1) / 2;
  std::nth_element(seconds.begin(), seconds.begin() + half, seconds.end());
  std::vector<LinkTime> slow;
  for (const LinkTime &link : links)
    if (link.seconds > 2 * seconds[half])
      slow.push_back(link);
  if (slow.empty())
    return std::nullopt;
  SlowLink found{*std::max_element(slow.begin(), slow.end(),
                                   [](const LinkTime &a, const LinkTime &b) {
                                     return a.seconds < b.seconds;
                                   }),
                 std::nullopt};
  if (slow.size() == 2 && slow[0].to == slow[1].from)
    found.rank = slow[0].to;
  if (slow.size() == 2 && slow[1].to == slow[0].from)
    found.rank = slow[1].to;
  return found;
}

std::string mprt::describe(const SlowLink &slow) {
  if (slow.rank)
    return "the links of rank " + std::to_string(*slow.rank);
  return "the link from rank " + std::to_string(slow.link.from) + " to rank " +
         std::to_string(slow.link.to);
}
