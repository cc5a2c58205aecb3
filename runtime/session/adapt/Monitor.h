//===- Monitor.h - what ranks wait for --------------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tells a slow network from a slow rank by what each rank measures with its own
// clock. A collective ends for all ranks at about the same time. It has begun
// for each when that rank came: for the last one, it took as long as the
// transfer does, and for the others as much longer as they have waited for it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ADAPT_MONITOR_H
#define MPCOMM_RUNTIME_SESSION_ADAPT_MONITOR_H

#include "session/CollectiveClock.h"

#include <optional>
#include <string>
#include <vector>

namespace mprt {

/// What one rank has measured, in seconds of a step: medians over the steps
/// since the last time.
struct RankTimes {
  double step = 0;
  /// Of the step, waited for communication; and the rest.
  double exposed = 0, compute = 0;
  /// While any collective was under way.
  double busy = 0;
  /// Means, for each collective of the function that it runs.
  std::vector<double> busyOf, waitedOf;
};

/// Collects what one rank measures.
class StepTimes {
public:
  void add(double step, double exposed, CollectiveTimes collectives);
  size_t steps() const { return step.size(); }
  /// All since the last time; `ids` are the collectives that it is asked for.
  /// Requires a step.
  RankTimes take(const std::vector<uint32_t> &ids);
  void clear() { *this = {}; }

private:
  std::vector<double> step, exposed, busy;
  std::map<uint32_t, CollectiveTime> byId;
};

/// What there is to see from all ranks together, in seconds of a step.
struct NetworkView {
  /// The longest of any rank.
  double step = 0, exposed = 0, compute = 0;
  /// What collectives take once all ranks have come.
  double communication = 0;
  /// By rank: waited for ranks that came later.
  std::vector<double> waited;
  /// For each collective of this rank's function: what it takes once all have
  /// come, and for how long this rank has waited for others in it.
  std::vector<double> transferOf, lateOf;
  /// Who waits least, where the others wait for it; and for how long.
  std::optional<unsigned> straggler;
  double lateness = 0;
};

/// Others wait for a rank that is late by this share of the step, and by more
/// than what a scheduler does to any rank.
inline constexpr double latenessShare = 0.05, latenessSeconds = 1e-3;

/// `ranks` by rank; ranks of one `group` run one function. `mine` is the rank
/// that asks. Time: linear in all numbers.
NetworkView lookAt(const std::vector<RankTimes> &ranks,
                   const std::vector<unsigned> &group, unsigned mine);

/// What a message of some size took from one rank to the next.
struct LinkTime {
  unsigned from = 0, to = 0;
  double seconds = 0;
};

struct SlowLink {
  LinkTime link;
  /// Where both links of a rank are slow, and no other.
  std::optional<unsigned> rank;
};

/// The link that takes the longest, where that is more than twice as long as
/// their median; nothing where there is none. Of two links nobody can tell
/// which of them is as it should be. `links` are those from each rank to the
/// next.
std::optional<SlowLink> findSlowLink(const std::vector<LinkTime> &links);

/// For people: "the link from rank 1 to rank 2", "the links of rank 2".
std::string describe(const SlowLink &slow);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ADAPT_MONITOR_H
