//===- Trainer.h - what one rank does -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads the state, runs the steps, evaluates, keeps checkpoints, and reports.
// All ranks take the same way through it, so that whatever one of them cannot
// do stops all of them.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_TRAIN_TRAINER_H
#define MPCOMM_RUN_TRAIN_TRAINER_H

#include "data/Sampler.h"
#include "launch/Fault.h"
#include "launch/Rank.h"
#include "launch/TrainingJob.h"
#include "report/Report.h"
#include "report/Timeline.h"
#include "train/DeviceState.h"
#include "train/StateKeeper.h"

#include <atomic>

namespace mpcomm::run {

class Trainer {
public:
  /// `position`, if not null, is told the step being worked on, for the
  /// launcher's messages.
  Trainer(TrainingJob &job, Rank &rank, const Fault &fault,
          std::atomic<uint64_t> *position)
      : job(job), rank(rank), fault(fault), position(position) {}

  /// Everything. A failure is this rank's own, or what it learned of others.
  Status run();

private:
  Status prepare();
  Status train(Report &report, StateKeeper &keeper);
  Status trainStep(uint64_t step, StepRecord &record);
  /// As a defect of memory would, in the first parameter; on the host.
  void flipBit();
  /// Of stages, each knows of its own gradients: rank 0 learns of all.
  Status gatherNonFinite(std::vector<std::string> &parameters);
  Status checkLoss(uint64_t step, double loss) const;
  /// Fails where `data` were changed under the run. All ranks call it.
  Status checkData(std::optional<Dataset> &data);
  Status checkState(uint64_t step) const;
  Status evaluate(Report &report);
  Status finish(Report &report);
  /// Writes what --trace, --timeline and --profile ask for.
  Status writeTraces();
  /// What --timeline and --profile ask for.
  Status writeSteps();
  /// Where the step that rank 0 shows, `median` there, lies on this rank's
  /// clock; and from where to where it goes on all that are shown.
  Result<std::pair<StepSpan, StepSpan>> chooseStep(const StepSpan &median);

  /// Gives `function` what `step` has of its own: samples of `data` (may be
  /// null) in the order of `order`, hyperparameters and random bits.
  Status feed(Binding &binding, Dataset *data, Sampler *order, uint64_t step);
  /// Calls `function` with its current buffers. It may still run when this
  /// returns, until `device` fetches something.
  Status call(Binding &binding);
  /// Stores hyperparameters and random seeds for `step`.
  void setScalars(Binding &binding, uint64_t step);
  std::optional<HostCost> hostCost() const;

  TrainingJob &job;
  Rank &rank;
  const Fault &fault;
  std::atomic<uint64_t> *position;
  void *arena = nullptr;
  std::optional<Sampler> sampler;
  std::optional<DeviceState> device;
  /// The step that was fed already, while the one before it ran.
  std::optional<uint64_t> fed;
  size_t lossSlot = 0;
  std::vector<std::pair<std::string, size_t>> metricSlots;
  /// What is read after each step.
  std::vector<size_t> watched;
  LossScaleWatch lossScale;
  /// When each step ran, where that is asked for.
  std::vector<StepSpan> spans;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_TRAINER_H
