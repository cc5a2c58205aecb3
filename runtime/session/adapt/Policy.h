//===- Policy.h - which plan to go on with ----------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function of what was measured and of nothing else, so that ranks which have
// seen the same decide the same. Plans are compared by what the compiler has
// simulated for each, on the bandwidth that is measured, and corrected by what
// those that have run did take. A plan that does not do what was expected of it
// is left again.
//
// docs/Design/Adapting.md has the reasoning and the figures.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ADAPT_POLICY_H
#define MPCOMM_RUNTIME_SESSION_ADAPT_POLICY_H

#include "files/Manifest.h"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mprt {

/// A plan that may be chosen.
struct PolicyPlan {
  std::string name;
  ManifestForecast forecast;
};

struct PolicyOptions {
  /// A plan has to be faster by this share of the step to be tried.
  double gain = 0.05;
  /// Switches in `budgetSteps` steps, those back included.
  uint64_t budget = 10, budgetSteps = 1000;
};

/// What was measured since the last review, in seconds of a step.
struct PolicyInput {
  uint64_t step = 0; ///< steps done
  double seconds = 0, compute = 0, communication = 0;
};

struct PolicyDecision {
  size_t plan = 0;
  /// Why it is another plan than before; else empty.
  std::string reason;
};

class Policy {
public:
  /// At least one plan; `current` is in use.
  Policy(PolicyOptions options, std::vector<PolicyPlan> plans, size_t current);

  /// Which plan to use from here on. Time: linear in plans and their rows.
  PolicyDecision review(const PolicyInput &input);

  /// Another plan that may be chosen; it has the number behind the last.
  void add(PolicyPlan plan);
  /// Somebody else has chosen a plan.
  void use(size_t plan);

  /// Of the last review: bytes/s of the link, by which the plan's collectives
  /// would have taken as long as they did; and what it expects of each plan,
  /// seconds of a step.
  double bandwidth() const { return measuredBandwidth; }
  const std::vector<double> &expected() const { return expectations; }
  const std::vector<PolicyPlan> &plans() const { return all; }

private:
  /// A mean over reviews, in which the newest of many has some weight left.
  struct Mean {
    double value = 0;
    unsigned count = 0;
    void add(double newest);
  };

  /// What the simulator says of a plan on a link of `bandwidth`, where
  /// computation takes `slowness` times what it was simulated to take.
  double simulated(size_t plan, double bandwidth, double slowness) const;
  bool isBarred(size_t plan) const;
  /// What was measured of the network is that of another one from here on.
  void forgetNetwork();
  bool takeIn(const PolicyInput &input);
  PolicyDecision switchTo(size_t plan, const PolicyInput &input,
                          std::string reason);

  PolicyOptions options;
  std::vector<PolicyPlan> all;
  size_t current;
  double measuredBandwidth = 0;
  std::vector<double> expectations;
  /// By plan: what it took, of what was simulated; nothing of plans that have
  /// not run. By what share of itself a review was off that, where there was
  /// nothing but noise.
  std::vector<Mean> correction, noise;
  /// By plan: the bandwidth that it finds on this network; and how many times
  /// what was simulated computation takes, which says as much of the forecast
  /// as of the machine.
  std::vector<Mean> found, slowness;
  /// By plan: the bandwidth at which it was tried and left again, as the plan
  /// before it had measured it, which will measure it again.
  std::vector<std::optional<double>> barredAt;
  /// The plan before, while the current one has not shown yet what it takes;
  /// the bandwidth by which it was chosen, what the plan before took there, and
  /// how many reviews ago.
  std::optional<size_t> before;
  double triedAt = 0, tookBefore = 0;
  unsigned trialReviews = 0;
  /// The plan that the last review would have gone to, had it been sure.
  std::optional<size_t> candidate;
  /// At the last review the bandwidth was another; it is not sure yet.
  bool wasOff = false;
  /// Since the network has changed, plans about as good by the simulator are
  /// tried: those that have not run since.
  bool explores = false;
  std::vector<bool> isTried;
  /// Steps of the switches that count.
  std::deque<uint64_t> switches;
};

/// Seconds, or whatever `values` are, at bandwidth `at`, between the rows of a
/// forecast: linear in the logarithms, and as 1/bandwidth beyond the last row.
double interpolate(const std::vector<double> &bandwidths,
                   const std::vector<double> &values, double at);

/// The bandwidth at which a plan's collectives take so long.
double bandwidthFor(const ManifestForecast &forecast, double communication);

/// How many bits an element of a gradient has on the wire of a plan with that
/// `wire` option; 64 where it has all that it has, 0 where some have none.
unsigned wireBits(const std::string &wire);

/// Whether `plan` computes what `own` does: with 64 for `leastBits` by the same
/// options; with fewer but for a wire of so many bits and more, or one as wide
/// as that of `own`, and of one file in other micro-batches; with 0 also for
/// gradients that are sent as thin matrices.
bool isAllowed(const ManifestGraph &own, const ManifestGraph &plan,
               unsigned leastBits, bool isOfOneFile = false);

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ADAPT_POLICY_H
