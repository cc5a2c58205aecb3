//===- Agent.h - plans that are made while a job runs -----------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A command that compiles the step for the cluster as it was measured, as a
// process of the lowest priority. Nothing waits for it. One rank has the agent
// and hands its plans to the others.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_ADAPT_AGENT_H
#define MPCOMM_RUNTIME_SESSION_ADAPT_AGENT_H

#include "files/Manifest.h"
#include "files/WorkFolder.h"

#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace mprt {

/// The bandwidth of the link that a plan was made for; 0: the forecast does not
/// say.
double plannedBandwidth(const ManifestForecast &forecast);

/// The cluster of a forecast, whose link has another bandwidth, in bytes/s, and
/// measured times on it likewise. Fails where the JSON is none of a cluster.
Expected<std::string> clusterAt(const ManifestForecast &forecast,
                                double bandwidth);

class Agent {
public:
  /// `command` is for /bin/sh. MPCOMM_CLUSTER in its environment names a
  /// cluster file, and MPCOMM_PLAN the program file that it has to write.
  explicit Agent(std::string command) : command(std::move(command)) {}
  /// Ends the command.
  ~Agent();
  Agent(const Agent &) = delete;
  Agent &operator=(const Agent &) = delete;

  bool isBusy() const { return child > 0; }
  /// Begins to make a plan; requires !isBusy().
  Error start(const std::string &cluster);
  /// The program file that was made since the last time; nothing while it is
  /// not there. Why it could not be made is told once.
  Expected<std::optional<std::string>> poll();

private:
  std::string command;
  std::unique_ptr<WorkFolder> folder;
  pid_t child = -1;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_ADAPT_AGENT_H
