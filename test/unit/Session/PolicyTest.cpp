//===- PolicyTest.cpp - which plan to go on with --------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Jobs are played against a network whose bandwidth changes. What a plan takes
// there is computed here, and the forecasts say it, or are wrong by some
// factor.
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Policy.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace mprt;

namespace {

/// Computes, sends `bytes`, of which a share is hidden, and encodes.
struct TruePlan {
  double compute, bytes, hidden, encode;

  double communication(double bandwidth) const {
    return 1e-4 + bytes / bandwidth;
  }
  double step(double bandwidth) const {
    double busy = communication(bandwidth);
    return compute + encode + std::max(busy - hidden * compute, 0.1 * busy);
  }
};

/// `wrong`: how many times the truth the forecast of a step is.
ManifestForecast forecastOf(const TruePlan &plan, double wrong = 1) {
  ManifestForecast forecast;
  forecast.compute = plan.compute + plan.encode;
  for (double bandwidth = 1e11; bandwidth > 1e5; bandwidth /= std::sqrt(2.0)) {
    forecast.bandwidth.push_back(bandwidth);
    forecast.step.push_back(wrong * plan.step(bandwidth));
    forecast.communication.push_back(plan.communication(bandwidth));
  }
  return forecast;
}

class Job {
public:
  Job(std::vector<TruePlan> truths, const std::vector<double> &wrong,
      double noise = 0, PolicyOptions options = {})
      : truths(std::move(truths)), noise(noise),
        policy(options, plansOf(this->truths, wrong), 0) {}

  /// Ten steps, and a review; computing seems to take `longer`.
  void run(double bandwidth, double longer = 1) {
    std::uniform_real_distribution<double> shaken(1 - noise, 1 + noise);
    step += 10;
    const TruePlan &plan = truths[current];
    PolicyInput input;
    input.step = step;
    input.seconds = plan.step(bandwidth) * shaken(random);
    input.compute = (plan.compute + plan.encode) * longer * shaken(random);
    input.communication = plan.communication(bandwidth) * shaken(random);
    PolicyDecision decision = policy.review(input);
    EXPECT_EQ(decision.plan != current, !decision.reason.empty());
    switches += decision.plan != current;
    current = decision.plan;
  }
  double best(double bandwidth) const {
    double least = INFINITY;
    for (const TruePlan &plan : truths)
      least = std::min(least, plan.step(bandwidth));
    return least;
  }
  double mine(double bandwidth) const {
    return truths[current].step(bandwidth);
  }

  std::vector<TruePlan> truths;
  double noise;
  Policy policy;
  size_t current = 0;
  uint64_t step = 0;
  int switches = 0;
  std::mt19937 random{7};

private:
  static std::vector<PolicyPlan> plansOf(const std::vector<TruePlan> &truths,
                                         const std::vector<double> &wrong) {
    std::vector<PolicyPlan> plans;
    for (size_t i = 0; i < truths.size(); ++i)
      plans.push_back({std::to_string(i), forecastOf(truths[i], wrong[i])});
    return plans;
  }
};

/// Full gradients, half of them, a quarter; the narrower the more to encode.
const std::vector<TruePlan> wide = {
    {0.2, 40e6, 0.5, 0}, {0.2, 20e6, 0.5, 0.02}, {0.2, 10e6, 0.5, 0.06}};

} // namespace

TEST(Policy, FollowsTheNetwork) {
  Job job(wide, {1, 1, 1});
  for (double bandwidth : {125e6, 25e6, 6.25e6, 125e6, 6.25e6, 1e9}) {
    for (int review = 0; review < 4; ++review)
      job.run(bandwidth);
    EXPECT_LE(job.mine(bandwidth), 1.05 * job.best(bandwidth)) << bandwidth;
  }
  // The narrowest is best in all but the last.
  EXPECT_EQ(job.switches, 2);
  EXPECT_EQ(job.current, 0u);
}

TEST(Policy, SureGainsAreTakenAtTheFirstReview) {
  Job job(wide, {1, 1, 1});
  job.run(1e9);
  EXPECT_EQ(job.current, 0u);
  job.run(6.25e6);
  EXPECT_EQ(job.current, 2u);
}

TEST(Policy, SmallGainsHaveToBeSeenTwice) {
  // 20 of 230 ms.
  Job job({{0.2, 3e6, 0, 0.01}, {0.2, 1e6, 0, 0.01}}, {1, 1});
  job.run(100e6);
  EXPECT_EQ(job.current, 0u);
  job.run(100e6);
  EXPECT_EQ(job.current, 1u);
}

TEST(Policy, AnsweredNoiseIsNoChange) {
  for (double bandwidth : {1e9, 125e6, 25e6, 6.25e6}) {
    Job job(wide, {1, 1, 1}, /*noise=*/0.03);
    for (int review = 0; review < 3; ++review)
      job.run(bandwidth);
    int before = job.switches;
    for (int review = 0; review < 50; ++review)
      job.run(bandwidth);
    EXPECT_EQ(job.switches, before) << bandwidth;
  }
}

// A machine of which reviews are off by up to a tenth, and which drifts by a
// twentieth: forecasts are right, and the best plan is in use. Where another is
// as good, a switch is no error, but none is worth it.
TEST(Policy, NoiseOnASteadyLinkIsNoReasonToSwitch) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  int jobs = 1000, restless = 0;
  for (int number = 0; number < jobs; ++number) {
    double compute = uniform(0.05, 0.5), bytes = std::exp(uniform(14, 18.5));
    double encode = uniform(0, 0.15) * compute;
    std::vector<TruePlan> plans;
    for (int part : {0, 1, 2})
      plans.push_back({compute, std::ldexp(bytes, -part), uniform(0.2, 0.8),
                       0.5 * part * encode});
    double bandwidth = std::exp(uniform(std::log(2e6), std::log(1e9)));
    std::sort(plans.begin(), plans.end(),
              [&](const TruePlan &a, const TruePlan &b) {
                return a.step(bandwidth) < b.step(bandwidth);
              });
    std::vector<PolicyPlan> known;
    for (const TruePlan &plan : plans)
      known.push_back({std::to_string(known.size()), forecastOf(plan)});
    Policy policy({}, known, 0);
    double machine = 0, link = 0;
    size_t current = 0;
    int switches = 0;
    for (int review = 1; review <= 50; ++review) {
      machine = 0.8 * machine + 0.6 * 0.05 * normal(random);
      link = 0.8 * link + 0.6 * 0.05 * normal(random);
      auto shaken = [&](double seconds, double drift) {
        return seconds * std::exp(drift + uniform(-0.1, 0.1));
      };
      const TruePlan &plan = plans[current];
      PolicyInput input;
      input.step = 10 * review;
      input.seconds = shaken(plan.step(bandwidth), machine);
      input.compute = shaken(plan.compute + plan.encode, machine);
      input.communication =
          shaken(plan.communication(bandwidth), 0.5 * machine + link);
      size_t next = policy.review(input).plan;
      switches += next != current;
      current = next;
    }
    restless += switches > 0;
  }
  RecordProperty("restless", restless);
  EXPECT_EQ(restless, 0);
}

TEST(Policy, LeavesAPlanThatBreaksItsPromise) {
  // The second is said to take half of what it takes.
  Job job({{0.2, 40e6, 0.5, 0}, {0.3, 40e6, 0.5, 0.1}}, {1, 0.4});
  job.run(25e6);
  EXPECT_EQ(job.current, 1u);
  // It is worse by a tenth, which noise may be.
  job.run(25e6);
  EXPECT_EQ(job.current, 1u);
  job.run(25e6);
  EXPECT_EQ(job.current, 0u);
  for (int review = 0; review < 100; ++review)
    job.run(25e6);
  EXPECT_EQ(job.current, 0u);
  EXPECT_EQ(job.switches, 2);
  // What it takes is known now, at bandwidths nearby as well.
  for (int review = 0; review < 10; ++review)
    job.run(20e6);
  EXPECT_EQ(job.switches, 2);
}

TEST(Policy, LeavesAPlanWhoseComputationIsForecastWrong) {
  // It is said to compute in 0.6 s, and does in 1.3 s: no slow machine.
  TruePlan good{1.0, 1e6, 0.5, 0}, bad{1.3, 0.9e6, 0.5, 0};
  ManifestForecast promised = forecastOf({0.6, 0.9e6, 0.5, 0});
  Policy policy({}, {{"a", forecastOf(good)}, {"b", promised}}, 0);
  size_t current = 0;
  int tries = 0;
  for (int review = 1; review <= 50; ++review) {
    const TruePlan &plan = current ? bad : good;
    PolicyInput input;
    input.step = 10 * review;
    input.seconds = plan.step(25e6);
    input.compute = plan.compute;
    input.communication = plan.communication(25e6);
    size_t next = policy.review(input).plan;
    EXPECT_NEAR(policy.expected()[current], input.seconds,
                0.02 * input.seconds);
    tries += next > current;
    current = next;
  }
  EXPECT_EQ(current, 0u);
  EXPECT_EQ(tries, 1);
}

TEST(Policy, TriesMatchesWhenTheNetworkHasChanged) {
  // The second is better by a tenth than is said, which is the same as the
  // first.
  std::vector<TruePlan> plans = {{0.2, 40e6, 0.5, 0}, {0.2, 35e6, 0.5, 0}};
  double wrong = plans[0].step(25e6) / plans[1].step(25e6);
  Job steady(plans, {1, wrong});
  for (int review = 0; review < 50; ++review)
    steady.run(25e6);
  EXPECT_EQ(steady.switches, 0);
  Job job(plans, {1, wrong});
  job.run(1e9);
  for (int review = 0; review < 4; ++review)
    job.run(25e6);
  EXPECT_EQ(job.current, 1u);
}

/// Where transfers are noise beside what is computed, the network looks like
/// another one again and again, and no plan would be faster for it.
TEST(Policy, TriesNothingWhereAllIsComputed) {
  const std::vector<TruePlan> hidden = {{0.03, 4e5, 0.9, 0},
                                        {0.0299, 2e5, 0.9, 0}};
  Job job(hidden, {1, 1});
  for (int change = 0; change < 50; ++change)
    for (int review = 0; review < 4; ++review)
      job.run(change % 2 ? 150e6 : 60e6);
  EXPECT_EQ(job.switches, 0);
}

/// One look that says so is no reason to give up.
TEST(Policy, TriesAfterALookInWhichAllSeemedComputed) {
  std::vector<TruePlan> plans = {{0.2, 3e6, 0.5, 0}, {0.2, 2.6e6, 0.5, 0}};
  double wrong = plans[0].step(25e6) / plans[1].step(25e6);
  Job job(plans, {1, wrong});
  job.run(1e9);
  job.run(25e6);
  job.run(25e6, 1.06);
  for (int review = 0; review < 4; ++review)
    job.run(25e6);
  EXPECT_EQ(job.current, 1u);
}

TEST(Policy, KeepsToItsBudget) {
  PolicyOptions options;
  options.budget = 3;
  Job job(wide, {1, 1, 1}, 0, options);
  for (int round = 0; round < 40; ++round)
    job.run(round % 2 ? 6.25e6 : 1e9);
  EXPECT_EQ(job.step, 400u);
  EXPECT_GE(job.switches, 2);
  EXPECT_LE(job.switches, 3);
  int before = job.switches;
  // Old switches do not count.
  for (int round = 0; round < 100; ++round)
    job.run(1e9);
  job.run(6.25e6);
  EXPECT_GT(job.switches, before);
}

// Whatever forecasts say, a steady phase ends with no worse a plan than it
// began with, and a change costs at most a trial of each plan. Where they are
// right, what is left is the gain below which it stays, and what lies between
// their rows: of a kink, up to a twentieth.
TEST(Policy, Random) {
  std::mt19937 random(1);
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int number = 0; number < 2000; ++number) {
    std::vector<TruePlan> plans;
    std::vector<double> wrong;
    bool isRight = number % 2;
    double compute = uniform(0.05, 0.5);
    for (int i = 0, n = 1 + int(uniform(0, 5)); i < n; ++i) {
      plans.push_back({compute, std::exp(uniform(13, 18.5)), uniform(0, 1),
                       uniform(0, 0.1)});
      wrong.push_back(isRight ? 1 : std::exp(uniform(-0.5, 0.5)));
    }
    Job job(plans, wrong, 0, {0.05, 1000, 1000});
    for (int phase = 0; phase < 4; ++phase) {
      double bandwidth = std::exp(uniform(std::log(2e6), std::log(2e9)));
      double before = job.mine(bandwidth);
      int switches = job.switches;
      for (int review = 0; review < 2 * int(plans.size()) + 4; ++review)
        job.run(bandwidth);
      // A trial is kept that is longer by a hundredth at most.
      EXPECT_LE(job.mine(bandwidth),
                std::pow(1 / 0.99, plans.size()) * before + 1e-9)
          << number;
      EXPECT_LE(job.switches - switches, 2 * int(plans.size())) << number;
      if (isRight)
        EXPECT_LE(job.mine(bandwidth), (1 / 0.95 + 0.05) * job.best(bandwidth))
            << number;
    }
  }
}

TEST(Policy, InterpolatesBetweenRows) {
  std::vector<double> bandwidths = {4, 2, 1}, values = {1, 2, 8};
  EXPECT_DOUBLE_EQ(interpolate(bandwidths, values, 8), 1);
  EXPECT_DOUBLE_EQ(interpolate(bandwidths, values, 4), 1);
  EXPECT_NEAR(interpolate(bandwidths, values, std::sqrt(2)), 4, 1e-12);
  EXPECT_DOUBLE_EQ(interpolate(bandwidths, values, 0.5), 16);
  TruePlan plan{0.2, 40e6, 0.5, 0};
  ManifestForecast forecast = forecastOf(plan);
  for (double bandwidth = 2e5; bandwidth < 5e8; bandwidth *= 1.7)
    EXPECT_NEAR(bandwidthFor(forecast, plan.communication(bandwidth)),
                bandwidth, 0.01 * bandwidth);
}

TEST(Policy, Numerics) {
  ManifestGraph own, other;
  own.digest = other.digest = "1";
  own.options = other.options = {{"precision", "bf16"}, {"wire", ""}};
  EXPECT_TRUE(isAllowed(own, other, 64));
  other.options["wire"] = "bf16";
  EXPECT_FALSE(isAllowed(own, other, 64));
  EXPECT_TRUE(isAllowed(own, other, 16));
  EXPECT_FALSE(isAllowed(other, own, 64)) << "other bits, if more of them";
  EXPECT_TRUE(isAllowed(other, own, 16));
  other.options["wire"] = "f8E4M3FN";
  EXPECT_FALSE(isAllowed(own, other, 16));
  EXPECT_TRUE(isAllowed(own, other, 8));
  other.options["wire"] = "i1";
  other.options["error-feedback"] = "true";
  EXPECT_FALSE(isAllowed(own, other, 8));
  EXPECT_TRUE(isAllowed(own, other, 1));
  other.options["wire"] = "bf16/i4/i8";
  EXPECT_FALSE(isAllowed(own, other, 8)) << "a bucket may have four bits";
  EXPECT_TRUE(isAllowed(own, other, 4));
  other.options["wire"] = "top1of32";
  EXPECT_FALSE(isAllowed(own, other, 1)) << "most elements have no bit";
  EXPECT_TRUE(isAllowed(own, other, 0));
  // Of a plan that sends few elements, others are as wide that send eight bits.
  EXPECT_TRUE(isAllowed(other, own, 8));
  EXPECT_TRUE(isAllowed(other, other, 8));
  ManifestGraph sparser = other;
  sparser.options["wire"] = "top1of256";
  EXPECT_FALSE(isAllowed(other, sparser, 8));
  other.options["wire"] = "i1";
  other.options["low-rank"] = "2";
  EXPECT_FALSE(isAllowed(own, other, 1));
  EXPECT_TRUE(isAllowed(own, other, 0));
  other.options = own.options;
  other.options["micro-batches"] = "4";
  EXPECT_FALSE(isAllowed(own, other, 8)) << "of another number of samples";
  EXPECT_FALSE(isAllowed(own, other, 64, true)) << "in another order of sums";
  EXPECT_TRUE(isAllowed(own, other, 16, true));
  other.digest = "of the same step with another batch";
  EXPECT_TRUE(isAllowed(own, other, 16, true));
  EXPECT_FALSE(isAllowed(own, other, 16));
  other.digest = own.digest;
  other.options["clip-norm"] = "1";
  EXPECT_FALSE(isAllowed(own, other, 0, true));
  other.options = own.options;
  other.options["precision"] = "f32";
  EXPECT_FALSE(isAllowed(own, other, 8));
  other.options = own.options;
  other.digest = "2";
  EXPECT_FALSE(isAllowed(own, other, 8));
}
