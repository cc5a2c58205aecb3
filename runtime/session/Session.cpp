//===- Session.cpp - worlds, failures and events of a session -------------===//
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

#include <algorithm>
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
      seed(options.seed) {
  giveUpJoining = [call = options.give_up,
                   user = options.give_up_user](const Error &error) {
    if (call) {
      mpcomm_error record = {};
      record.code = error.status();
      record.rank = error.rank();
      copyText(record.message, sizeof(record.message), error.message());
      call(user, &record);
    } else {
      std::string line = error.message() + "\n";
      (void)!::write(STDERR_FILENO, line.data(), line.size());
    }
    _exit(1);
  };
}

//===----------------------------------------------------------------------===//
// Worlds
//===----------------------------------------------------------------------===//

static Error mismatch(const std::string &comm, const char *what) {
  return fail("comm '", comm, "' does not go with ", what);
}

Error Session::become(Expected<World> world) {
  if (!world)
    return world.error();
  rank.emplace(world.take());
  return {};
}

Error Session::joinRanks(const mpcomm_session_options &options) {
  const mpcomm_ranks &ranks = *options.ranks;
  if (!isCommOpen() && wantedComm != ranks.comm)
    return mismatch(wantedComm, "ranks that communicate otherwise");
  if (options.rank >= ranks.size ||
      (options.size && options.size != ranks.size))
    return fail("rank ", options.rank, " of ",
                options.size ? options.size : ranks.size, ", where there are ",
                ranks.size, " ranks");
  if (options.address)
    return fail("ranks of this process and an address: expected one of them");
  return become(World::join(*ranks.ranks, options.rank, timeout));
}

Error Session::joinAtAddress(const mpcomm_session_options &options) {
  if (options.rank >= options.size || options.size > kMaxRanks)
    return fail("rank ", options.rank, " of ", options.size,
                ", expected a rank below the size, which is at most ",
                kMaxRanks);
  if (wantedComm == "mpi" || (wantedComm == "self" && options.size > 1))
    return mismatch(wantedComm, "a size and an address");
  if (options.size == 1 && wantedComm != "gloo")
    return joinAlone();
  JoinOptions join = joinOptions(options.rank, options.size);
  if (options.address)
    join.address = options.address;
  if (join.address.empty())
    return fail("a world of ", options.size, " ranks",
                options.size > 1 ? "" : " over gloo",
                " needs an address, where they meet");
  return become(World::join(*findBackend("gloo"), join));
}

Error Session::joinLaunched(const mpcomm_session_options &options) {
  if (options.rank || options.address)
    return fail("a rank or an address, but no size");
  Expected<std::optional<LaunchedBy>> launched = launcherFromEnvironment();
  if (!launched)
    return launched.error();
  LaunchedBy by = launched->value_or(LaunchedBy());
  JoinOptions join = joinOptions(unsigned(by.rank), unsigned(by.size));
  if (!isCommOpen())
    return become(World::join(*findBackend(wantedComm), join));
  if (join.size == 1)
    return joinAlone();
  bool isTorch = by.launcher == std::string_view("torchrun");
  return become(World::join(*findBackend(isTorch ? "gloo" : "mpi"), join));
}

Error Session::joinAlone() {
  Expected<std::unique_ptr<LocalRanks>> one =
      findBackend("shm")->prepare(1, timeout);
  if (!one)
    return one.error();
  alone = one.take();
  isAlone = true;
  return become(World::join(*alone, 0, timeout));
}

JoinOptions Session::joinOptions(unsigned rank, unsigned size) const {
  JoinOptions join;
  join.rank = rank;
  join.size = size;
  join.timeoutSeconds = timeout;
  join.giveUp = giveUpJoining;
  return join;
}

Error Session::joinWorld(const mpcomm_session_options &options) {
  if (options.ranks)
    return joinRanks(options);
  if (wantedComm == "shm")
    return mismatch(wantedComm, "a world without mpcomm_ranks");
  if (options.size)
    return joinAtAddress(options);
  return wantedComm == "self" ? joinAlone() : joinLaunched(options);
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
  Error error = rank->agree(mine);
  return mine || error.isElsewhere() ? error : failed(error);
}

Error Session::gather(const void *mine, void *all, uint64_t bytes) {
  if (failure)
    return failure;
  return bytes ? failed(rank->gather(mine, all, bytes)) : agree({});
}

Error Session::abort(const std::string &message) {
  rank->reportFailure(message);
  giveUp(Error(MPRT_PEER_FAILED, "rank " + std::to_string(index()) +
                                     " has given up: " + message));
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
