//===- Session.cpp - worlds and programs of a session ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all ranks call fails on all of them or on none: a rank that finds an
// error brings it to `agree`, and goes on only if nobody has found one.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "session/Environment.h"
#include "session/files/Hash.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

using namespace mprt;

static constexpr double defaultTimeout = 120;
static constexpr size_t keptEvents = 1024;

Session::Session(const mpcomm_session_options &options)
    : timeout(options.timeout_seconds == 0 ? defaultTimeout
                                           : options.timeout_seconds),
      wantedComm(options.comm ? options.comm : "auto"),
      wantedDevice(options.device ? options.device : "auto"),
      flightCapacity(options.flight_capacity ? options.flight_capacity : 64),
      seed(options.seed) {}

//===----------------------------------------------------------------------===//
// Worlds
//===----------------------------------------------------------------------===//

/// Joins ranks that this process or a launcher has started, as `options` say.
static Expected<World> joinBackend(const std::string &comm,
                                   const JoinOptions &options) {
  JoinOptions join = options;
  join.giveUp = [](const Error &error) {
    (void)!::write(STDERR_FILENO, error.message().data(),
                   error.message().size());
    (void)!::write(STDERR_FILENO, "\n", 1);
    _exit(1);
  };
  return World::join(*findBackend(comm), join);
}

Error Session::joinWorld(const mpcomm_session_options &options) {
  const std::string &comm = wantedComm;
  bool isOpen = comm == "auto" || comm == "nccl";
  auto mismatch = [&](const char *what) {
    return fail("comm '", comm, "' does not go with ", what);
  };
  auto take = [&](Expected<World> world) -> Error {
    if (!world)
      return world.error();
    rank.emplace(world.take());
    return {};
  };
  JoinOptions join;
  join.rank = options.rank;
  join.size = options.size;
  join.timeoutSeconds = timeout;
  if (options.ranks) {
    if (!isOpen && comm != "shm")
      return mismatch("ranks of this process");
    if (options.rank >= options.ranks->size ||
        (options.size && options.size != options.ranks->size))
      return fail("rank ", options.rank, " of ",
                  options.size ? options.size : options.ranks->size,
                  ", where there are ", options.ranks->size, " ranks");
    if (options.address)
      return fail("ranks of this process and an address: expected one of them");
    return take(World::join(*options.ranks->ranks, options.rank, timeout));
  }
  if (comm == "shm")
    return mismatch("a world without mpcomm_ranks");
  if (options.size) {
    if (options.rank >= options.size || options.size > kMaxRanks)
      return fail("rank ", options.rank, " of ", options.size,
                  ", expected a rank below the size, which is at most ",
                  kMaxRanks);
    if (comm == "mpi" || (comm == "self" && options.size > 1))
      return mismatch("a size and an address");
    if (options.address)
      join.address = options.address;
    bool meets = options.size > 1 || comm == "gloo";
    if (meets && join.address.empty())
      return fail("a world of ", options.size, " ranks",
                  options.size > 1 ? "" : " over gloo",
                  " needs an address, where they meet");
    if (meets)
      return take(joinBackend("gloo", join));
  } else if (comm != "self") {
    if (options.rank || options.address)
      return fail("a rank or an address, but no size");
    Expected<std::optional<LaunchedBy>> launched = launcherFromEnvironment();
    if (!launched)
      return launched.error();
    if (*launched) {
      join.rank = unsigned((*launched)->rank);
      join.size = unsigned((*launched)->size);
    }
    if (!isOpen)
      return take(joinBackend(comm, join));
    if (*launched && join.size > 1)
      return take(joinBackend(
          (*launched)->launcher == "torchrun" ? "gloo" : "mpi", join));
  }
  Expected<std::unique_ptr<LocalRanks>> one =
      findBackend("shm")->prepare(1, timeout);
  if (!one)
    return one.error();
  alone = one.take();
  isAlone = true;
  return take(World::join(*alone, 0, timeout));
}

Expected<std::unique_ptr<Session>>
Session::open(const mpcomm_session_options &options) {
  std::unique_ptr<Session> session(new Session(options));
  auto isOneOf = [](const std::string &text,
                    std::initializer_list<const char *> known) {
    return std::find(known.begin(), known.end(), text) != known.end();
  };
  if (!isOneOf(session->wantedComm,
               {"auto", "self", "shm", "gloo", "mpi", "nccl"}))
    return fail("comm '", printable(session->wantedComm),
                "', expected auto, self, shm, gloo, mpi or nccl");
  if (!isOneOf(session->wantedDevice, {"auto", "host", "cuda"}))
    return fail("device '", printable(session->wantedDevice),
                "', expected auto, host or cuda");
  if (!(session->timeout > 0) || session->timeout > 1e9)
    return fail("a timeout of ", session->timeout,
                " seconds, expected more than 0 and at most 1e9");
  constexpr uint32_t mostKept = 1u << 24;
  if (session->flightCapacity > mostKept)
    return fail("a flight record keeps at most ", mostKept, " collectives");
  if (Error error = session->joinWorld(options))
    return error;
  return session;
}

Error Session::close() {
  if (failure && writing)
    writing->leave();
  Error error = wait();
  saved.clear();
  return error;
}

Error Session::describe(mpcomm_session_info &info) const {
  info.rank = rank->index();
  info.size = rank->size();
  info.local_ranks = rank->localRanks();
  info.data_ranks = 1;
  info.programs = uint32_t(programs.size());
  info.current = uint32_t(current);
  info.step = steps;
  info.seed = seed;
  info.backend = isAlone && !rank->hasMover() ? "self" : rank->backend();
  info.device = "";
  if (programs.empty())
    return {};
  info.data_rank = uint32_t(manifestOf().dataRankOf(rank->index()));
  info.data_ranks = uint32_t(manifestOf().dataRanks());
  info.device = manifestOf().device == "cuda" ? "cuda" : "host";
  return {};
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

Error Session::checkReady() const {
  if (failure)
    return failure;
  if (programs.empty())
    return Error(MPRT_NOT_READY, "no program is loaded");
  return {};
}

Error Session::failed(Error error) {
  bool isLost = error.status() == MPRT_TIMEOUT ||
                error.status() == MPRT_PEER_FAILED ||
                error.status() == MPRT_MISMATCH;
  if (isLost)
    giveUp(error);
  return error;
}

void Session::giveUp(const Error &error) {
  if (failure)
    return;
  failure = error;
  emit(MPCOMM_EVENT_FAILED, error.message());
}

Error Session::agree(const Error &mine) {
  auto isFailed = uint8_t(mine.failed());
  std::vector<uint8_t> all(rank->size());
  if (Error error = rank->gather(&isFailed, all.data(), 1))
    return mine ? mine : failed(error);
  auto first = std::find(all.begin(), all.end(), 1);
  if (first == all.end())
    return {};
  auto other = unsigned(first - all.begin());
  return mine ? mine
              : fail("rank ", other, " has an error, which it reports")
                    .ofRank(other);
}

Error Session::gather(const void *mine, void *all, uint64_t bytes) {
  if (failure)
    return failure;
  return bytes ? failed(rank->gather(mine, all, bytes)) : agree({});
}

Error Session::abort(const std::string &message) {
  if (failure)
    return {};
  rank->reportFailure(message);
  giveUp(Error(MPRT_PEER_FAILED, "rank " + std::to_string(index()) +
                                     " has given up: " + message));
  return {};
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

const ManifestFunction *Session::find(const std::string &function) const {
  return manifestOf().find(function, rank->index());
}

Error Session::checkProgram(const Program &program) const {
  const Manifest &manifest = program.manifest();
  const std::string &path = program.path();
  if (uint64_t(manifest.ranks()) != rank->size())
    return fail(path, ": compiled for ", manifest.ranks(), " ranks (",
                manifest.describeMesh(), "), this world has ", rank->size());
  if (wantedDevice != "auto" && wantedDevice != manifest.device)
    return fail(path, ": compiled for device '", manifest.device,
                "', this session is on '", wantedDevice, "'");
  if (wantedComm == "nccl" && manifest.device != "cuda")
    return fail(path, ": compiled for device '", manifest.device,
                "', and nccl moves memory of GPUs");
  if (programs.empty())
    return {};
  if (manifest.device != "host" || manifestOf().device != "host")
    return Error(MPRT_UNSUPPORTED,
                 path + ": a second program, on a GPU, where a session can "
                        "have one");
  // What has one name in both must be the same thing; batches may be others.
  std::map<std::string, const ManifestArgument *> known;
  for (const LoadedProgram &loaded : programs)
    for (const ManifestFunction &f : loaded.program->manifest().functions)
      for (const ManifestArgument &argument : f.arguments)
        known[argument.name] = &argument;
  for (const ManifestFunction &f : manifest.functions)
    for (const ManifestArgument &argument : f.arguments)
      if (auto found = known.find(argument.name); found != known.end()) {
        const ManifestArgument &other = *found->second;
        bool isSame =
            other.type == argument.type && other.shape == argument.shape;
        if (other.role != argument.role || (isState(argument.role) && !isSame))
          return fail(path, ": ", nameOf(argument.role), " '",
                      printable(argument.name), "' is ",
                      mprt::describe(argument.type, argument.shape),
                      ", and in the programs before it ", nameOf(other.role),
                      " ", mprt::describe(other.type, other.shape));
      }
  return {};
}

Error Session::compare(
    uint64_t mine,
    const std::function<Error(size_t, uint64_t, uint64_t)> &describe) {
  std::vector<uint64_t> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other] != all[0])
      return describe(other, all[other], all[0]);
  return {};
}

Error Session::agreeOnProgram(const Program &program) {
  return compare(program.digest(), [](size_t rank, uint64_t its, uint64_t of0) {
    return fail("rank ", rank,
                " loads another program file than rank 0, with checksum ",
                hexOf(its), " where rank 0's has ", hexOf(of0));
  });
}

Error Session::openProgram(LoadedProgram &loaded) {
  const Manifest &manifest = loaded.program->manifest();
  if (wantedComm == "nccl")
    Rank::prepareNccl(manifest);
  if (Error error = agree(rank->openDevice(manifest, loaded.program->images())))
    return error;
  if (wantedComm == "nccl")
    if (Error error = rank->openNccl())
      return failed(error);
  uint32_t eventCount = 0;
  uint64_t arenaBytes = 0;
  for (const ManifestFunction *function : loaded.functions.of(index()))
    if (function) {
      eventCount = std::max(eventCount, function->events);
      arenaBytes = std::max(arenaBytes, function->arenaBytes);
    }
  Error error = rank->createContext(manifest, eventCount, /*traces=*/false,
                                    flightCapacity);
  if (error.ok()) {
    Expected<void *> memory = rank->allocate(arenaBytes);
    if (memory)
      loaded.arena = *memory;
    error = memory.error();
  }
  return agree(error);
}

Error Session::layOutState() {
  std::vector<const ManifestFunction *> functions;
  for (const LoadedProgram &loaded : programs)
    for (const ManifestFunction *function : loaded.functions.of(index()))
      if (function)
        functions.push_back(function);
  Expected<RankState> made = RankState::create(functions, index());
  if (!made)
    return made.error();
  made->storeDefaults();
  if (state)
    made->copyState(*state);
  std::optional<RankState> before = std::move(state);
  state.reset();
  state.emplace(made.take());
  Expected<DeviceState> twin =
      DeviceState::create(rank->device(), rank->context(), *state);
  if (!twin) {
    state = std::move(before);
    return twin.error();
  }
  onDevice.emplace(twin.take());
  return {};
}

Error Session::load(const std::string &path, uint32_t &number) {
  if (failure)
    return failure;
  finishWriting(/*waits=*/true);
  Expected<Program> program = Program::load(path);
  Error mine = program ? checkProgram(*program) : program.error();
  if (Error error = agree(mine))
    return error;
  if (Error error = agreeOnProgram(*program))
    return error;
  LoadedProgram loaded;
  loaded.program = std::make_unique<Program>(program.take());
  const Manifest &manifest = loaded.program->manifest();
  loaded.functions.manifest = &manifest;
  for (const ManifestFunction &function : manifest.functions)
    if (std::find(loaded.functions.names.begin(), loaded.functions.names.end(),
                  function.name) == loaded.functions.names.end())
      loaded.functions.names.push_back(function.name);
  programs.push_back(std::move(loaded));
  Error error = openProgram(programs.back());
  if (error.ok())
    error = agree(layOutState());
  if (error) {
    unload();
    return error;
  }
  number = uint32_t(programs.size() - 1);
  std::vector<TableEntry> before = std::move(table);
  fillTable(before);
  use(current);
  if (Error lost = bringState(before))
    return failed(lost);
  emit(MPCOMM_EVENT_LOADED, path);
  return {};
}

void Session::unload() {
  bool hadMover = rank->hasMover();
  programs.pop_back();
  // NCCL is on the device that goes.
  if (!failure && hadMover)
    giveUp(Error(MPRT_UNSUPPORTED, "NCCL was there for a program that could "
                                   "not be loaded"));
  onDevice.reset();
  stepper.reset();
  rank->closePrograms(programs.size());
  if (programs.empty()) {
    state.reset();
    return;
  }
  if (Error error = layOutState())
    giveUp(error);
  else
    use(current);
}

Error Session::renewCopies() {
  std::set<std::string> updated;
  for (const ManifestFunction *function :
       programs[current].functions.of(index()))
    if (function)
      for (const ManifestArgument &argument : function->arguments)
        if (argument.updated)
          updated.insert(argument.name);
  return onDevice->store(state->renewCopiesExcept(updated));
}

void Session::use(size_t number) {
  current = number;
  rank->useProgram(number);
  fedStep.reset();
  lastCalled = watchedFunction = nullptr;
  stepper.emplace(*rank, *programs[number].program, *state, *onDevice,
                  programs[number].arena);
}

Error Session::switchTo(uint32_t number) {
  if (Error error = checkReady())
    return error;
  if (number >= programs.size())
    return fail("program ", number, ", expected one of ", programs.size());
  struct Place {
    uint64_t number, step;
  } mine{number, steps};
  std::vector<Place> all(rank->size());
  if (Error error = rank->gather(&mine, all.data(), sizeof(mine)))
    return failed(error);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other].number != all[0].number || all[other].step != all[0].step)
      return fail("rank ", other, " switches to program ", all[other].number,
                  " after step ", all[other].step, ", rank 0 to program ",
                  all[0].number, " after step ", all[0].step);
  if (Error error = renewCopies())
    return callFailed(error);
  use(number);
  emit(MPCOMM_EVENT_SWITCHED, programs[number].program->path());
  return {};
}

Error Session::manifest(uint32_t number, const char *&json) const {
  if (number >= programs.size())
    return fail("program ", number, ", expected one of ", programs.size());
  json = programs[number].program->manifestText().c_str();
  return {};
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

void Session::emit(mpcomm_event_kind kind, const std::string &text,
                   double value, double milliseconds, double exposed) {
  mpcomm_event event = {};
  event.kind = kind;
  event.rank = int32_t(index());
  event.step = steps;
  event.time_nanoseconds = nowNanoseconds();
  event.milliseconds = milliseconds;
  event.exposed_milliseconds = exposed;
  event.value = value;
  copyText(event.text, sizeof(event.text), text);
  if (callback) {
    callback(callbackUser, &event);
    return;
  }
  if (events.size() == keptEvents) {
    events.pop_front();
    ++lostEvents;
  }
  events.push_back(event);
}

uint32_t Session::takeEvents(std::span<mpcomm_event> taken, uint64_t &lost) {
  finishWriting(/*waits=*/false);
  uint32_t count = 0;
  for (mpcomm_event &event : taken) {
    if (events.empty())
      break;
    event = events.front();
    events.pop_front();
    ++count;
  }
  lost = lostEvents;
  lostEvents = 0;
  return count;
}
