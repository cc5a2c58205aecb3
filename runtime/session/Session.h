//===- Session.h - one rank of a training job -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is below the C ABI of mpcomm/Runtime/Session.h, whose comments say what
// each call does; SessionABI.cpp translates. A failure is an Error in place of
// the status and the mpcomm_error.
//
// State is laid out once for the functions of all programs that are loaded.
// What a rank does not hold itself it knows by the manifests (StateUnion.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_SESSION_H
#define MPCOMM_RUNTIME_SESSION_SESSION_H

#include "files/OutputFile.h"
#include "session/ReplayTimes.h"
#include "session/Stepper.h"
#include "session/adapt/Adaptation.h"
#include "session/checkpoint/StateKeeper.h"

#include "mpcomm/Runtime/Session.h"

#include <deque>
#include <mutex>
#include <set>
#include <span>

namespace mprt {

/// What mpcomm_program is.
struct OpenProgram {
  std::shared_ptr<const Program> program;
  /// Its functions that are called, each name once.
  FunctionSet functions;
  static Expected<OpenProgram> open(const std::string &path);
  /// A variant of the program, with the same functions selected.
  void addPending();
  OpenProgram variant(size_t index) const;
  bool calls(const std::string &function) const;
  Error select(std::span<const char *const> names);
  /// Without a file, `path` is empty.
  Error checkState(const std::string &path, bool complete) const;
};

class Session {
public:
  static Expected<std::unique_ptr<Session>>
  open(const mpcomm_session_options &options);
  Error close();

  /// As World::setPlace.
  void setPlace(const char *name) {
    if (rank)
      rank->setPlace(name);
  }

  Error describe(mpcomm_session_info &info) const;
  /// `planName`: of a plan that was made while the job ran.
  Error load(const Expected<OpenProgram> &opened, uint32_t traceCapacity,
             uint32_t &number, const std::string &planName = {});
  Error switchTo(uint32_t number);
  Error manifest(uint32_t number, const char *&json) const;
  Error variant(uint32_t number, const char *&name) const;

  uint32_t stateCount() const { return uint32_t(table.size()); }
  Error stateAt(uint32_t index, mpcomm_tensor &tensor);
  Error tensor(const std::string &name, mpcomm_tensor &tensor);
  Error argument(const std::string &function, uint32_t index,
                 mpcomm_tensor &tensor);
  Error write(const mpcomm_array &array);
  Error read(const std::string &name, void *data, uint64_t bytes);
  Error readGlobal(const std::string &name, void *data, uint64_t bytes);

  Error set(const std::string &name, double value);
  Error get(const std::string &name, double &value) const;
  Error setSchedule(const LearningRate &schedule);
  Error setSeed(uint64_t value);
  Error setStep(uint64_t value);

  Error step(std::span<const mpcomm_array> batch, bool isFed,
             std::span<const mpcomm_array> next, mpcomm_result &result);
  Error evaluate(const std::string &function,
                 std::span<const mpcomm_array> batch, mpcomm_result &result);

  Error applyPending();

  Error save(const std::string &path, const mpcomm_save_options &options);
  Error planSaves(const std::string &path, const mpcomm_save_plan &plan);
  Error compareReplicas();
  Error wait();
  Error readState(const std::string &path);
  Error resume(const std::string &path, bool anyway);
  Error metadata(const std::string &key, const char *&value) const;

  /// Without options it adapts no longer.
  Error adapt(const Expected<std::optional<AdaptOptions>> &given);
  Error network(const char *&json);

  Error gather(const void *mine, void *all, uint64_t bytes);
  Error abort(const std::string &message);

  void onEvent(mpcomm_event_callback function, void *user) {
    callback = function;
    callbackUser = user;
  }
  uint32_t takeEvents(std::span<mpcomm_event> events, uint64_t &lost);

  Error totals(mpcomm_totals &filled);
  Error trace(std::span<mpcomm_trace_event> events, uint32_t &count,
              uint64_t &lost) const;
  Error flight(std::span<mpcomm_flight_entry> entries, uint32_t &count) const;

  uint32_t index() const { return rank->index(); }
  Rank &place() { return *rank; }

private:
  struct LoadedProgram : OpenProgram {
    void *arena = nullptr;
    uint64_t arenaBytes = 0;
    /// Of a plan that was made while the job ran.
    std::string planName = {};
    /// After which step all that it holds here had the values of the job.
    uint64_t freshAt = 0;
  };
  /// A tensor of the state, on whatever rank.
  struct TableEntry {
    /// The whole, and all that hold some of it.
    SharedTensor shared;
    /// Where ranks hold parts, these.
    std::vector<SharedTensor> parts;
    Role role = Role::Parameter;
    /// Where this rank has it.
    std::optional<size_t> slot;
    bool isUpdated = false;
    /// Each rank has its own.
    bool isOwn = false;
    /// Something has given it a value, or it needs none.
    bool hasValue = false;
  };

  explicit Session(const mpcomm_session_options &options);

  // Session.cpp
  /// Joins the world that the options mean: by one of the four ways below.
  Error joinWorld(const mpcomm_session_options &options);
  /// Ranks that are threads or children of one process.
  Error joinRanks(const mpcomm_session_options &options);
  /// So many ranks that meet at an address; one that is alone needs none.
  Error joinAtAddress(const mpcomm_session_options &options);
  /// Ranks that another launcher has started, by its environment; without one,
  /// a world of one.
  Error joinLaunched(const mpcomm_session_options &options);
  Error joinAlone();
  /// Takes its place in `world`, if it could be joined.
  Error become(Expected<World> world);
  JoinOptions joinOptions(unsigned rank, unsigned size) const;
  /// No backend is asked for by which ranks meet.
  bool isCommOpen() const {
    return wantedComm == "auto" || wantedComm == "nccl";
  }
  /// The failure of this session, or that there is no program.
  Error checkReady() const;
  /// Marks the session as failed, unless `error` is of arguments alone.
  Error failed(Error error);
  /// Marks the session as failed, for good.
  void giveUp(const Error &error);
  /// As Rank::agree; says which rank has failed.
  Error agree(const Error &mine);

  // SessionPrograms.cpp
  Error checkProgram(const Program &program, const Program *own) const;
  /// Fails where `mine` is not the same on all ranks: `describe` is given
  /// another rank and its value, and rank 0's.
  Error
  compare(uint64_t mine,
          const std::function<Error(size_t, uint64_t, uint64_t)> &describe);
  Error agreeOnProgram(const Program &program);
  /// Fails on all ranks where the devices' settings differ.
  Error agreeOnSettings();
  /// State that the program has here and the current one has not, so that steps
  /// since have passed it by; empty: none.
  std::string findStale(const LoadedProgram &program) const;
  uint64_t arenaBytesOf(const OpenProgram &opened) const;
  Error openProgram(LoadedProgram &loaded, uint32_t traceCapacity,
                    const LoadedProgram *first);
  /// Takes back all but the first programs.
  void unload(size_t count);
  /// Makes `number` the program that steps.
  void use(size_t number);
  /// Gives copies that the current program does not update the values of what
  /// they are copies of.
  Error renewCopies();
  /// Lays out the state of all programs, with the values that it has.
  Error layOutState();
  const Manifest &manifestOf() const {
    return programs[current].program->manifest();
  }
  /// That of the program which the current one is a variant of, or was made
  /// for: what a checkpoint is of, whichever plan was in use.
  const Manifest &ownManifest() const;
  /// What this rank runs under that name.
  const ManifestFunction *find(const std::string &function) const;
  void emit(mpcomm_event_kind kind, const std::string &text, double value = 0,
            double milliseconds = 0, double exposed = 0);

  // SessionState.cpp
  /// `before` is the table that there was.
  void fillTable(const std::vector<TableEntry> &before);
  /// Gives state of `before` to ranks that have it now and had not then. All
  /// ranks call it.
  Error bringState(const std::vector<TableEntry> &before);
  /// Gives a tensor, which `owner` has at `data`, to `to`, which has room for
  /// it there.
  Error sendState(unsigned owner, unsigned to, void *data, uint64_t bytes);
  TableEntry *entryOf(const std::string &name);
  Expected<size_t> slotOf(const std::string &name);
  void describe(const TableEntry &entry, mpcomm_tensor &tensor) const;
  void describe(const ManifestTensor &tensor, mpcomm_tensor &result) const;
  /// All slots have the values that a file has.
  void markLoaded(const StateFile &file);
  /// Fails where a step has no value of something.
  Error checkValuesOf(const ManifestFunction &function);
  /// Those of the current program, or of all that are loaded.
  std::vector<const ManifestArgument *> hyperparameters() const;
  double hyperparameter(const ManifestArgument &argument, uint64_t at) const;

  // SessionStep.cpp
  Error feed(Binding &binding, std::span<const mpcomm_array> batch,
             uint64_t forStep, std::vector<void *> *inPlace);
  void setScalars(Binding &binding, uint64_t forStep);
  /// The session has failed for a call of a function, or for this rank's
  /// device; the others are told.
  Error callFailed(const Error &error);
  /// Finds what of `function` is looked at after a call.
  void watch(const ManifestFunction &function, bool isTraining);
  void fill(const StepOutcome &outcome, mpcomm_result &result);

  // SessionAdapt.cpp
  /// Begins to choose among the plans that are loaded, where the current one
  /// can be compared.
  void findPlans();
  /// Another plan is there to choose.
  void addPlan(size_t number);
  /// Whether it computes what the job may, and can be compared.
  bool mayChoose(const Manifest &manifest, bool isOfOneFile = false) const;
  bool mayChoose(size_t number) const;
  /// That of the variant, "" of a program itself.
  const std::string &nameOfPlan(size_t number) const;
  /// The current program is another one.
  void watchPlan();
  /// A step took so long, and waited for communication; reviews the plan where
  /// it is time to (all ranks).
  Error noteStep(double seconds, double exposed);
  /// Brings together what ranks have measured.
  Error look();
  /// Looks, and goes on with the plan that is chosen.
  Error decide();
  Error review();
  /// On rank 0: whether a plan is there that it has asked for; and asks for one
  /// where none was made for the bandwidth as it is.
  void pollAgent();
  void askForPlan();
  /// Brings a plan of so many bytes from rank 0 to all, and loads it.
  Error takePlan(size_t bytes);

  // SessionFiles.cpp
  /// Takes note of what was written in the background.
  void finishWriting(bool waits);
  SharedState sharedState() const;
  /// Who writes to a path, and on rank 0 the lock on it.
  struct SavedPath {
    std::optional<OutputLock> lock;
    std::unique_ptr<StateKeeper> keeper;
  };
  /// The keeper of a path, which lives until `close`; fails on all ranks or on
  /// none, as `mine` did on this one.
  Expected<StateKeeper *> keeperOf(const std::string &path, uint32_t keep,
                                   Error mine);
  CheckpointInfo describeCheckpoint() const;
  void adopt(const CheckpointInfo &info);
  Error useFile(const std::string &path, bool complete,
                std::optional<CheckpointInfo> *info, bool anyway);

  double timeout = 0;
  std::function<void(const Error &)> giveUpJoining;
  std::string wantedComm, wantedDevice;
  uint32_t flightCapacity = 0;

  // In this order: contexts go before programs and their buffers, and ranks
  // before where they have met.
  std::unique_ptr<LocalRanks> alone;
  std::vector<LoadedProgram> programs;
  std::optional<RankState> state;
  std::optional<Rank> rank;
  std::optional<DeviceState> onDevice;
  size_t current = 0;
  bool isAlone = false;
  std::vector<TableEntry> table;

  Error failure;
  uint64_t steps = 0, seed = 0;
  bool seedIsSet = false;
  std::map<std::string, double> values;
  std::set<std::string> valuesSet;
  std::optional<LearningRate> schedule;

  /// The step whose batch has been given already, and what was wrong with it.
  std::optional<uint64_t> fedStep;
  /// The last step left updates to the next.
  bool hasPending = false;
  Error fedError;
  /// Hyperparameters have been set since.
  bool valuesChanged = false;
  const ManifestFunction *lastCalled = nullptr;
  ReplayTimes replays;
  /// When the last step or evaluation had been waited for.
  uint64_t waitedUntil = 0;
  const ManifestFunction *watchedFunction = nullptr;
  /// All that it takes has a value, and what has one keeps it.
  const ManifestFunction *completeFunction = nullptr;
  /// Of the current program.
  std::optional<Stepper> stepper;
  // What a result points to.
  std::vector<mpcomm_metric> metricValues;
  std::vector<std::string> nonFinite;
  std::vector<const char *> nonFiniteNames;

  /// By what their names lead to.
  std::map<std::string, SavedPath> saved;
  std::shared_ptr<CopyMemory> copies = std::make_shared<CopyMemory>();
  StateKeeper *writing = nullptr;
  Error writeError;
  std::string resumedFrom;
  std::optional<CheckpointInfo> resumed;
  std::map<std::string, std::string> fileMetadata;

  /// Where the session adapts.
  std::optional<Adaptation> adaptation;
  /// Held while programs are loaded or switched: flight records are read by
  /// other threads.
  mutable std::recursive_mutex changing;

  mpcomm_event_callback callback = nullptr;
  void *callbackUser = nullptr;
  std::deque<mpcomm_event> events;
  uint64_t lostEvents = 0;
  /// What totals point to.
  std::string deviceName, graphNote, deviceNote;
};

} // namespace mprt

/// What mpcomm_ranks is.
struct mpcomm_ranks {
  std::unique_ptr<mprt::LocalRanks> ranks;
  uint32_t size = 0;
  std::string comm;
};

struct mpcomm_program {
  mprt::OpenProgram opened;
};

#endif // MPCOMM_RUNTIME_SESSION_SESSION_H
