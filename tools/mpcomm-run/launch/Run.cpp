//===- Run.cpp - the two ways to run a program ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Started here, the launcher opens and checks everything before it forks: the
// ranks inherit what is mapped, and a mistake is reported once. Under another
// launcher each rank does so by itself and they compare notes.
//
//===----------------------------------------------------------------------===//

#include "launch/Run.h"

#include "calibrate/Calibrate.h"
#include "data/Files.h"
#include "data/WorkFolder.h"
#include "launch/Agreement.h"
#include "launch/Compile.h"
#include "launch/Launcher.h"
#include "launch/StopSignals.h"
#include "report/EventFile.h"
#include "report/FlightLog.h"
#include "session/files/OutputFile.h"
#include "train/Trainer.h"

#include <unistd.h>

using namespace mpcomm::run;

namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Expected<std::unique_ptr<Program>> loadProgram(const std::string &path) {
  Expected<Program> program = Program::load(path);
  if (program.failed())
    return program.error();
  return std::make_unique<Program>(program.take());
}

/// Compiles `options.program` into a folder of its own, which is gone again
/// when this returns, also when a signal asks to stop, which `stopped` then
/// says: a loaded program needs no file.
Expected<std::unique_ptr<Program>> compileAndLoad(const RunOptions &options,
                                                  int &stopped) {
  StopSignals signals;
  Expected<std::unique_ptr<WorkFolder>> folder = WorkFolder::create();
  if (folder.failed())
    return folder.error();
  std::string file = (*folder)->path() + "/step.so";
  Error compiled = compileProgram(
      options.program, file, options.ranks,
      (options.device == "cuda" ? "--options=target=cuda " : "") +
          options.compileOptions,
      signals, stopped);
  if (compiled.failed())
    return compiled;
  return loadProgram(file);
}

/// Tells of a failure, if no other rank has; the exit status.
int conclude(Rank &rank, const Error &status) {
  if (status.ok())
    return 0;
  // Without a message another rank has told, or will.
  if (!status.message().empty()) {
    rank.reportFailure(status.message());
    printError(status.message());
  }
  return 1;
}

/// Joins the others, trains, and says what went wrong; the exit status.
int runRank(TrainingJob &job, Rank &rank, const Fault &fault,
            RankPosition &position) {
  // Who stops a run may signal all of its processes.
  StopHandler handler(position.stopsWhenAsked, position.stopSignal);
  Error status = agreeOn(sharedSettingsOf(job), rank);
  if (status.ok())
    status = shareOutputs(job, rank);
  if (status.ok())
    status = rank.agree(job.becomeRank(rank.index()));
  const Manifest &manifest = job.program->manifest();
  bool isOnNccl = job.options.comm == "nccl";
  if (isOnNccl)
    Rank::prepareNccl(manifest);
  if (status.ok())
    status =
        rank.agree(asOption(rank.openDevice(manifest, job.program->images())));
  if (status.ok() && isOnNccl)
    status = asOption(rank.openNccl());
  if (status.ok())
    status = rank.createContext(
        job.program->manifest(), job.events(), job.outputs.any(),
        static_cast<uint32_t>(job.options.flightCollectives));
  if (status.ok()) {
    std::optional<FlightLog> flight;
    if (!job.options.flightRecord.empty())
      flight.emplace(job.options.flightRecord, job.program->manifest(), rank);
    Trainer trainer(job, rank, fault, position);
    status = trainer.run();
    if (status.ok() && trainer.stoppedBy())
      return 128 + trainer.stoppedBy();
    if (status.failed() && flight)
      flight->fail(status.message());
  }
  return conclude(rank, status);
}

/// The same of a rank that is a process of its own.
int runRankToItsEnd(TrainingJob &job, Rank &rank, const Fault &fault,
                    RankPosition &position) {
  int status = runRank(job, rank, fault, position);
  // What hangs on a GPU holds up the end of all that belongs to it.
  if (status == 1 && rank.hasMover())
    rank.abandon();
  return status;
}

/// The rank that a way of joining has led to.
Expected<Rank> makeRank(Expected<World> world) {
  if (!world)
    return world.error();
  return Rank(world.take());
}

/// The backend by which ranks meet: that of --comm, or where that leaves it
/// open, the launcher's.
const mprt::Backend &meetingOf(const RunOptions &options,
                               const std::optional<LaunchedBy> &launched) {
  const mprt::Backend *wanted = mprt::findBackend(options.comm);
  if (wanted && !wanted->move)
    return *wanted;
  return *mprt::findBackend(!launched                          ? "shm"
                            : launched->launcher == "torchrun" ? "gloo"
                                                               : "mpi");
}

/// Joins the ranks that are forked here, as `index`.
Expected<Rank> joinHere(const RunOptions &options, mprt::LocalRanks &meeting,
                        uint64_t index) {
  return makeRank(mprt::World::join(meeting, static_cast<unsigned>(index),
                                    options.timeoutSeconds));
}

/// Joins the ranks that another launcher has started.
Expected<Rank> joinLaunched(const RunOptions &options,
                            const std::optional<LaunchedBy> &launched) {
  mprt::JoinOptions join;
  if (launched) {
    join.rank = static_cast<unsigned>(launched->rank);
    join.size = static_cast<unsigned>(launched->size);
  }
  join.timeoutSeconds = options.timeoutSeconds;
  join.giveUp = [launched](const mprt::Error &error) {
    std::string rank = launched ? std::to_string(launched->rank) : "?";
    bool named = error.message().rfind("rank ", 0) == 0;
    printError((named ? "" : "rank " + rank + ": ") + error.message());
    _exit(1);
  };
  return makeRank(mprt::World::join(meetingOf(options, launched), join));
}

/// Whether this is one of as many ranks as was asked for.
Error checkWorld(const RunOptions &options,
                 const std::optional<LaunchedBy> &launched, uint64_t ranks) {
  if (launched && launched->size != ranks)
    return fail("started by ", launched->launcher, " as one of ",
                launched->size, " ranks, but MPI knows of ", ranks,
                "; start it with the mpirun of the MPI that it loads");
  if (options.ranks && *options.ranks != ranks)
    return fail("--np ", *options.ranks, ", but ",
                launched ? launched->launcher : "MPI", " started ", ranks,
                " ranks; --comm shm starts them here");
  return {};
}

/// What `rank` does that another launcher has started: `job`, or none where it
/// measures. Checks that it can.
Error prepareLaunched(const RunOptions &options,
                      const std::optional<LaunchedBy> &launched,
                      const Fault &fault, const Rank &rank,
                      std::optional<TrainingJob> &job,
                      std::optional<OutputLock> &checkpointLock) {
  if (Error error = checkWorld(options, launched, rank.size()))
    return error;
  if (options.calibrate.empty()) {
    std::string path = fault.hits(Fault::Kind::Program, rank.index())
                           ? fault.file
                           : options.program;
    if (endsWith(path, ".mlir"))
      return fail(path, ": compile it with mpcomm-compile first: every rank "
                        "needs the same file");
    Expected<std::unique_ptr<Program>> program = loadProgram(path);
    if (program.failed())
      return program.error();
    Expected<TrainingJob> prepared =
        prepareJob(options, program.take(), rank.size());
    if (prepared.failed())
      return prepared.error();
    job.emplace(prepared.take());
  }
  // Rank 0 writes them.
  if (rank.index() == 0) {
    if (Error error = probeOutputs(options))
      return error;
    Expected<OutputLock> lock = OutputLock::take(options.checkpoint);
    if (lock.failed())
      return fail("--checkpoint ", lock.message());
    checkpointLock.emplace(lock.take());
  }
  if (rank.index() == 0)
    if (Error error = makeEventFolder(options.tensorboard))
      return error;
  return job ? makeFlightFolder(options.flightRecord) : Error();
}

/// What rank `index` does in its own process.
int liveAsRank(TrainingJob &job, mprt::LocalRanks &meeting, const Fault &fault,
               uint64_t index, RankPosition &position) {
  if (fault.hits(Fault::Kind::NeverStart, index))
    while (true)
      pause();
  // What a rank runs goes after it.
  std::optional<Expected<TrainingJob>> otherJob;
  Expected<Rank> rank = joinHere(job.options, meeting, index);
  if (rank.failed()) {
    printError("rank " + std::to_string(index) + ": " + rank.message());
    return 1;
  }
  position.started = 1;
  if (!fault.hits(Fault::Kind::Program, index)) {
    return runRankToItsEnd(job, *rank, fault, position);
  }

  Expected<std::unique_ptr<Program>> other = loadProgram(fault.file);
  otherJob.emplace(other.failed()
                       ? Expected<TrainingJob>(other.error())
                       : prepareJob(job.options, other.take(), job.ranks));
  if (otherJob->failed()) {
    printError("rank " + std::to_string(index) + ": " + otherJob->message());
    return 1;
  }
  return runRankToItsEnd(**otherJob, *rank, fault, position);
}

int reportAndFail(const std::string &message) {
  printError(message);
  return 1;
}

/// Starts `ranks` ranks, whose lives are `body`.
int launchRanks(const RunOptions &options, uint64_t ranks,
                const std::function<int(mprt::LocalRanks &, uint64_t,
                                        RankPosition &)> &body) {
  auto meeting =
      meetingOf(options, std::nullopt)
          .prepare(static_cast<unsigned>(ranks), options.timeoutSeconds);
  if (!meeting)
    return reportAndFail(meeting.message());
  LaunchPlan plan;
  plan.ranks = ranks;
  plan.timeoutSeconds = options.timeoutSeconds;
  plan.started = [&] { (*meeting)->started(); };
  plan.markDead = [&](uint64_t rank, const std::string &reason) {
    (*meeting)->markDead(static_cast<unsigned>(rank), reason);
  };
  plan.writtenFiles = replacedFiles(options);
  plan.recordsFlights = !options.flightRecord.empty();
  plan.body = [&](uint64_t index, RankPosition &position) {
    return body(**meeting, index, position);
  };
  return launch(plan);
}

/// Joins the others and measures; the exit status.
int runBench(const RunOptions &options, Rank &rank) {
  Error status = agreeOn(sharedSettingsOf(options), rank);
  return conclude(rank, status.ok() ? calibrate(rank, options) : status);
}

int calibrateHere(const RunOptions &options) {
  if (!options.ranks)
    return reportAndFail("--calibrate needs --np N: how many ranks to measure");
  if (Error status = probeOutputs(options); status.failed())
    return reportAndFail(status.message());
  auto live = [&](mprt::LocalRanks &meeting, uint64_t index,
                  RankPosition &position) {
    Expected<Rank> rank = joinHere(options, meeting, index);
    if (rank.failed())
      return reportAndFail("rank " + std::to_string(index) + ": " +
                           rank.message());
    position.started = 1;
    return runBench(options, *rank);
  };
  return launchRanks(options, *options.ranks, live);
}

} // namespace

bool mpcomm::run::startsRanks(const RunOptions &options,
                              const std::optional<LaunchedBy> &launched) {
  const mprt::Backend &meeting = meetingOf(options, launched);
  return launched ? !meeting.join : meeting.prepare != nullptr;
}

int mpcomm::run::runHere(const RunOptions &options, const Fault &fault) {
  uint64_t most = meetingOf(options, std::nullopt).mostLocalRanks;
  if (options.ranks.value_or(1) > most)
    return reportAndFail("--np " + std::to_string(*options.ranks) +
                         ": shared memory joins at most " +
                         std::to_string(most) +
                         " ranks; mpirun or --comm gloo takes more");
  if (!options.calibrate.empty())
    return calibrateHere(options);
  int stopped = 0;
  Expected<std::unique_ptr<Program>> program =
      endsWith(options.program, ".mlir") ? compileAndLoad(options, stopped)
                                         : loadProgram(options.program);
  if (program.failed()) {
    reportAndFail(program.message());
    return stopped ? 128 + stopped : 1;
  }
  uint64_t ranks = options.ranks.value_or((*program)->manifest().ranks());
  Expected<TrainingJob> job = prepareJob(options, program.take(), ranks);
  if (job.failed())
    return reportAndFail(job.message());
  if (Error status = probeOutputs(options); status.failed())
    return reportAndFail(status.message());
  for (const Error &status : {makeFlightFolder(options.flightRecord),
                              makeEventFolder(options.tensorboard)})
    if (status.failed())
      return reportAndFail(status.message());
  Expected<OutputLock> lock = OutputLock::take(options.checkpoint);
  if (lock.failed())
    return reportAndFail("--checkpoint " + lock.message());
  auto live = [&](mprt::LocalRanks &meeting, uint64_t index,
                  RankPosition &position) {
    return liveAsRank(*job, meeting, fault, index, position);
  };
  return launchRanks(options, ranks, live);
}

int mpcomm::run::runDistributed(const RunOptions &options,
                                const std::optional<LaunchedBy> &launched,
                                const Fault &fault) {
  if (launched && fault.hits(Fault::Kind::NeverStart, launched->rank))
    while (true)
      pause();
  // What a rank runs goes after it.
  std::optional<TrainingJob> job;
  Expected<Rank> rank = joinLaunched(options, launched);
  if (rank.failed())
    return reportAndFail(
        rank.message() +
        (launched && options.comm == "auto"
             ? " (the environment says that " + launched->launcher +
                   " started this process; --comm shm starts the ranks here)"
             : ""));

  std::optional<OutputLock> lock;
  Error mine = prepareLaunched(options, launched, fault, *rank, job, lock);
  int result = 1;
  if (Error all = rank->agree(mine); all.failed()) {
    // The same message on every rank says no more than once.
    if (!all.message().empty())
      printError("rank " + std::to_string(rank->index()) + ": " +
                 all.message());
  } else {
    RankPosition position{};
    result =
        job ? runRank(*job, *rank, fault, position) : runBench(options, *rank);
    if (result > 128 && rank->index() == 0)
      printError(describeStop(result - 128));
  }
  // A launcher ends the others at the first failure; let who has something to
  // say say it. Leaving MPI in order would wait for peers that are gone.
  if (result == 1) {
    usleep(300'000);
    lock.reset();
    rank->abandon();
  }
  return result;
}
