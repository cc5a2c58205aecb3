//===- StateKeeper.cpp - which state is kept ------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See StateKeeper.h.
//
//===----------------------------------------------------------------------===//

#include "session/checkpoint/StateKeeper.h"

#include "files/Checkpoint.h"
#include "files/OutputFile.h"
#include "files/StateFile.h"
#include "session/checkpoint/Writers.h"
#include "session/state/StateSurvey.h"
#include "support/Trace.h"

#include <system_error>
#include <utility>

using namespace mprt;

static std::string atStep(uint64_t step) {
  return "step " + std::to_string(step) + ": ";
}

/// Whether a file is a checkpoint that the run which wrote `resumed` has
/// written after `step` steps.
static bool isOfRun(const CheckpointInfo &resumed, const std::string &path,
                    uint64_t step) {
  Expected<StateFile> file = StateFile::open(path);
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

StateKeeper::StateKeeper(KeeperOptions given, Rank &rank,
                         std::function<void(const std::string &)> note)
    : options(std::move(given)), rank(rank), note(std::move(note)),
      kept(options.path), copied(nowNanoseconds()) {
  if (rank.index() == 0)
    removeUnusedShards(options.path);
}

void StateKeeper::resume(const std::string &file, const CheckpointInfo &info) {
  if (rank.index() == 0)
    kept.resume(file, info.step, [&](const std::string &path, uint64_t step) {
      return isOfRun(info, path, step);
    });
}

std::string StateKeeper::whatIsKept() const {
  const std::string &path = options.path;
  if (rank.index() != 0)
    return "";
  if (written)
    return "; " + path + " keeps the checkpoint of step " +
           std::to_string(*written);
  return "; " + describeUnchanged(path);
}

/// Where replicas differ and that is looked for, what the failure says.
static std::string differenceOf(const StateSurvey &survey,
                                const SaveRequest &request) {
  if (survey.difference.empty() || !request.comparesReplicas)
    return "";
  return survey.difference +
         (survey.nonFinite.empty() ? "" : "; " + survey.nonFinite);
}

Expected<bool> StateKeeper::writeCheckpoint(const SharedState &state,
                                            const SaveRequest &request) {
  uint64_t step = request.info.step;
  std::vector<SharedTensor> tensors =
      unionOfState(state.functions, /*optimizer=*/true);
  assignWriters(tensors);
  Expected<StateSurvey> survey =
      surveyState(std::move(tensors), *state.mine, rank, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  // Also of what is saved though it is not finite.
  if (std::string difference = differenceOf(*survey, request);
      !difference.empty())
    return tell(atStep(step) + difference + whatIsKept());
  if (!survey->nonFinite.empty() &&
      request.nonFinite != NonFinitePolicy::Save) {
    std::string message = atStep(step) + survey->nonFinite +
                          "; the checkpoint is not written" + whatIsKept();
    if (request.nonFinite == NonFinitePolicy::Refuse)
      return tell(message);
    note(message);
    return false;
  }
  shards.emplace(Shards::plan(options.path, std::move(survey->tensors),
                              fileMetadata(request), rank));
  if (Error error = request.background ? startWriting(state, request)
                                       : writeNow(state, request))
    return error;
  return true;
}

Error StateKeeper::writeNow(const SharedState &state,
                            const SaveRequest &request) {
  uint64_t step = request.info.step;
  copied = nowNanoseconds();
  auto onRank0 = [&](auto action) {
    return rank.agree(rank.index() == 0 ? action() : Error());
  };
  if (Error error = onRank0([&] { return kept.prepare(step, request.keep); }))
    return error;
  if (Error error = shards->write(*state.mine, rank)) {
    if (rank.index() == 0)
      removeUnusedShards(options.path);
    return error;
  }
  return onRank0([&] { return commit(step, request.keep); });
}

Error StateKeeper::commit(uint64_t step, uint64_t keep) {
  written = step;
  if (Error error = kept.commit(step, keep))
    return error;
  removeUnusedShards(options.path);
  return {};
}

Error StateKeeper::startWriting(const SharedState &state,
                                const SaveRequest &request) {
  if (Error error = rank.agree(shards->copy(*state.mine, *options.memory)))
    return error;
  isWritten = isLeft = isHurried = false;
  // The next copy is likely due as long after this one as this after the last.
  uint64_t now = nowNanoseconds();
  // A rank that is left, and hurries, waits for those that do not know.
  double pace = std::min(1e-9 * double(now - std::exchange(copied, now)),
                         options.timeoutSeconds) /
                2;
  try {
    writer = std::thread([this, step = request.info.step, keep = request.keep,
                          pace] { writeCopy(step, keep, pace); });
  } catch (const std::system_error &error) {
    return rank.agree(
        fail(options.path, ": no thread to write it: ", error.what()));
  }
  Error error = rank.agree({});
  if (error)
    leave();
  return error;
}

void StateKeeper::writeCopy(uint64_t step, uint64_t keep, double paceSeconds) {
  uint64_t begin = nowNanoseconds();
  bool isFirst = rank.index() == 0;
  Error error;
  try {
    if (isFirst)
      error = kept.prepare(step, keep);
    if (error.ok())
      error = shards->writeCopy(options.timeoutSeconds, isLeft,
                                Pace(paceSeconds, isHurried));
    if (error.ok() && isFirst)
      error = commit(step, keep);
  } catch (const std::exception &exception) {
    error = makeError(MPRT_INTERNAL, options.path, ": ", exception.what());
  }
  result = {options.path, step, 1e-6 * double(nowNanoseconds() - begin), error};
  isWritten.store(true, std::memory_order_release);
}

std::optional<WrittenCheckpoint> StateKeeper::takeWritten(bool waits) {
  if (!writer.joinable() ||
      (!waits && !isWritten.load(std::memory_order_acquire)))
    return std::nullopt;
  isHurried = true;
  writer.join();
  return std::move(result);
}

StateKeeper::~StateKeeper() {
  leave();
  if (writer.joinable())
    writer.join();
}

Error StateKeeper::writeWeights(const SharedState &state,
                                const std::string &path,
                                const SaveRequest &request) {
  Expected<StateSurvey> survey =
      surveyState(unionOfState(state.functions, /*optimizer=*/false),
                  *state.mine, rank, LookFor::NonFiniteToo);
  if (survey.failed())
    return survey.error();
  std::string wrong = differenceOf(*survey, request);
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
