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

#include "data/BatchReader.h"
#include "data/Sampler.h"
#include "launch/Fault.h"
#include "launch/Launcher.h"
#include "launch/TrainingJob.h"
#include "report/Report.h"
#include "report/Timeline.h"
#include "session/Rank.h"
#include "session/Stepper.h"
#include "session/checkpoint/StateKeeper.h"
#include "train/StopVote.h"

#include <memory>

namespace mpcomm::run {

/// What one rank has counted of the samples that are evaluated. Losses and
/// metrics are sums over samples.
struct EvaluationSums {
  double loss = 0;
  uint64_t hasLoss = 0, labels = 0, correct = 0;
  std::vector<double> metrics;
};

class Trainer {
public:
  /// `position` is told the step being worked on, for the launcher's messages,
  /// and tells when to stop.
  Trainer(TrainingJob &job, Rank &rank, const Fault &fault,
          RankPosition &position)
      : job(job), rank(rank), fault(fault), position(position),
        stopVote(rank, position.stopSignal) {}

  /// Everything. A failure is this rank's own, or what it learned of others.
  Error run();
  /// The signal by which all ranks stopped after a step; 0: they did not.
  int stoppedBy() const { return stopped; }

private:
  Error prepare();
  Error train(Report &report, StateKeeper &keeper);
  Error trainStep(uint64_t step, StepRecord &record);
  /// Whatever is due after `done` steps. Sets `stopped` where ranks stop.
  Error afterStep(Report &report, StateKeeper &keeper, uint64_t done);
  /// Checkpoint and comparison of replicas, where they are due.
  Error keep(StateKeeper &keeper, uint64_t done);
  /// What is written after the last step.
  Error keepLast(StateKeeper &keeper);
  SaveRequest requestFor(uint64_t step) const;
  /// Waits for a checkpoint that is being written. All ranks call it.
  Error finishWriting(StateKeeper &keeper);
  /// As a defect of memory would, in the first parameter; on the host.
  void flipBit();
  Error checkLoss(uint64_t step, double loss) const;
  /// Fails where `data` were changed under the run. All ranks call it.
  Error checkData(std::optional<Dataset> &data);
  Error checkState(uint64_t step) const;
  /// After `step` steps; `isLast` of all evaluations.
  Error evaluate(Report &report, uint64_t step, bool isLast);
  /// Sums of this rank over the evaluation data.
  Expected<EvaluationSums> evaluateSums();
  Error finish(Report &report);
  /// Writes what --trace, --timeline and --profile ask for.
  Error writeTraces();
  /// What --timeline and --profile ask for.
  Error writeSteps();
  /// Where the step that rank 0 shows, `median` there, lies on this rank's
  /// clock; and from where to where it goes on all that are shown.
  Expected<std::pair<StepSpan, StepSpan>> chooseStep(const StepSpan &median);

  /// Gives `function` what `step` has of its own: samples from `reader` (may be
  /// null), hyperparameters and random bits.
  Error feed(Binding &binding, BatchReader *reader, uint64_t step);
  /// Calls `function` with its current buffers. It may still run when this
  /// returns, until `device` fetches something.
  Error call(Binding &binding);
  std::optional<HostCost> hostCost() const;

  TrainingJob &job;
  Rank &rank;
  const Fault &fault;
  RankPosition &position;
  StopVote stopVote;
  int stopped = 0;
  std::optional<Sampler> sampler;
  std::unique_ptr<BatchReader> reader;
  /// Milliseconds that the last batch was waited for.
  double dataWait = 0;
  std::optional<DeviceState> device;
  /// The step that was fed already, while the one before it ran.
  std::optional<uint64_t> fed;
  std::optional<Stepper> stepper;
  /// When each step ran, where that is asked for.
  std::vector<StepSpan> spans;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_TRAINER_H
