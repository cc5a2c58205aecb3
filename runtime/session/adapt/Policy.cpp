//===- Policy.cpp - which plan to go on with ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Policy.h"

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace mprt;

/// The network has changed if the bandwidth has by more than this factor.
static constexpr double changeFactor = 1.4;
/// A plan that was left is not taken again at bandwidths this near.
static constexpr double barFactor = 1.15;
/// After a change of the network plans are tried whose step is expected to be
/// at most this share of that of the plan in use.
static constexpr double matchShare = 1.02;
/// A gain of this share of the step is no noise, however noisy reviews are.
static constexpr double sureGain = 0.20;
/// A plan is left again after trialLength reviews if the one before is shorter
/// by the first share, and at once if by the second.
static constexpr double regret = 0.01, sureRegret = 0.15;
static constexpr unsigned trialLength = 2;
/// Another plan has to be better by so many times what reviews are off.
static constexpr double noiseFactor = 2;
/// Of the newest measurement, in a mean.
static constexpr double leastWeight = 0.15;

double mprt::interpolate(const std::vector<double> &bandwidths,
                         const std::vector<double> &values, double at) {
  // Rows go from fast to slow.
  size_t last = bandwidths.size() - 1;
  if (at >= bandwidths[0])
    return values[0];
  if (at <= bandwidths[last])
    return values[last] * bandwidths[last] / at;
  size_t row = 1;
  while (bandwidths[row] > at)
    ++row;
  double share = std::log(bandwidths[row - 1] / at) /
                 std::log(bandwidths[row - 1] / bandwidths[row]);
  return values[row - 1] * std::pow(values[row] / values[row - 1], share);
}

double mprt::bandwidthFor(const ManifestForecast &forecast,
                          double communication) {
  const std::vector<double> &seconds = forecast.communication;
  const std::vector<double> &bandwidths = forecast.bandwidth;
  size_t last = seconds.size() - 1;
  if (communication <= seconds[0])
    return bandwidths[0];
  if (communication >= seconds[last])
    return bandwidths[last] * seconds[last] / communication;
  size_t row = 1;
  while (seconds[row] < communication)
    ++row;
  double share = std::log(communication / seconds[row - 1]) /
                 std::log(seconds[row] / seconds[row - 1]);
  return bandwidths[row - 1] *
         std::pow(bandwidths[row] / bandwidths[row - 1], share);
}

unsigned mprt::wireBits(const std::string &wire) {
  // Of several, what a bucket may have.
  if (size_t slash = wire.find('/'); slash != std::string::npos)
    return std::min(wireBits(wire.substr(0, slash)),
                    wireBits(wire.substr(slash + 1)));
  if (wire.rfind("top", 0) == 0) // not even a bit of each element
    return 0;
  size_t digit = wire.find_first_of("0123456789");
  return digit == std::string::npos
             ? 64
             : unsigned(std::strtoul(wire.c_str() + digit, nullptr, 10));
}

bool mprt::isAllowed(const ManifestGraph &own, const ManifestGraph &plan,
                     unsigned leastBits, bool isOfOneFile) {
  auto wireOf = [](const ManifestGraph &graph) {
    auto found = graph.options.find("wire");
    return found == graph.options.end() ? std::string() : found->second;
  };
  std::map<std::string, std::string> mine = own.options, its = plan.options;
  bool isExact = leastBits >= 64;
  for (auto *options : {&mine, &its}) {
    if (isExact)
      break;
    options->erase("wire");
    options->erase("error-feedback"); // which makes up for the wire
    if (isOfOneFile) // whose compiler has seen to it that samples are as many
      options->erase("micro-batches");
    if (leastBits == 0)
      options->erase("low-rank");
  }
  bool isOneStep = own.digest == plan.digest || (isOfOneFile && !isExact);
  if (!isOneStep || mine != its)
    return false;
  unsigned bits = wireBits(wireOf(plan)), ownBits = wireBits(wireOf(own));
  return isExact || wireOf(plan) == wireOf(own) || bits >= leastBits ||
         (ownBits > 0 && bits >= ownBits);
}

Policy::Policy(PolicyOptions options, std::vector<PolicyPlan> plans,
               size_t current)
    : options(options), all(std::move(plans)), current(current),
      expectations(all.size()), correction(all.size()), noise(all.size()),
      found(all.size()), slowness(all.size()), barredAt(all.size()),
      isTried(all.size()) {}

void Policy::Mean::add(double newest) {
  value += std::max(1.0 / ++count, leastWeight) * (newest - value);
}

double Policy::simulated(size_t plan, double bandwidth, double slowness) const {
  const ManifestForecast &forecast = all[plan].forecast;
  // Where all takes `slowness` times as long, that is a faster link.
  return slowness *
         interpolate(forecast.bandwidth, forecast.step, bandwidth * slowness);
}

static bool isNear(double a, double b, double factor) {
  return a < b * factor && b < a * factor;
}

bool Policy::isBarred(size_t plan) const {
  return barredAt[plan] &&
         isNear(*barredAt[plan], measuredBandwidth, barFactor);
}

void Policy::add(PolicyPlan plan) {
  all.push_back(std::move(plan));
  expectations.push_back(0);
  correction.emplace_back();
  noise.emplace_back();
  found.emplace_back();
  slowness.emplace_back();
  barredAt.emplace_back();
  isTried.push_back(false);
}

void Policy::use(size_t plan) {
  if (plan == current)
    return;
  current = plan;
  before.reset();
  candidate.reset();
  wasOff = false;
}

void Policy::forgetNetwork() {
  found.assign(all.size(), Mean());
  slowness.assign(all.size(), Mean());
}

static std::string milliseconds(double seconds) {
  std::ostringstream text;
  text.precision(3);
  text << 1e3 * seconds << " ms";
  return text.str();
}

PolicyDecision Policy::switchTo(size_t plan, const PolicyInput &input,
                                std::string reason) {
  switches.push_back(input.step);
  use(plan);
  return {plan, std::move(reason)};
}

/// Takes in what was measured, and expects of each plan what follows from that;
/// returns whether the network looks like another one, which is not sure yet.
bool Policy::takeIn(const PolicyInput &input) {
  const ManifestForecast &own = all[current].forecast;
  double bandwidth = bandwidthFor(own, input.communication);
  double slow = own.compute > 0 ? input.compute / own.compute : 1;
  double took = input.seconds / simulated(current, bandwidth, slow);
  // What happens once may be noise.
  bool isOff = found[current].count &&
               !isNear(found[current].value, bandwidth, changeFactor);
  bool isChanged = isOff && wasOff;
  wasOff = isOff && !isChanged;
  if (isChanged) {
    explores = true;
    isTried.assign(all.size(), false);
    forgetNetwork();
  }
  isTried[current] = true;
  if (!wasOff) {
    Mean &known = correction[current];
    if (isChanged)
      known = Mean();
    else if (known.count)
      noise[current].add(std::abs(took / known.value - 1));
    known.add(took);
    found[current].add(bandwidth);
    slowness[current].add(slow);
    took = known.value;
    bandwidth = found[current].value;
    slow = slowness[current].value;
  }
  measuredBandwidth = bandwidth;
  for (size_t plan = 0; plan < all.size(); ++plan) {
    const Mean &its = correction[plan];
    expectations[plan] = simulated(plan, bandwidth, slow) *
                         (plan == current || !its.count ? took : its.value);
  }
  return wasOff;
}

PolicyDecision Policy::review(const PolicyInput &input) {
  bool isOff = takeIn(input);
  double taken = expectations[current];
  while (!switches.empty() &&
         switches.front() + options.budgetSteps <= input.step)
    switches.pop_front();

  std::ostringstream network;
  network.precision(3);
  network << "at " << 8e-6 * measuredBandwidth << " Mb/s";
  if (before) {
    // A look that may be of another network says nothing of the plan.
    if (isOff)
      return {current, ""};
    size_t previous = *before;
    bool isOver = ++trialReviews >= trialLength;
    double share = isOver ? regret : sureRegret;
    // What was measured is better than what is expected, if the network is the
    // same.
    double other = isNear(triedAt, measuredBandwidth, changeFactor)
                       ? tookBefore
                       : expectations[previous];
    if (other < (1 - share) * taken) {
      barredAt[current] = triedAt;
      std::string reason = network.str() + " '" + all[current].name +
                           "' took " + milliseconds(taken) + ", where '" +
                           all[previous].name + "' takes " +
                           milliseconds(other);
      return switchTo(previous, input, std::move(reason));
    }
    if (!isOver)
      return {current, ""};
    before.reset();
  }
  auto isOpen = [&](size_t plan) { return plan != current && !isBarred(plan); };
  size_t best = current;
  for (size_t plan = 0; plan < all.size(); ++plan)
    if (isOpen(plan) && expectations[plan] < expectations[best])
      best = plan;
  bool isTrial = false;
  double gain = std::max(
      options.gain, std::min(noiseFactor * noise[current].value, sureGain));
  if (expectations[best] > (1 - gain) * taken) {
    best = current;
    // What a plan may save is what is not computing.
    double computing =
        all[current].forecast.compute > 0
            ? all[current].forecast.compute * slowness[current].value
            : input.compute;
    if (explores && computing < (1 - options.gain) * taken) {
      for (size_t plan = 0; plan < all.size(); ++plan)
        if (isOpen(plan) && !isTried[plan] &&
            expectations[plan] < matchShare * taken)
          best = plan;
      explores = isTrial = best != current;
    }
  }
  // There has to be one left for the way back.
  if (best == current || switches.size() + 2 > options.budget) {
    candidate.reset();
    return {current, ""};
  }
  // What noise may be has to be there twice.
  if (!isTrial && candidate != best &&
      expectations[best] > (1 - sureGain) * taken) {
    candidate = best;
    return {current, ""};
  }
  size_t previous = current;
  triedAt = measuredBandwidth;
  tookBefore = taken;
  std::string reason = network.str() + " '" + all[current].name + "' took " +
                       milliseconds(taken) + ", " +
                       milliseconds(expectations[best]) + " are expected of '" +
                       all[best].name + "'";
  if (isOff)
    forgetNetwork();
  PolicyDecision decision = switchTo(best, input, std::move(reason));
  before = previous;
  trialReviews = 0;
  return decision;
}
