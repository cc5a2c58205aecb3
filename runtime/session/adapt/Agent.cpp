//===- Agent.cpp - plans that are made while a job runs -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/adapt/Agent.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace mprt;
using Json = nlohmann::ordered_json;

extern char **environ;

static bool isNumber(const Json &object, const char *key) {
  return object.is_object() && object.contains(key) && object[key].is_number();
}

/// The link of that name of a cluster, or null.
static Json *findLink(Json &cluster, const std::string &name) {
  if (cluster.is_object() && cluster.contains("links") &&
      cluster["links"].is_array())
    for (Json &link : cluster["links"])
      if (isNumber(link, "bandwidth") && link.value("name", "") == name)
        return &link;
  return nullptr;
}

double mprt::plannedBandwidth(const ManifestForecast &forecast) {
  Json cluster = Json::parse(forecast.cluster, nullptr, false);
  Json *link = findLink(cluster, forecast.link);
  return link ? (*link)["bandwidth"].get<double>() : 0;
}

Expected<std::string> mprt::clusterAt(const ManifestForecast &forecast,
                                      double bandwidth) {
  Json cluster = Json::parse(forecast.cluster, nullptr, false);
  Json *link = findLink(cluster, forecast.link);
  if (!link)
    return fail("the forecast's cluster has no link '",
                printable(forecast.link), "'");
  double before = (*link)["bandwidth"].get<double>();
  (*link)["bandwidth"] = bandwidth;
  if (cluster.contains("measured") && cluster["measured"].is_array())
    for (Json &line : cluster["measured"])
      if (isNumber(line, "beta") && line.value("link", "") == forecast.link)
        line["beta"] = line["beta"].get<double>() * before / bandwidth;
  cluster["source"] = "measured while a job ran, from: " +
                      cluster.value("source", std::string());
  return cluster.dump();
}

Agent::~Agent() {
  if (child <= 0)
    return;
  kill(-child, SIGTERM);
  for (int tenths = 0; tenths < 20; ++tenths) {
    pid_t ended = waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR))
      return;
    usleep(100'000);
  }
  kill(-child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
    ;
}

static std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Error Agent::start(const std::string &cluster) {
  Expected<std::unique_ptr<WorkFolder>> made = WorkFolder::create();
  if (!made)
    return made.error();
  folder = made.take();
  std::string clusterPath = folder->path() + "/cluster.json",
              plan = folder->path() + "/plan.so";
  std::ofstream(clusterPath) << cluster;
  std::vector<std::string> variables = {"MPCOMM_CLUSTER=" + clusterPath,
                                        "MPCOMM_PLAN=" + plan};
  std::vector<char *> environment;
  for (char **entry = environ; *entry; ++entry)
    if (strncmp(*entry, "MPCOMM_CLUSTER=", 15) &&
        strncmp(*entry, "MPCOMM_PLAN=", 12))
      environment.push_back(*entry);
  for (std::string &variable : variables)
    environment.push_back(variable.data());
  environment.push_back(nullptr);

  std::string log = folder->path() + "/log", shell = "/bin/sh", flag = "-c";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own, so that all of it can be ended; and signals as a shell
  // has them, whatever this process does about them.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  char *words[] = {shell.data(), flag.data(), command.data(), nullptr};
  int error = posix_spawn(&child, shell.c_str(), &actions, &attributes, words,
                          environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error) {
    child = -1;
    return fail("cannot start '", printable(command), "': ", strerror(error));
  }
  // What it starts is as patient.
  (void)setpriority(PRIO_PGRP, id_t(child), 19);
  return {};
}

/// The last line that says something.
static std::string lastLine(const std::string &text) {
  size_t end = text.find_last_not_of("\n ");
  if (end == std::string::npos)
    return "";
  size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Expected<std::optional<std::string>> Agent::poll() {
  if (!isBusy())
    return std::optional<std::string>();
  int status = 0;
  pid_t ended = waitpid(child, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR))
    return std::optional<std::string>();
  child = -1;
  std::string plan = readAll(folder->path() + "/plan.so"),
              said = lastLine(readAll(folder->path() + "/log"));
  folder.reset();
  // Somebody else may have waited for it: then what it wrote has to tell.
  bool isWell = ended < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (isWell && !plan.empty())
    return std::optional(std::move(plan));
  return fail("'", printable(command), "' has made no plan",
              said.empty() ? "" : ": ", printable(said, 240));
}
