//===- SessionFiles.cpp - checkpoints of a session ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// StateKeeper.h writes; here is what a checkpoint says of its session, and how
// a session goes on from one.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "files/Hash.h"
#include "files/StateFile.h"
#include "session/state/StateSurvey.h"
#include "support/Trace.h"

#include <algorithm>

using namespace mprt;

CheckpointInfo Session::describeCheckpoint() const {
  const Manifest &manifest = ownManifest();
  CheckpointInfo info;
  info.program = manifest.program;
  info.graph = manifest.graph;
  info.step = steps;
  info.seed = seed;
  for (const ManifestFunction *function : manifest.findAll("train_step"))
    for (const ManifestArgument &argument : function->arguments) {
      if (argument.role != Role::Hyperparameter)
        continue;
      if (argument.name != "lr") {
        info.hyperparameters[argument.name] = hyperparameter(argument, steps);
        continue;
      }
      LearningRate constant;
      constant.base = hyperparameter(argument, steps);
      const LearningRate &rate =
          schedule && !values.count("lr") ? *schedule : constant;
      info.lr = rate.base;
      info.lrSchedule = rate.kind;
      info.lrWarmup = rate.warmup;
      info.lrTotal = rate.total;
    }
  return info;
}

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

void Session::finishWriting(bool waits) {
  if (writing)
    if (std::optional<WrittenCheckpoint> done = writing->takeWritten(waits)) {
      writing = nullptr;
      if (done->error) {
        writeError = done->error;
        emit(MPCOMM_EVENT_WARNING, done->error.message());
      } else if (index() == 0) { // of the others, a shard
        emit(MPCOMM_EVENT_SAVED, done->path, 0, done->milliseconds);
      }
    }
}

Error Session::wait() {
  finishWriting(/*waits=*/true);
  return std::exchange(writeError, {});
}

SharedState Session::sharedState() const {
  SharedState shared;
  shared.mine = &*state;
  for (const LoadedProgram &loaded : programs)
    shared.functions.push_back(loaded.functions);
  return shared;
}

Expected<StateKeeper *> Session::keeperOf(const std::string &path,
                                          uint32_t keep, Error mine) {
  std::string target = resolve(path);
  if (!mine && path.empty())
    mine = fail("a path is empty");
  std::optional<OutputLock> lock;
  if (!mine && index() == 0 && !saved.count(target)) {
    Expected<OutputLock> taken = OutputLock::take(path);
    mine = taken.error();
    if (taken)
      lock.emplace(taken.take());
  }
  if (Error error = agree(mine))
    return error;
  SavedPath &place = saved[target];
  if (place.keeper)
    return place.keeper.get();
  if (lock)
    place.lock.emplace(std::move(*lock));
  // What jobs that were killed while they wrote have left.
  if (index() == 0)
    removeAbandoned(target);
  place.keeper = std::make_unique<StateKeeper>(
      KeeperOptions{std::filesystem::absolute(path), timeout, copies}, *rank,
      [this](const std::string &line) { emit(MPCOMM_EVENT_WARNING, line); });
  // Who keeps one leaves the others to whoever wrote them.
  if (resumed && keep > 1)
    place.keeper->resume(resumedFrom, *resumed);
  return place.keeper.get();
}

Error Session::planSaves(const std::string &path,
                         const mpcomm_save_plan &plan) {
  if (Error error = checkReady())
    return error;
  Expected<StateKeeper *> keeper = keeperOf(path, plan.keep, {});
  if (!keeper)
    return keeper.error();
  return agree((*keeper)->checkNames(steps, plan.last, plan.every,
                                     std::max(plan.keep, 1u)));
}

Error Session::compareReplicas() {
  if (Error error = checkReady())
    return error;
  if (Error error = applyPending())
    return error;
  if (Error error = renewCopies())
    return callFailed(error);
  if (Error error = onDevice->fetchState())
    return callFailed(error);
  if (Error error = agree({}))
    return error;
  SharedState shared = sharedState();
  Expected<StateSurvey> survey =
      surveyState(unionOfState(shared.functions, /*optimizer=*/true),
                  *shared.mine, *rank, LookFor::Differences);
  if (!survey)
    return failed(survey.error());
  if (survey->difference.empty())
    return {};
  return index() == 0 ? Error(MPRT_MISMATCH, survey->difference)
                      : Error::elsewhereOn(0);
}

/// The metadata that a caller adds, of which no key is in `own`.
static Expected<std::map<std::string, std::string>>
readMetadata(const mpcomm_save_options &options,
             const std::map<std::string, std::string> &own) {
  std::map<std::string, std::string> added;
  if (options.metadata_count && !options.metadata)
    return fail("options.metadata is null, but options.metadata_count is ",
                options.metadata_count);
  for (uint32_t i = 0; i < options.metadata_count; ++i) {
    const mpcomm_text &text = options.metadata[i];
    if (!text.key || !text.value)
      return fail("metadata, entry ", i, ": its key or its value is null");
    std::string key = text.key;
    if (own.count(key) || key == "format" || key.starts_with("mpcomm."))
      return fail("metadata: '", printable(key), "' is a key of the session's");
    if (!isUtf8(key) || !isUtf8(options.metadata[i].value))
      return fail("metadata: '", printable(key), "' or its value is not UTF-8");
    if (!added.emplace(key, text.value).second)
      return fail("metadata: '", printable(key), "' is given twice");
  }
  return added;
}

Error Session::save(const std::string &path,
                    const mpcomm_save_options &options) {
  if (Error error = checkReady())
    return error;
  Error earlier = wait();
  if (Error error = applyPending())
    return error;
  if (Error error = renewCopies())
    return callFailed(error);
  SaveRequest request{describeCheckpoint()};
  request.background = options.background;
  request.keep = std::max(options.keep, 1u);
  request.comparesReplicas = !options.allow_difference;
  if (options.allow_nonfinite)
    request.nonFinite = NonFinitePolicy::Save;
  else if (options.skip_nonfinite)
    request.nonFinite = NonFinitePolicy::Skip;
  Expected<std::map<std::string, std::string>> added =
      readMetadata(options, metadataOf(request.info));
  Error mine = earlier ? earlier : added.error();
  if (!mine && options.weights_only &&
      (options.background || options.skip_nonfinite))
    mine = Error(MPRT_UNSUPPORTED,
                 options.background ? "weights are not saved in the background"
                                    : "weights that are saved are not skipped");
  for (const TableEntry &entry : table)
    if (!mine && !entry.hasValue)
      mine = Error(MPRT_NOT_READY, std::string(nameOf(entry.role)) + " '" +
                                       printable(entry.shared.name) +
                                       "' has no value yet");
  Expected<StateKeeper *> keeper = keeperOf(path, options.keep, mine);
  if (!keeper)
    return keeper.error();
  if (Error error = compare(steps, [](size_t rank, uint64_t its, uint64_t of0) {
        return fail("rank ", rank, " saves after step ", its,
                    ", rank 0 after step ", of0);
      }))
    return error;
  request.metadata = added.take();
  std::string local;
  for (const TableEntry &entry : table)
    if (!options.weights_only && entry.isOwn)
      local += (local.empty() ? "" : "\n") + entry.shared.name;
  if (!local.empty())
    request.metadata[localKey] = local;
  uint64_t begin = nowNanoseconds();
  if (Error error = onDevice->fetchState())
    return callFailed(error);
  Expected<bool> isWritten = true;
  if (Error error = agree({}))
    isWritten = error;
  else if (!options.weights_only)
    isWritten = (*keeper)->writeCheckpoint(sharedState(), request);
  else if (Error error = (*keeper)->writeWeights(sharedState(), path, request))
    isWritten = error;
  if (!isWritten)
    return failed(isWritten.error());
  if (!*isWritten)
    return {};
  if (options.background)
    writing = *keeper;
  emit(options.background ? MPCOMM_EVENT_SNAPSHOT : MPCOMM_EVENT_SAVED, path, 0,
       1e-6 * double(nowNanoseconds() - begin));
  return {};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

void Session::adopt(const CheckpointInfo &info) {
  steps = info.step;
  if (!seedIsSet)
    seed = info.seed;
  for (const ManifestArgument *argument : hyperparameters())
    if (auto kept = info.hyperparameters.find(argument->name);
        kept != info.hyperparameters.end() &&
        !valuesSet.count(argument->name) &&
        isStorable(argument->type, kept->second))
      values[argument->name] = kept->second;
  if (!info.lr || valuesSet.count("lr"))
    return;
  LearningRate rate;
  rate.base = *info.lr;
  rate.kind = info.lrSchedule.value_or(DecayKind::Constant);
  rate.warmup = info.lrWarmup.value_or(0);
  rate.total = info.lrTotal.value_or(0);
  schedule = rate;
  values.erase("lr");
}

Error Session::useFile(const std::string &path, bool complete,
                       std::optional<CheckpointInfo> *info, bool anyway) {
  if (Error error = checkReady())
    return error;
  finishWriting(/*waits=*/true);
  // The file may be the one that was being written.
  if (Error error = agree({}))
    return error;
  Expected<StateFile> file = StateFile::open(path);
  Error mine = file.error();
  if (!mine)
    mine = state->check(*file, complete);
  std::vector<std::string> differences;
  if (!mine && info) {
    Expected<CheckpointInfo> read = readCheckpointInfo(*file);
    mine = read.error();
    if (read) {
      *info = read.take();
      differences = differencesFrom(**info, ownManifest());
    }
  }
  std::string all;
  for (const std::string &difference : differences)
    all += (all.empty() ? "" : "; ") + difference;
  if (!mine && !all.empty() && !anyway)
    mine = fail(path, ": this program has ", all);
  if (Error error = agree(mine))
    return error;
  if (Error error =
          compare(file->digest(), [&](size_t rank, uint64_t its, uint64_t of0) {
            return fail(path, ": rank ", rank,
                        " reads another file than rank 0, whose header has "
                        "checksum ",
                        hexOf(its), " where rank 0's has ", hexOf(of0));
          }))
    return error;
  for (const std::string &difference : differences)
    emit(MPCOMM_EVENT_WARNING, path + ": this program has " + difference);
  // A file of weights leaves the optimizer's state as it is.
  if (!complete)
    if (Error error = applyPending())
      return error;
  hasPending = false;
  if (Error error = agree(state->load(*file))) {
    giveUp(error);
    return error;
  }
  markLoaded(*file);
  fileMetadata = file->metadata();
  std::vector<size_t> slots = state->stateSlots();
  if (Error error = onDevice->store(slots))
    return callFailed(error);
  return agree({});
}

Error Session::readState(const std::string &path) {
  return useFile(path, /*complete=*/false, nullptr, false);
}

Error Session::resume(const std::string &path, bool anyway) {
  std::optional<CheckpointInfo> info;
  if (Error error = useFile(path, /*complete=*/true, &info, anyway))
    return error;
  adopt(*info);
  for (LoadedProgram &loaded : programs)
    loaded.freshAt = steps;
  resumed = std::move(info);
  resumedFrom = path;
  for (auto &[target, to] : saved)
    to.keeper->resume(path, *resumed);
  emit(MPCOMM_EVENT_RESUMED, path);
  return {};
}

Error Session::metadata(const std::string &key, const char *&value) const {
  auto found = fileMetadata.find(key);
  if (found == fileMetadata.end())
    return makeError(MPRT_NOT_FOUND, "no metadata '", printable(key),
                     "' in a file that was read");
  value = found->second.c_str();
  return {};
}
