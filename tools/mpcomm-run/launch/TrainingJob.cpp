//===- TrainingJob.cpp - everything that is known before the first step ---===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checks run in the order in which a user would make sense of their
// messages: ranks, functions, weights, hyperparameters (a checkpoint knows
// those, too), data, steps.
//
//===----------------------------------------------------------------------===//

#include "launch/TrainingJob.h"

#include "data/Files.h"
#include "data/Sampler.h"
#include "files/Hyperparameters.h"
#include "files/OutputFile.h"
#include "train/Resume.h"

#include <algorithm>
#include <sstream>

using namespace mpcomm::run;

namespace {

Error chooseFunctions(TrainingJob &job) {
  const Manifest &manifest = job.program->manifest();
  const RunOptions &options = job.options;
  bool trains = !(options.steps == 0u || options.epochs == 0u);
  if (trains) {
    job.trainers = manifest.findAll("train_step");
    if (job.trainers.empty())
      return fail(job.program->path(), ": no function 'train_step'; --steps 0 "
                                       "--evaluate evaluates only");
    for (const ManifestFunction *function : job.trainers)
      if (!function->resultOf(Role::Loss))
        return fail(job.program->path(),
                    ": function 'train_step' has no result of role loss",
                    function->coordinates.empty()
                        ? ""
                        : " (entry '" + printable(function->entry) + "')");
  }
  if (options.evaluate) {
    job.evaluators = manifest.findAll("evaluate");
    if (job.evaluators.empty())
      return fail(job.program->path(),
                  ": no function 'evaluate', which --evaluate needs");
    if (batchSizeOf(job.evaluators) == 0)
      return fail(job.program->path(), ": function 'evaluate' takes no batch");
  }
  if (job.trainers.empty() && job.evaluators.empty())
    return fail("nothing to do: --steps 0 without --evaluate");
  std::vector<const char *> names;
  if (!job.trainers.empty())
    names.push_back("train_step");
  if (!job.evaluators.empty())
    names.push_back("evaluate");
  return check(mpcomm_program_select, job.program->handle(), names.data(),
               uint32_t(names.size()));
}

/// Those of all ranks.
std::vector<const ManifestFunction *> functionsOf(const TrainingJob &job) {
  std::vector<const ManifestFunction *> functions = job.trainers;
  functions.insert(functions.end(), job.evaluators.begin(),
                   job.evaluators.end());
  return functions;
}

/// Every hyperparameter has a value, and every value given is one of the
/// program's, and fits its type.
Error checkHyperparameters(TrainingJob &job) {
  const RunOptions &options = job.options;
  std::vector<const ManifestArgument *> known;
  std::map<std::string, bool> hasDefault;
  for (const ManifestFunction *function : functionsOf(job))
    for (const ManifestArgument &argument : function->arguments)
      if (argument.role == Role::Hyperparameter) {
        known.push_back(&argument);
        hasDefault[argument.name] |= argument.defaultValue.has_value();
      }
  std::map<std::string, double> given = options.hyperparameters;
  // What is only evaluated needs none.
  bool trains = !job.trainers.empty();
  if (options.lr && (trains || hasDefault.count("lr")))
    given["lr"] = *options.lr;
  for (const auto &[name, value] : given)
    if (Error error = checkHyperparameter(known, name, value))
      return error;
  bool shapesLr =
      options.lrWarmup.value_or(0) ||
      options.lrSchedule.value_or(DecayKind::Constant) != DecayKind::Constant;
  if (trains && shapesLr)
    if (Error error = checkHyperparameter(known, "lr", 0))
      return error;
  for (const auto &[name, has] : hasDefault)
    if (!has && !given.count(name))
      return fail("hyperparameter '", printable(name),
                  "' has no default; --set ", printable(name), "=X gives one");
  return {};
}

/// Checks the weights, or the checkpoint, for each rank's state.
Error checkState(TrainingJob &job) {
  bool resumes = !job.options.resume.empty();
  const std::string &path = resumes ? job.options.resume : job.options.weights;
  Error error = check(mpcomm_program_check_state, job.program->handle(),
                      path.empty() ? nullptr : path.c_str(), int32_t(!resumes));
  return error.status() == MPRT_NOT_READY
             ? fail(error.message(),
                    ": --weights FILE or --resume FILE gives them")
             : error;
}

/// What the options leave open goes on as in the run that is resumed; where
/// they say something else, they are right, and the user is told.
Error adoptCheckpoint(TrainingJob &job) {
  RunOptions &options = job.options;
  if (options.resume.empty())
    return {};
  Expected<StateFile> file = StateFile::open(options.resume);
  if (file.failed())
    return file.error();
  Expected<CheckpointInfo> info = readCheckpointInfo(*file);
  if (info.failed())
    return info.error();
  job.resumed = info.take();
  Expected<DataRecord> record = readDataRecord(*file);
  if (record.failed())
    return record.error();
  job.resumedData = record.take();
  job.checkpoint.emplace(file.take());
  auto adopt = [&](const std::string &name, auto &option, const auto &kept,
                   auto text) {
    if (!kept || (option && *option == *kept))
      return;
    if (option)
      job.warnings.push_back(options.resume + ": written with " + name + " " +
                             text(*kept) + ", going on with " + text(*option));
    else
      option = kept;
  };
  auto number = [](auto value) {
    std::ostringstream stream;
    stream << value;
    return stream.str();
  };
  for (const ManifestFunction *function : functionsOf(job))
    for (const ManifestArgument &argument : function->arguments) {
      const std::string &name = argument.name;
      if (argument.role != Role::Hyperparameter || name == "lr")
        continue;
      auto &set = options.hyperparameters;
      auto given = set.find(name),
           kept = job.resumed->hyperparameters.find(name);
      if (kept == job.resumed->hyperparameters.end())
        continue;
      std::optional<double> option;
      if (given != set.end())
        option = given->second;
      adopt(printable(name), option, std::optional<double>(kept->second),
            number);
      set[name] = *option;
    }
  if (!job.learningRateArgument())
    return {};
  // --set lr= is --lr.
  if (auto set = options.hyperparameters.find("lr");
      set != options.hyperparameters.end()) {
    options.lr = set->second;
    options.hyperparameters.erase(set);
  }
  adopt("--lr", options.lr, job.resumed->lr, number);
  adopt("--lr-warmup", options.lrWarmup, job.resumed->lrWarmup, number);
  adopt("--lr-schedule", options.lrSchedule, job.resumed->lrSchedule,
        [](DecayKind kind) { return std::string(nameOf(kind)); });
  return {};
}

bool areSameFiles(const DataFiles &a, const DataFiles &b) {
  return a.areTokens == b.areTokens &&
         std::equal(a.paths.begin(), a.paths.end(), b.paths.begin(),
                    b.paths.end(), [](const auto &x, const auto &y) {
                      return x == y || areSameFile(fileOf(x), fileOf(y));
                    });
}

Error openData(TrainingJob &job) {
  const RunOptions &options = job.options;
  std::vector<std::string> names;
  for (const ManifestFunction &function : job.program->manifest().functions)
    for (const ManifestArgument &argument : function.arguments)
      if (argument.role == Role::Batch &&
          std::find(names.begin(), names.end(), argument.name) == names.end())
        names.push_back(argument.name);
  auto open = [&](const DataFiles &files,
                  const std::vector<const ManifestFunction *> &functions,
                  const char *option,
                  std::optional<Dataset> &dataset) -> Error {
    const std::string &name = functions[0]->name;
    if (files.empty())
      return fail("function '", name, "' takes a batch: ", option,
                  " FILE gives the samples");
    Expected<Dataset> opened = Dataset::open(files, options.format, functions);
    if (opened.failed())
      return opened.error();
    dataset.emplace(opened.take());
    if (Error error = dataset->checkArguments(names))
      return error;
    bool trains = &dataset == &job.data;
    uint64_t batch = batchSizeOf(functions), global = batch * job.dataRanks;
    // Each sample is evaluated, however few there are.
    bool fills = trains && options.format.lastBatch == LastBatch::Drop;
    if (dataset->samples() < (fills ? global : 1))
      return fail(dataset->name(), ": ", dataset->samples(),
                  " samples, but one step of '", name, "' takes ", global, " (",
                  job.dataRanks,
                  job.dataRanks == job.ranks ? " ranks of " : " data ranks of ",
                  batch, ")");
    bool isKnown =
        !trains && job.data && areSameFiles(files, job.data->files());
    return dataset->validate(options.allowNonFinite,
                             isKnown ? &*job.data : nullptr);
  };
  if (batchSizeOf(job.trainers) > 0)
    if (Error error = open(options.data, job.trainers, "--data", job.data))
      return error;
  if (job.evaluators.empty())
    return {};
  return open(options.evalData.empty() ? options.data : options.evalData,
              job.evaluators, "--eval-data", job.evalData);
}

Error planSteps(TrainingJob &job) {
  const RunOptions &options = job.options;
  job.seed = options.seed.value_or(0);
  if (!options.resume.empty()) {
    const std::optional<CheckpointInfo> &info = job.resumed;
    job.seed = options.seed.value_or(info->seed);
    job.firstStep = info->step;
  }
  // What is only evaluated may well be other data, or another loss.
  if (job.trainers.empty()) {
    job.lastStep = job.firstStep;
    return {};
  }
  if (!options.resume.empty()) {
    std::string differences;
    for (const std::string &difference : differencesFrom(*job.resumed, job))
      differences += (differences.empty() ? "" : "; ") + difference;
    if (!differences.empty() && !options.resumeAnyway)
      return fail(options.resume, ": this run has ", differences,
                  "; --resume-anyway goes on");
    if (!differences.empty())
      job.warnings.push_back(options.resume + ": this run has " + differences);
    std::optional<uint64_t> before = job.resumedData.globalBatch;
    if (job.data && before.value_or(job.globalBatch()) != job.globalBatch())
      job.warnings.push_back(options.resume +
                             ": written with a global batch of " +
                             std::to_string(*before) + ", going on with " +
                             std::to_string(job.globalBatch()) +
                             "; samples will not continue where it stopped");
  }
  if (options.steps)
    job.lastStep = *options.steps;
  else if (job.data) {
    uint64_t perEpoch = job.sampler().stepsPerEpoch();
    if (__builtin_mul_overflow(options.epochs.value_or(1), perEpoch,
                               &job.lastStep))
      return fail("--epochs ", *options.epochs, " of ", perEpoch,
                  " steps are more steps than can be counted");
  } else
    return fail("the program takes no batch: --steps N says how long to train");
  if (job.lastStep < job.firstStep)
    return fail(options.resume, ": written after step ", job.firstStep,
                ", beyond the last step ", job.lastStep);
  return {};
}

Error planLearningRate(TrainingJob &job) {
  job.learningRate.kind = job.options.lrSchedule.value_or(DecayKind::Constant);
  job.learningRate.warmup = job.options.lrWarmup.value_or(0);
  job.learningRate.total = job.lastStep;
  const ManifestArgument *lr = job.learningRateArgument();
  auto set = job.options.hyperparameters.find("lr");
  if (job.options.lr)
    job.learningRate.base = *job.options.lr;
  else if (set != job.options.hyperparameters.end())
    job.learningRate.base = set->second;
  else if (lr && lr->defaultValue)
    job.learningRate.base = *lr->defaultValue;
  if (lr && job.learningRate.kind != DecayKind::Constant && job.resumed &&
      job.resumed->lrTotal.value_or(job.lastStep) != job.lastStep)
    job.warnings.push_back(job.options.resume +
                           ": its learning rate was to fall until step " +
                           std::to_string(*job.resumed->lrTotal) +
                           ", now until step " + std::to_string(job.lastStep));
  if (lr && job.learningRate.base < 0)
    return fail("the learning rate is ", job.learningRate.base,
                ", expected a number of at least 0");
  return {};
}

/// What of the data no epoch has; empty where there is nothing.
std::string describeLeftOver(const TrainingJob &job) {
  std::string text;
  auto add = [&](uint64_t count, const char *what) {
    if (count)
      text += (text.empty() ? " (" : ", ") + std::to_string(count) + what;
  };
  add(job.sampler().dropped(), " left out of each epoch");
  add(job.data->tokensLeftOver(), " tokens left over");
  return text.empty() ? text : text + ")";
}

} // namespace

uint64_t mpcomm::run::batchSizeOf(
    const std::vector<const ManifestFunction *> &functions) {
  int64_t samples = 0; // some have no batch; those that have one agree
  for (const ManifestFunction *function : functions)
    samples = std::max(samples, function->batchSize());
  return static_cast<uint64_t>(samples);
}

void TrainingJob::becomeRank(uint64_t rank) {
  const Manifest &manifest = program->manifest();
  dataRank = manifest.dataRankOf(rank);
  train = trainers.empty() ? nullptr : manifest.find("train_step", rank);
  evaluate = evaluators.empty() ? nullptr : manifest.find("evaluate", rank);
}

uint64_t TrainingJob::globalBatch() const {
  return batchSizeOf(trainers) * dataRanks;
}

Sampler TrainingJob::sampler() const {
  return Sampler(data->samples(), batchSizeOf(trainers), dataRanks, seed,
                 options.shuffle, options.format.lastBatch);
}

std::string TrainingJob::describe() const {
  std::string text = printable(program->manifest().program.empty()
                                   ? program->path()
                                   : program->manifest().program);
  text += ": " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  if (dataRanks != ranks)
    text += " (" + program->manifest().describeMesh() + ")";
  if (!trainers.empty() && lastStep > firstStep)
    text += ", steps " + std::to_string(firstStep + 1) + " to " +
            std::to_string(lastStep) +
            (data ? ", global batch " + std::to_string(globalBatch()) + " of " +
                        std::to_string(data->samples()) + " samples" +
                        describeLeftOver(*this)
                  : "");
  return text;
}

const ManifestArgument *TrainingJob::learningRateArgument() const {
  for (const ManifestFunction *function : trainers)
    if (const ManifestArgument *lr = function->argumentOf("lr"))
      if (lr->role == Role::Hyperparameter)
        return lr;
  return nullptr;
}

double TrainingJob::hyperparameter(const ManifestArgument &argument,
                                   uint64_t step) const {
  if (argument.name == "lr")
    return learningRate.at(step);
  auto set = options.hyperparameters.find(argument.name);
  if (set != options.hyperparameters.end())
    return set->second;
  return argument.defaultValue.value_or(0);
}

Expected<TrainingJob>
mpcomm::run::prepareJob(const RunOptions &options,
                        std::unique_ptr<RunProgram> program, uint64_t ranks) {
  TrainingJob job;
  job.options = options;
  job.program = std::move(program);
  job.ranks = ranks;
  job.dataRanks = job.program->manifest().dataRanks();
  const Manifest &manifest = job.program->manifest();
  if (static_cast<uint64_t>(manifest.ranks()) != ranks)
    return fail(job.program->path(), ": compiled for ", manifest.ranks(),
                " ranks (", manifest.describeMesh(), "), started with ", ranks);
  const std::string &compiledFor = manifest.device;
  if (options.device != "auto" && options.device != compiledFor)
    return fail(job.program->path(), ": compiled for device '", compiledFor,
                "', running on '", options.device,
                "'; compile it for that device, or leave --device out");
  if (options.comm == "nccl" && compiledFor != "cuda")
    return fail(job.program->path(), ": compiled for device '", compiledFor,
                "', and --comm nccl moves memory of GPUs; compile it for cuda, "
                "or leave --comm out");
  if (Error error = chooseFunctions(job))
    return error;
  for (Error (*check)(TrainingJob &) :
       {checkState, adoptCheckpoint, checkHyperparameters, openData, planSteps,
        planLearningRate})
    if (Error error = check(job))
      return error;
  return job;
}
