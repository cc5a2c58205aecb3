//===- StateKeeper.cpp - which state is kept ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StateKeeper.h. --check-replicas 0 turns the comparison off, but for the
// one at the start.
//
//===----------------------------------------------------------------------===//

#include "train/StateKeeper.h"

#include "data/OutputFile.h"
#include "train/Checkpoint.h"
#include "train/StateSurvey.h"

using namespace mpcomm::run;

static std::string atStep(uint64_t step) {
  return "step " + std::to_string(step) + ": ";
}

/// Whether a file is a checkpoint that the run which `job` resumes has written
/// after `step` steps.
static bool isOfRun(const TrainingJob &job, const std::string &path,
                    uint64_t step) {
  Result<SafeTensors> file = SafeTensors::open(path);
  if (file.failed())
    return false;
  Result<CheckpointInfo> info = readCheckpointInfo(*file);
  auto graphOf = [](const CheckpointInfo &checkpoint) {
    return checkpoint.graph ? checkpoint.graph->digest : "";
  };
  return !info.failed() && info->step == step &&
         info->seed == job.resumed->seed &&
         graphOf(*info) == graphOf(*job.resumed);
}

StateKeeper::StateKeeper(const TrainingJob &job, Rank &rank,
                         std::function<void(const std::string &)> note)
    : job(job), rank(rank), note(std::move(note)),
      kept(job.options.checkpoint, job.options.checkpointKeep) {
  if (rank.index() == 0 && job.resumed)
    kept.resume(job.options.resume, job.firstStep,
                [&](const std::string &path, uint64_t step) {
                  return isOfRun(job, path, step);
                });
}

std::string StateKeeper::whatIsKept() const {
  const std::string &path = job.options.checkpoint;
  if (path.empty() || rank.index() != 0)
    return "";
  if (written)
    return "; " + path + " keeps the checkpoint of step " +
           std::to_string(*written);
  return "; " + describeUnchanged(path);
}

std::string StateKeeper::differenceOf(const StateSurvey &survey) const {
  if (survey.difference.empty() || job.options.checkReplicas == 0u)
    return "";
  return survey.difference +
         (survey.nonFinite.empty() ? "" : "; " + survey.nonFinite);
}

Status StateKeeper::checkStart() {
  if (Status status = rank.agree(
          rank.index() == 0 ? kept.checkNames(job.firstStep, job.lastStep,
                                              job.options.checkpointEvery)
                            : Status());
      status.failed())
    return status;
  Result<StateSurvey> survey =
      surveyState(job, rank, /*optimizer=*/true, LookFor::Differences);
  if (survey.failed())
    return survey.error();
  if (survey->difference.empty())
    return {};
  return tell("ranks start from different state: " + survey->difference +
              "; give every rank the same --weights or --resume");
}

Status StateKeeper::checkReplicas(uint64_t step) {
  Result<StateSurvey> survey =
      surveyState(job, rank, /*optimizer=*/true, LookFor::Differences);
  if (survey.failed())
    return survey.error();
  if (survey->difference.empty())
    return {};
  return tell(atStep(step) + survey->difference + whatIsKept());
}

Status StateKeeper::writeCheckpoint(uint64_t step, bool atEnd) {
  Result<StateSurvey> survey =
      surveyState(job, rank, /*optimizer=*/true, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  // Also of what --allow-nonfinite accepts.
  if (std::string difference = differenceOf(*survey); !difference.empty())
    return tell(atStep(step) + difference + whatIsKept());
  if (!survey->nonFinite.empty()) {
    std::string message = atStep(step) + survey->nonFinite +
                          "; the checkpoint is not written" + whatIsKept();
    if (atEnd || !job.options.allowNonFinite)
      return tell(message);
    note("warning: " + message);
    return {};
  }
  auto onRank0 = [&](auto action) {
    return rank.agree(rank.index() == 0 ? action() : Status());
  };
  if (Status status = onRank0([&] { return kept.prepare(step); });
      status.failed())
    return status;
  if (Status status =
          writeUnion(job.options.checkpoint, job, rank,
                     std::move(survey->tensors), describeCheckpoint(job, step));
      status.failed())
    return status;
  written = step;
  return onRank0([&] { return kept.commit(step); });
}

Status StateKeeper::writeWeights(uint64_t step) {
  Result<StateSurvey> survey =
      surveyState(job, rank, /*optimizer=*/false, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  const std::string &path = job.options.saveWeights;
  std::string wrong = differenceOf(*survey);
  if (wrong.empty())
    wrong = survey->nonFinite;
  if (!wrong.empty())
    return tell(atStep(step) + wrong + "; " + describeUnchanged(path));
  return writeUnion(
      path, job, rank, std::move(survey->tensors),
      {{"format", "pt"}, {"mpcomm.program", job.program->manifest().program}});
}
