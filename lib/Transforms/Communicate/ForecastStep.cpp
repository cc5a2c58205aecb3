//===- ForecastStep.cpp - what a step takes on other links ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans are compared while a job runs, where there is no simulator: each takes
// along what it was simulated to take, by the bandwidth of the link.
//
//===----------------------------------------------------------------------===//

#include "Communicate/Model.h"
#include "mpcomm/Analysis/StepSignature.h"
#include "mpcomm/Dialect/MPRT/IR/ForecastAttr.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Scheduling/Simulator/Simulator.h"
#include "mpcomm/Transforms/Passes.h"
#include <cmath>

namespace mpcomm {
#define GEN_PASS_DEF_FORECASTSTEPPASS
#include "mpcomm/Transforms/Passes.h.inc"
} // namespace mpcomm

using namespace mlir;
using namespace mpcomm;

/// Bandwidths are those of the cluster times 2^(k/2), k from 12 down to -20:
/// from a link within a machine to one of a few megabits.
static constexpr int kFastest = 12, kSlowest = -20;

/// What `spans` cover together.
static double countCovered(SmallVectorImpl<std::pair<double, double>> &spans) {
  llvm::sort(spans);
  double covered = 0, until = 0;
  for (auto [begin, end] : spans) {
    covered += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return covered;
}

namespace {

/// A problem of which one link can be made slower.
class Forecast {
public:
  Forecast(const ProgramModel &program, const CostModel &model)
      : problem(program.buildSimProblem(model)) {
    auto numLevels = static_cast<int>(model.getCluster().links.size());
    for (auto [c, rank] : llvm::enumerate(problem.classes))
      for (auto [k, collective] : llvm::enumerate(rank.collectives)) {
        if (collective.link >= 0)
          level = std::max(level, collective.link % numLevels);
        auto op = program.getStep(c).getCollectives()[k].op;
        isMessage.push_back(op.getCollectiveKind() == CollectiveKind::Send ||
                            op.getCollectiveKind() == CollectiveKind::Recv);
      }
    levels = numLevels;
  }

  /// The outermost level that anything travels over; negative: none.
  int getLevel() const { return level; }

  /// Seconds of the step, and for which of them a rank has any collective under
  /// way, at the most, on a link that takes `factor` times as long; negative on
  /// a deadlock.
  std::pair<double, double> at(double factor) const {
    SimProblem slower = problem;
    for (SimProgram &rank : slower.classes)
      for (SimCollective &collective : rank.collectives)
        if (collective.link >= 0 && collective.link % levels == level)
          collective.transfer *= factor;
    SimResult result = simulate(slower);
    if (!result.error.empty())
      return {-1, -1};
    double communication = 0;
    size_t number = 0;
    for (const SimClassResult &rank : result.classes) {
      SmallVector<std::pair<double, double>> spans;
      // Of a message a rank cannot tell how long it waited for the other.
      for (const SimCollectiveResult &collective : rank.collectives)
        if (!isMessage[number++])
          spans.push_back({collective.start, collective.end});
      communication = std::max(communication, countCovered(spans));
    }
    return {result.seconds, communication};
  }

  double getComputeSeconds() const {
    double seconds = 0;
    for (const SimClassResult &rank : simulate(problem).classes)
      seconds = std::max(seconds, rank.compute);
    return seconds;
  }

private:
  SimProblem problem;
  /// By class, then by its collectives.
  std::vector<bool> isMessage;
  int level = -1, levels = 1;
};

struct ForecastStep : mpcomm::impl::ForecastStepPassBase<ForecastStep> {
  using ForecastStepPassBase::ForecastStepPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Operation *step = module.lookupSymbol(kTrainStep);
    FailureOr<CostModel> model = getCostModel(module, cluster, profileFile);
    if (failed(model))
      return signalPassFailure();
    std::string why; // said by mpcomm-explain-communication
    std::optional<ProgramModel> program;
    if (step)
      program = getProgramModel(step, *model, why);
    if (!program)
      return;
    Forecast forecast(*program, *model);
    if (forecast.getLevel() < 0)
      return;
    const LinkLevel &link = model->getCluster().links[forecast.getLevel()];
    SmallVector<double> bandwidths, steps, communication;
    for (int k = kFastest; k >= kSlowest; --k) {
      double factor = std::exp2(-0.5 * k);
      auto [seconds, busy] = forecast.at(factor);
      // A deadlock, which others report; or nothing that a rank could time.
      if (seconds < 0 || busy <= 0)
        return;
      // Rising, so that a time tells of a bandwidth.
      if (!communication.empty())
        busy = std::max(busy, communication.back() * (1 + 1e-6));
      bandwidths.push_back(link.bandwidth / factor);
      steps.push_back(seconds);
      communication.push_back(busy);
    }
    Builder builder(module.getContext());
    auto list = [&](StringRef name, ArrayRef<double> values) {
      return builder.getNamedAttr(name, builder.getDenseF64ArrayAttr(values));
    };
    module->setAttr(
        mprt::kForecastAttr,
        builder.getDictionaryAttr(
            {builder.getNamedAttr(
                 mprt::kForecastCluster,
                 builder.getStringAttr(toJson(model->getCluster()))),
             builder.getNamedAttr(mprt::kForecastLink,
                                  builder.getStringAttr(link.name)),
             builder.getNamedAttr(
                 mprt::kForecastCompute,
                 builder.getF64FloatAttr(forecast.getComputeSeconds())),
             list(mprt::kForecastBandwidth, bandwidths),
             list(mprt::kForecastStep, steps),
             list(mprt::kForecastCommunication, communication)}));
  }
};

} // namespace
