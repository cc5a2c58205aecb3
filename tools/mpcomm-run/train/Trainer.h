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
#include "report/Trace.h"
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
  /// `session` has loaded the job's program. `position` is told the step being
  /// worked on, for the launcher's messages, and tells when to stop.
  Trainer(TrainingJob &job, const RunSession &session, const Fault &fault,
          RankPosition &position)
      : job(job), session(session), fault(fault), position(position),
        stopVote(session, position.stopSignal) {}

  ~Trainer() {
    (void)session(mpcomm_session_on_event, mpcomm_event_callback(nullptr),
                  static_cast<void *>(nullptr));
  }
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  /// Everything. A failure is this rank's own, or what it learned of others.
  Error run();
  /// The signal by which all ranks stopped after a step; 0: they did not.
  int stoppedBy() const { return stopped; }

private:
  /// Gives the session its values and state.
  Error prepare();
  /// Fails unless all ranks have started from the same state, and checkpoints
  /// can be written.
  Error checkStart();
  /// Begins with the plan that options name, or keeps it for `later`; watches
  /// the network.
  Error choosePlan();
  Error startToAdapt();
  /// Manifests of all plans that are loaded, by number, and which is in use.
  struct Plans {
    std::vector<Manifest> manifests;
    uint32_t current = 0;
  };
  Expected<Plans> loadedPlans() const;
  /// What the last look at the network saw, where that is written.
  Error writeMonitor();
  /// Reports `text`, and marks it in the trace.
  void note(const std::string &text);
  /// What the session tells while it runs.
  void hear(const mpcomm_event &event);

  Error train();
  Error trainStep(uint64_t step, StepRecord &record);
  Error call(uint64_t step, mpcomm_result &result);
  /// Whatever is due after `done` steps. Sets `stopped` where ranks stop.
  Error afterStep(uint64_t done);
  /// Checkpoint and comparison of replicas, where they are due.
  Error keep(uint64_t done);
  /// What is written after the last step.
  Error keepLast();
  Error save(const std::string &path, mpcomm_save_options options);
  Error compareReplicas(uint64_t done);
  /// Waits for a checkpoint that is being written. All ranks call it.
  Error finishWriting();

  Error checkLoss(uint64_t step, double loss) const;
  /// Fails where `data` were changed under the run. All ranks call it.
  Error checkData(std::optional<Dataset> &data);
  /// Calls `visit` with each tensor of the state that is here.
  Error
  visitState(const std::function<Error(const mpcomm_tensor &)> &visit) const;
  Error checkState(uint64_t step) const;
  /// As a defect of memory would, in the first parameter; on the host.
  Error flipBit() const;

  /// After `step` steps; `isLast` of all evaluations.
  Error evaluate(uint64_t step, bool isLast);
  /// Sums of this rank over the evaluation data.
  Expected<EvaluationSums> evaluateSums();

  Error finish();
  /// Writes what --trace, --timeline and --profile ask for.
  Error writeTraces();
  /// What --timeline and --profile ask for.
  Error writeSteps();
  /// Where the step that rank 0 shows, `median` there, lies on this rank's
  /// clock; and from where to where it goes on all that are shown.
  Expected<std::pair<StepSpan, StepSpan>> chooseStep(const StepSpan &median);

  TrainingJob &job;
  const RunSession &session;
  const Fault &fault;
  RankPosition &position;
  StopVote stopVote;
  std::optional<Report> report;
  int stopped = 0;
  bool isAsynchronous = false;
  std::optional<Sampler> sampler;
  std::unique_ptr<BatchReader> reader;
  /// Milliseconds that the last batch was waited for.
  double dataWait = 0;
  /// The step whose batch the session was given while the one before it ran.
  std::optional<uint64_t> fed;
  /// Steps that left the parameters alone, where the program may do so.
  std::optional<uint64_t> skipped;
  /// The plan to go on with later, by its number.
  std::optional<uint32_t> later;
  /// Step of the checkpoint that was last begun, and of that which is there.
  uint64_t begun = 0;
  std::optional<uint64_t> saved;
  struct Closer {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> monitor;
  /// When each step ran, where that is asked for.
  std::vector<StepSpan> spans;
  /// What was said while steps ran, for a trace.
  std::vector<TraceMark> marks;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_TRAIN_TRAINER_H
