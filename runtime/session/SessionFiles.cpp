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

#include "session/files/OutputFile.h"

#include <algorithm>

using namespace mprt;

CheckpointInfo Session::describeCheckpoint() const {
  const Manifest &manifest = manifestOf();
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
      } else {
        emit(MPCOMM_EVENT_SAVED, done->path, 0, done->milliseconds);
      }
    }
}

Error Session::wait() {
  finishWriting(/*waits=*/true);
  return std::exchange(writeError, {});
}

StateKeeper &Session::keeperOf(const std::string &path, uint32_t keep) {
  std::unique_ptr<StateKeeper> &keeper = keepers[path];
  if (keeper && keeper->keep() == keep)
    return *keeper;
  // What jobs that were killed while they wrote have left.
  if (index() == 0)
    removeAbandoned(path);
  KeeperOptions options;
  options.path = path;
  options.keep = keep;
  options.resume = resumedFrom;
  options.resumed = resumed ? &*resumed : nullptr;
  options.firstStep = resumed ? resumed->step : 0;
  SharedState shared;
  shared.mine = &*state;
  for (const LoadedProgram &loaded : programs)
    shared.functions.push_back(loaded.functions);
  keeper = std::make_unique<StateKeeper>(
      std::move(options), std::move(shared), *rank,
      [this](const std::string &line) { emit(MPCOMM_EVENT_WARNING, line); });
  return *keeper;
}

/// The metadata that a caller adds, of which no key is in `own`.
static Expected<std::map<std::string, std::string>>
readMetadata(const mpcomm_save_options &options,
             const std::map<std::string, std::string> &own) {
  std::map<std::string, std::string> added;
  if (options.metadata_count && !options.metadata)
    return fail("metadata: ", options.metadata_count, " entries at null");
  for (uint32_t i = 0; i < options.metadata_count; ++i) {
    const mpcomm_text &text = options.metadata[i];
    if (!text.key || !text.value)
      return fail("metadata, entry ", i, ": its key or its value is null");
    std::string key = text.key;
    if (own.count(key) || key == "format" || key.starts_with("mpcomm."))
      return fail("metadata: '", printable(key), "' is a key of the session's");
    if (!isUtf8(key) || !isUtf8(options.metadata[i].value))
      return fail("metadata: '", printable(key),
                  "' or its value is not UTF-8");
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
  if (Error error = renewCopies())
    return failed(error);
  SaveRequest request{describeCheckpoint()};
  request.background = options.background;
  if (options.allow_nonfinite)
    request.nonFinite = NonFinitePolicy::Save;
  Expected<std::map<std::string, std::string>> added =
      readMetadata(options, metadataOf(request.info));
  Error mine = earlier ? earlier : added.error();
  if (!mine && path.empty())
    mine = fail("a path is empty");
  if (!mine && options.background && options.weights_only)
    mine = Error(MPRT_UNSUPPORTED, "weights are not saved in the background");
  for (const TableEntry &entry : table)
    if (!mine && !entry.hasValue)
      mine = Error(MPRT_NOT_READY, std::string(nameOf(entry.role)) + " '" +
                                       printable(entry.shared.name) +
                                       "' has no value yet");
  if (Error error = agree(mine))
    return error;
  request.metadata = added.take();
  uint64_t begin = nowNanoseconds();
  StateKeeper &keeper = keeperOf(path, std::max(options.keep, 1u));
  Error error = onDevice->fetchState();
  if (error.ok())
    error = options.weights_only ? keeper.writeWeights(path, request)
                                 : keeper.writeCheckpoint(request);
  if (error && error.message().empty())
    error = Error(MPRT_INVALID_ARGUMENT,
                  "another rank has an error, which it reports");
  if (error)
    return failed(error);
  double milliseconds = 1e-6 * double(nowNanoseconds() - begin);
  if (options.background) {
    // The others have nothing to write.
    writing = index() == 0 ? &keeper : nullptr;
    emit(MPCOMM_EVENT_SNAPSHOT, path, 0, milliseconds);
  } else {
    emit(MPCOMM_EVENT_SAVED, path, 0, milliseconds);
  }
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
  Expected<SafeTensors> file = SafeTensors::open(path);
  Error mine = file.error();
  if (!mine)
    mine = state->check(*file, complete);
  std::vector<std::string> differences;
  if (!mine && info) {
    Expected<CheckpointInfo> read = readCheckpointInfo(*file);
    mine = read.error();
    if (read) {
      *info = read.take();
      differences = differencesFrom(**info, manifestOf());
    }
  }
  std::string all;
  for (const std::string &difference : differences)
    all += (all.empty() ? "" : "; ") + difference;
  if (!mine && !all.empty() && !anyway)
    mine = fail(path, ": this program has ", all);
  if (Error error = agree(mine))
    return error;
  for (const std::string &difference : differences)
    emit(MPCOMM_EVENT_WARNING, path + ": this program has " + difference);
  if (Error error = agree(state->load(*file))) {
    giveUp(error);
    return error;
  }
  markLoaded(*file);
  fileMetadata = file->metadata();
  std::vector<size_t> slots = state->stateSlots();
  return failed(agree(onDevice->store(slots)));
}

Error Session::readState(const std::string &path) {
  return useFile(path, /*complete=*/false, nullptr, false);
}

Error Session::resume(const std::string &path, bool anyway) {
  std::optional<CheckpointInfo> info;
  if (Error error = useFile(path, /*complete=*/true, &info, anyway))
    return error;
  adopt(*info);
  resumed = std::move(info);
  resumedFrom = path;
  keepers.clear();
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
