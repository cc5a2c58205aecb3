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

#include "session/checkpoint/StateKeeper.h"

#include "session/checkpoint/Checkpoint.h"
#include "session/files/OutputFile.h"
#include "session/state/StateSurvey.h"
#include "support/Trace.h"

using namespace mprt;

static std::string atStep(uint64_t step) {
  return "step " + std::to_string(step) + ": ";
}

/// Whether a file is a checkpoint that the run which wrote `resumed` has
/// written after `step` steps.
static bool isOfRun(const CheckpointInfo &resumed, const std::string &path,
                    uint64_t step) {
  Expected<SafeTensors> file = SafeTensors::open(path);
  if (file.failed())
    return false;
  Expected<CheckpointInfo> info = readCheckpointInfo(*file);
  auto graphOf = [](const CheckpointInfo &checkpoint) {
    return checkpoint.graph ? checkpoint.graph->digest : "";
  };
  return !info.failed() && info->step == step && info->seed == resumed.seed &&
         graphOf(*info) == graphOf(resumed);
}

/// The metadata of a file.
static std::map<std::string, std::string>
fileMetadata(const SaveRequest &request) {
  std::map<std::string, std::string> all = metadataOf(request.info);
  all.insert(request.metadata.begin(), request.metadata.end());
  return all;
}

StateKeeper::StateKeeper(KeeperOptions given, SharedState state, Rank &rank,
                         std::function<void(const std::string &)> note)
    : options(std::move(given)), state(std::move(state)), rank(rank),
      note(std::move(note)), kept(options.path, options.keep) {
  if (rank.index() == 0 && options.resumed)
    kept.resume(options.resume, options.firstStep,
                [&](const std::string &path, uint64_t step) {
                  return isOfRun(*options.resumed, path, step);
                });
}

std::string StateKeeper::whatIsKept() const {
  const std::string &path = options.path;
  if (path.empty() || rank.index() != 0)
    return "";
  if (written)
    return "; " + path + " keeps the checkpoint of step " +
           std::to_string(*written);
  return "; " + describeUnchanged(path);
}

std::string StateKeeper::differenceOf(const StateSurvey &survey) const {
  if (survey.difference.empty() || !options.comparesReplicas)
    return "";
  return survey.difference +
         (survey.nonFinite.empty() ? "" : "; " + survey.nonFinite);
}

Error StateKeeper::checkStart() {
  if (Error status = rank.agree(
          rank.index() == 0 ? kept.checkNames(options.firstStep,
                                              options.lastStep, options.every)
                            : Error());
      status.failed())
    return status;
  Expected<StateSurvey> survey =
      surveyState(state, rank, /*optimizer=*/true, LookFor::Differences);
  if (survey.failed())
    return survey.error();
  if (survey->difference.empty())
    return {};
  return tell("ranks start from different state: " + survey->difference +
              "; give every rank the same --weights or --resume");
}

Error StateKeeper::checkReplicas(uint64_t step) {
  Expected<StateSurvey> survey =
      surveyState(state, rank, /*optimizer=*/true, LookFor::Differences);
  if (survey.failed())
    return survey.error();
  if (survey->difference.empty())
    return {};
  return tell(atStep(step) + survey->difference + whatIsKept());
}

Error StateKeeper::writeCheckpoint(const SaveRequest &request) {
  uint64_t step = request.info.step;
  Expected<StateSurvey> survey =
      surveyState(state, rank, /*optimizer=*/true, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  // Also of what is saved though it is not finite.
  if (std::string difference = differenceOf(*survey); !difference.empty())
    return tell(atStep(step) + difference + whatIsKept());
  if (!survey->nonFinite.empty() &&
      request.nonFinite != NonFinitePolicy::Save) {
    std::string message = atStep(step) + survey->nonFinite +
                          "; the checkpoint is not written" + whatIsKept();
    if (request.nonFinite == NonFinitePolicy::Refuse)
      return tell(message);
    note("warning: " + message);
    return {};
  }
  if (request.background) {
    Error error = snapshot.take(*state.mine, rank, std::move(survey->tensors));
    if (error.ok() && rank.index() == 0) {
      isWritten = false;
      writer = std::thread([this, request] { writeSnapshot(request); });
    }
    return error;
  }
  auto onRank0 = [&](auto action) {
    return rank.agree(rank.index() == 0 ? action() : Error());
  };
  if (Error error = onRank0([&] { return kept.prepare(step); }))
    return error;
  if (Error error =
          writeUnion(options.path, *state.mine, rank,
                     std::move(survey->tensors), fileMetadata(request)))
    return error;
  written = step;
  return onRank0([&] { return kept.commit(step); });
}

void StateKeeper::writeSnapshot(const SaveRequest &request) {
  uint64_t begin = nowNanoseconds(), step = request.info.step;
  Error error = kept.prepare(step);
  if (error.ok())
    error = snapshot.write(options.path, fileMetadata(request));
  if (error.ok()) {
    written = step;
    error = kept.commit(step);
  }
  result = {options.path, step, 1e-6 * double(nowNanoseconds() - begin), error};
  isWritten.store(true, std::memory_order_release);
}

std::optional<WrittenCheckpoint> StateKeeper::takeWritten(bool waits) {
  if (!writer.joinable() ||
      (!waits && !isWritten.load(std::memory_order_acquire)))
    return std::nullopt;
  writer.join();
  return std::move(result);
}

StateKeeper::~StateKeeper() {
  if (writer.joinable())
    writer.join();
}

Error StateKeeper::writeWeights(const std::string &path,
                                const SaveRequest &request) {
  Expected<StateSurvey> survey =
      surveyState(state, rank, /*optimizer=*/false, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  std::string wrong = differenceOf(*survey);
  if (wrong.empty() && request.nonFinite != NonFinitePolicy::Save)
    wrong = survey->nonFinite;
  if (!wrong.empty())
    return tell(atStep(request.info.step) + wrong + "; " +
                describeUnchanged(path));
  std::map<std::string, std::string> metadata = request.metadata;
  metadata["format"] = "pt";
  metadata["mpcomm.program"] = request.info.program;
  return writeUnion(path, *state.mine, rank, std::move(survey->tensors),
                    metadata);
}
