//===- FlightLog.h - the last collectives of each rank, in files ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With --flight-record, a rank that fails writes what it has called last, and
// how far that came; so does, without failing, one that is asked by SIGUSR1,
// even while its computing thread hangs. The launcher passes the signal on to
// its ranks, and sends it to those that are left where one has failed. Schema
// mpcomm-flight-1, docs/Testing/Faults.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_REPORT_FLIGHTLOG_H
#define MPCOMM_RUN_REPORT_FLIGHTLOG_H

#include "launch/Session.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace mpcomm::run {

/// The signal that asks for a record.
inline constexpr int flightSignal = 10; // SIGUSR1

/// Keeps the signal for whoever waits for it; to be called before any thread
/// or child is started, which inherit that.
void holdFlightSignal();
/// Whether the signal has come since the last call.
bool takeFlightSignal();

/// Makes the folder of the records, unless it is there or none is asked for.
Error makeFlightFolder(const std::string &folder);

class FlightLog {
public:
  /// Serves the signal from now on. `session` has loaded the program of
  /// `manifest`; both outlive this. Removes what an earlier run has left of
  /// this rank.
  FlightLog(std::string folder, const Manifest &manifest,
            const RunSession &session, uint32_t capacity);
  ~FlightLog();
  FlightLog(const FlightLog &) = delete;
  FlightLog &operator=(const FlightLog &) = delete;

  /// Writes the record of a rank that has failed, the last one that it writes.
  /// The message is empty where another rank has told why.
  void fail(const std::string &message);

private:
  void serve();
  void write(const char *reason, const std::string &message,
             bool isLast = false);
  std::string render(const char *reason, const std::string &message) const;

  std::string path;
  const Manifest &manifest;
  const RunSession &session;
  const std::string backend;
  uint32_t capacity;
  std::mutex mutex;
  bool isOver = false;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_REPORT_FLIGHTLOG_H
