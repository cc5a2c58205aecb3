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
#include "comm/Registry.h"
#include "data/Files.h"
#include "files/WorkFolder.h"
#include "launch/Agreement.h"
#include "launch/Compile.h"
#include "launch/Launcher.h"
#include "launch/StopSignals.h"
#include "report/EventFile.h"
#include "report/FlightLog.h"
#include "report/Trace.h"
#include "train/Trainer.h"

#include <unistd.h>

using namespace mpcomm::run;

namespace {

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Compiles `options.program` into a folder of its own, which is gone again
/// when this returns, also when a signal asks to stop, which `stopped` then
/// says: a loaded program needs no file.
Expected<std::unique_ptr<RunProgram>> compileAndLoad(const RunOptions &options,
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
  return RunProgram::open(file);
}

int reportAndFail(const std::string &message) {
  printError(message);
  return 1;
}

/// Tells of a failure, if no other rank does; the exit status.
int conclude(const RunSession &session, const Error &status) {
  if (status.failed() && !status.isElsewhere()) {
    (void)session(mpcomm_session_abort, status.message().c_str());
    printError(status.message());
  }
  return status.failed();
}

/// Loads the job's program.
Error load(const TrainingJob &job, const RunSession &session) {
  auto options = sized<mpcomm_load_options>();
  options.trace_capacity = job.outputs.any() ? tracedEvents : 0;
  Error error = session(mpcomm_session_load_program, job.program->handle(),
                        &options, static_cast<uint32_t *>(nullptr));
  for (const char *option : {"device ", "comm "})
    if (error.message().starts_with(option) && !error.isElsewhere())
      return asOption(error);
  return error;
}

/// Trains, and says what went wrong; the exit status.
int runRank(TrainingJob &job, const RunSession &session, const Fault &fault,
            RankPosition &position) {
  // Who stops a run may signal all of its processes.
  StopHandler handler(position.stopsWhenAsked, position.stopSignal);
  Error status = agreeOn(sharedSettingsOf(job), session);
  if (status.ok())
    status = shareOutputs(job, session);
  if (status.ok())
    status = load(job, session);
  if (status.ok()) {
    job.becomeRank(session.index());
    const RunOptions &options = job.options;
    std::optional<FlightLog> flight;
    if (!options.flightRecord.empty())
      flight.emplace(options.flightRecord, job.program->manifest(), session,
                     static_cast<uint32_t>(options.flightCollectives));
    Trainer trainer(job, session, fault, position);
    status = trainer.run();
    if (status.ok() && trainer.stoppedBy())
      return 128 + trainer.stoppedBy();
    if (status.failed() && flight)
      flight->fail(status.isElsewhere() ? "" : status.message());
  }
  return conclude(session, status);
}

/// Ends the process with status 1, waiting for nobody.
[[noreturn]] void abandon() {
  std::fflush(stdout);
  _exit(1);
}

/// The same of a rank that is a process of its own.
int runRankToItsEnd(TrainingJob &job, const RunSession &session,
                    const Fault &fault, RankPosition &position) {
  int status = runRank(job, session, fault, position);
  // What hangs on a GPU holds up the end of all that belongs to it.
  if (status == 1 && session.backend() == std::string_view("nccl"))
    abandon();
  return status;
}

/// What is asked for of a session.
mpcomm_session_options sessionOptionsOf(const RunOptions &options) {
  auto wanted = sized<mpcomm_session_options>();
  wanted.comm = options.comm.c_str();
  wanted.timeout_seconds = options.timeoutSeconds;
  wanted.flight_capacity = static_cast<uint32_t>(options.flightCollectives);
  return wanted;
}

/// Joins the ranks that are forked here, as `index`.
Expected<RunSession> joinHere(const RunOptions &options, mpcomm_ranks *ranks,
                              uint64_t index) {
  mpcomm_session_options wanted = sessionOptionsOf(options);
  wanted.ranks = ranks;
  wanted.rank = static_cast<uint32_t>(index);
  Expected<RunSession> session = RunSession::open(wanted);
  if (session.failed())
    return fail("rank ", index, ": ", session.message());
  return session;
}

/// MPI has not let a rank join, and there is no way back.
void giveUp(void *launcher, const mpcomm_error *error) {
  const auto &by =
      *static_cast<const std::optional<mpcomm_launcher> *>(launcher);
  std::string message = error->message;
  if (error->rank < 0) // MPI has not said yet which it is
    message = "rank " + (by ? std::to_string(by->rank) : "?") + ": " + message;
  printError(message);
}

/// Joins the ranks that another launcher has started.
Expected<RunSession>
joinLaunched(const RunOptions &options,
             const std::optional<mpcomm_launcher> &launched) {
  mpcomm_session_options wanted = sessionOptionsOf(options);
  wanted.give_up = giveUp;
  wanted.give_up_user = const_cast<std::optional<mpcomm_launcher> *>(&launched);
  Expected<RunSession> session = RunSession::open(wanted);
  if (session.failed() && launched && options.comm == "auto")
    return fail(session.message(), " (the environment says that ",
                launched->name,
                " started this process; --comm shm starts the ranks here)");
  return session;
}

/// Whether this is one of as many ranks as was asked for.
Error checkWorld(const RunOptions &options,
                 const std::optional<mpcomm_launcher> &launched,
                 uint64_t ranks) {
  if (launched && launched->size != ranks)
    return fail("started by ", launched->name, " as one of ", launched->size,
                " ranks, but MPI knows of ", ranks,
                "; start it with the mpirun of the MPI that it loads");
  if (options.ranks && *options.ranks != ranks)
    return fail("--np ", *options.ranks, ", but ",
                launched ? launched->name : "MPI", " started ", ranks,
                " ranks; --comm shm starts them here");
  return {};
}

/// What `rank` does that another launcher has started: `job`, or none where it
/// measures. Checks that it can.
Error prepareLaunched(const RunOptions &options,
                      const std::optional<mpcomm_launcher> &launched,
                      const Fault &fault, const RunSession &session,
                      std::optional<TrainingJob> &job) {
  if (Error error = checkWorld(options, launched, session.size()))
    return error;
  if (options.calibrate.empty()) {
    std::string path = fault.hits(Fault::Kind::Program, session.index())
                           ? fault.file
                           : options.program;
    if (endsWith(path, ".mlir"))
      return fail(path, ": compile it with mpcomm-compile first: every rank "
                        "needs the same file");
    Expected<std::unique_ptr<RunProgram>> program = RunProgram::open(path);
    if (program.failed())
      return program.error();
    Expected<TrainingJob> prepared =
        prepareJob(options, program.take(), session.size());
    if (prepared.failed())
      return prepared.error();
    job.emplace(prepared.take());
  }
  // Rank 0 writes them.
  if (session.index() == 0) {
    if (Error error = probeOutputs(options))
      return error;
    if (Error error = makeEventFolder(options.tensorboard))
      return error;
  }
  return job ? makeFlightFolder(options.flightRecord) : Error();
}

/// What rank `index` does in its own process.
int liveAsRank(TrainingJob &job, mpcomm_ranks *ranks, const Fault &fault,
               uint64_t index, RankPosition &position) {
  if (fault.hits(Fault::Kind::NeverStart, index))
    while (true)
      pause();
  Expected<RunSession> session = joinHere(job.options, ranks, index);
  if (session.failed())
    return reportAndFail(session.message());
  position.started = 1;
  if (!fault.hits(Fault::Kind::Program, index))
    return runRankToItsEnd(job, *session, fault, position);

  Expected<std::unique_ptr<RunProgram>> other = RunProgram::open(fault.file);
  Expected<TrainingJob> otherJob =
      other ? prepareJob(job.options, other.take(), job.ranks)
            : Expected<TrainingJob>(other.error());
  if (otherJob.failed())
    return reportAndFail("rank " + std::to_string(index) + ": " +
                         otherJob.message());
  return runRankToItsEnd(*otherJob, *session, fault, position);
}

/// Starts `count` ranks, whose lives are `body`.
int launchRanks(
    const RunOptions &options, uint64_t count,
    const std::function<int(mpcomm_ranks *, uint64_t, RankPosition &)> &body) {
  mpcomm_ranks *created = nullptr;
  Error error =
      check(mpcomm_ranks_create_over, options.comm == "gloo" ? "gloo" : "shm",
            static_cast<uint32_t>(count), options.timeoutSeconds, &created);
  RunRanks ranks(created);
  if (error)
    return reportAndFail(error.message());
  LaunchPlan plan;
  plan.ranks = count;
  plan.timeoutSeconds = options.timeoutSeconds;
  plan.started = [&] { (void)mpcomm_ranks_started(ranks.get(), nullptr); };
  plan.markDead = [&](uint64_t rank, const std::string &reason) {
    (void)mpcomm_ranks_mark_dead(ranks.get(), static_cast<uint32_t>(rank),
                                 reason.c_str(), nullptr);
  };
  plan.writtenFiles = replacedFiles(options);
  plan.recordsFlights = !options.flightRecord.empty();
  plan.body = [&](uint64_t index, RankPosition &position) {
    return body(ranks.get(), index, position);
  };
  return launch(plan);
}

/// Measures; the exit status.
int runBench(const RunOptions &options, const RunSession &session) {
  Error status = agreeOn(sharedSettingsOf(options), session);
  if (status.ok())
    status = calibrate(rankOf(session.handle()), options);
  return conclude(session, status);
}

int calibrateHere(const RunOptions &options) {
  if (!options.ranks)
    return reportAndFail("--calibrate needs --np N: how many ranks to measure");
  if (Error status = probeOutputs(options); status.failed())
    return reportAndFail(status.message());
  auto live = [&](mpcomm_ranks *ranks, uint64_t index, RankPosition &position) {
    Expected<RunSession> session = joinHere(options, ranks, index);
    if (session.failed())
      return reportAndFail(session.message());
    position.started = 1;
    return runBench(options, *session);
  };
  return launchRanks(options, *options.ranks, live);
}

} // namespace

bool mpcomm::run::startsRanks(const RunOptions &options,
                              const std::optional<mpcomm_launcher> &launched) {
  return launched ? options.comm == "shm" : options.comm != "mpi";
}

int mpcomm::run::runHere(const RunOptions &options, const Fault &fault) {
  uint64_t most = findBackend("shm")->mostLocalRanks;
  if (options.ranks.value_or(1) > most && options.comm != "gloo")
    return reportAndFail("--np " + std::to_string(*options.ranks) +
                         ": shared memory joins at most " +
                         std::to_string(most) +
                         " ranks; mpirun or --comm gloo takes more");
  if (!options.calibrate.empty())
    return calibrateHere(options);
  int stopped = 0;
  Expected<std::unique_ptr<RunProgram>> program =
      endsWith(options.program, ".mlir") ? compileAndLoad(options, stopped)
                                         : RunProgram::open(options.program);
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
  auto live = [&](mpcomm_ranks *ranks, uint64_t index, RankPosition &position) {
    return liveAsRank(*job, ranks, fault, index, position);
  };
  return launchRanks(options, ranks, live);
}

int mpcomm::run::runDistributed(const RunOptions &options,
                                const std::optional<mpcomm_launcher> &launched,
                                const Fault &fault) {
  if (launched && fault.hits(Fault::Kind::NeverStart, launched->rank))
    while (true)
      pause();
  Expected<RunSession> session = joinLaunched(options, launched);
  if (session.failed())
    return reportAndFail(session.message());

  std::optional<TrainingJob> job;
  Error mine = prepareLaunched(options, launched, fault, *session, job);
  int result = 1;
  if (Error all = session->agree(mine); all.failed()) {
    // The same message on every rank says no more than once.
    if (!all.isElsewhere())
      printError("rank " + std::to_string(session->index()) + ": " +
                 all.message());
  } else {
    RankPosition position{};
    result = job ? runRank(*job, *session, fault, position)
                 : runBench(options, *session);
    if (result > 128 && session->index() == 0)
      printError(describeStop(result - 128));
  }
  // A launcher ends the others at the first failure; let who has something to
  // say say it. Leaving MPI in order would wait for peers that are gone.
  if (result == 1) {
    usleep(300'000);
    abandon();
  }
  return result;
}
