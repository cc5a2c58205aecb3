//===- FlightLog.cpp - the last collectives of each rank, in files --------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "report/FlightLog.h"

#include "launch/Launcher.h"
#include "report/Steps.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpcomm::run;

using Json = nlohmann::ordered_json;

static_assert(flightSignal == SIGUSR1);

static sigset_t flightSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, flightSignal);
  return set;
}

void mpcomm::run::holdFlightSignal() {
  sigset_t set = flightSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

bool mpcomm::run::takeFlightSignal() {
  sigset_t set = flightSignals();
  timespec now = {0, 0};
  return sigtimedwait(&set, nullptr, &now) == flightSignal;
}

Error mpcomm::run::makeFlightFolder(const std::string &folder) {
  struct stat info;
  if (folder.empty())
    return {};
  if (mkdir(folder.c_str(), 0777) == 0 ||
      (errno == EEXIST && stat(folder.c_str(), &info) == 0 &&
       S_ISDIR(info.st_mode)))
    return {};
  return fail("--flight-record ", printable(folder),
              ": cannot create: ", std::strerror(errno));
}

FlightLog::FlightLog(std::string folder, const Manifest &manifest,
                     const RunSession &session, uint32_t capacity)
    : path(std::move(folder) + "/rank-" + std::to_string(session.index()) +
           ".json"),
      manifest(manifest), session(session), backend(session.backend()),
      capacity(capacity) {
  unlink(path.c_str());
  thread = std::thread([this] { serve(); });
}

FlightLog::~FlightLog() {
  stopping = true;
  pthread_kill(thread.native_handle(), flightSignal);
  thread.join();
}

void FlightLog::serve() {
  sigset_t set = flightSignals();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0 || stopping)
      return;
    write("request", "");
  }
}

void FlightLog::fail(const std::string &message) {
  write("failure", message, /*isLast=*/true);
}

void FlightLog::write(const char *reason, const std::string &message,
                      bool isLast) {
  // A request that comes while a failure is written is not to replace it.
  std::lock_guard<std::mutex> guard(mutex);
  if (isOver)
    return;
  isOver = isLast;
  if (Error status = writeText(path, render(reason, message)); status.failed())
    printError(status.message());
}

std::string FlightLog::render(const char *reason,
                              const std::string &message) const {
  Json collectives = Json::array();
  std::vector<mpcomm_flight_entry> entries(capacity);
  uint32_t count = 0;
  (void)session(mpcomm_session_flight, entries.data(), capacity, &count);
  entries.resize(count);
  for (const mpcomm_flight_entry &entry : entries) {
    const mprt_collective &call = entry.collective;
    // Variants may have more channels than the program.
    ManifestCommunicator communicator;
    if (call.communicator < manifest.communicators.size())
      communicator = manifest.communicators[call.communicator];
    Json axes = Json::array();
    for (size_t axis : communicator.axes)
      axes.push_back(manifest.axes[axis].name);
    auto when = [](uint64_t time) { return time ? Json(time) : Json(nullptr); };
    Json described = {{"number", entry.number},
                      {"kind", mprt::nameOf(mprt_collective_kind(call.kind))},
                      {"name", call.name ? call.name : ""},
                      {"location", call.location ? call.location : ""},
                      {"id", call.id},
                      {"count", call.count},
                      {"dtype", mprt::nameOf(mprt_dtype(call.type))},
                      {"communicator", call.communicator},
                      {"axes", axes},
                      {"channel", communicator.channel},
                      {"place", entry.place},
                      {"state", entry.done      ? "done"
                                : entry.started ? "started"
                                                : "enqueued"},
                      {"enqueued", when(entry.enqueued)},
                      {"started", when(entry.started)},
                      {"done", when(entry.done)}};
    if (entry.peer >= 0)
      described["peer"] = entry.peer;
    collectives.push_back(described);
  }
  Json whole = {{"schema", "mpcomm-flight-1"},
                {"program", manifest.program},
                {"rank", session.index()},
                {"ranks", session.size()},
                {"backend", backend},
                {"reason", reason},
                {"error", message.empty() ? Json(nullptr) : Json(message)},
                {"time", mprt::nowNanoseconds()},
                {"collectives", collectives}};
  return whole.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}
