//===- Launcher.cpp - starting and watching the ranks of one machine ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parent waits for its children, for signals that ask it to stop, and for
// deadlines, in one loop (see StopSignals.h).
//
//===----------------------------------------------------------------------===//

#include "launch/Launcher.h"

#include "files/OutputFile.h"
#include "launch/StopSignals.h"
#include "report/FlightLog.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpcomm::run;

using Clock = std::chrono::steady_clock;

namespace {

class Launch {
public:
  explicit Launch(const LaunchPlan &plan) : plan(plan) {}
  ~Launch() {
    if (positions)
      munmap(positions, plan.ranks * sizeof(RankPosition));
  }

  int run();

private:
  struct Child {
    pid_t pid = -1;
    bool running = false;
  };

  bool createPositions();
  /// Forks rank `rank`. Returns the body's status in the child.
  std::optional<int> start(uint64_t rank, pid_t parent);
  void reap();
  void reportDeath(uint64_t rank, int status);
  void reportLost(uint64_t rank, const std::string &why);
  void stopSoon();
  void killAll(int signal);
  /// A signal has come: asks ranks that train to stop, or ends them.
  void takeStop(int signal);
  void checkStarted();
  void removeTemporaries();

  const LaunchPlan &plan;
  RankPosition *positions = nullptr;
  std::vector<Child> children;
  uint64_t running = 0;
  int exitStatus = 0;
  StopSignals signals;
  Clock::time_point startDeadline;
  /// When what is left will be killed; set by the first failure.
  std::optional<Clock::time_point> killDeadline;
  bool isStopping = false;
};

Clock::duration secondsOf(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds));
}

} // namespace

bool Launch::createPositions() {
  void *memory =
      mmap(nullptr, plan.ranks * sizeof(RankPosition), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  positions = static_cast<RankPosition *>(memory);
  for (uint64_t rank = 0; rank < plan.ranks; ++rank)
    new (&positions[rank]) RankPosition{};
  return true;
}

std::optional<int> Launch::start(uint64_t rank, pid_t parent) {
  pid_t pid = fork();
  if (pid < 0) {
    printError("cannot start rank " + std::to_string(rank) + ": " +
               std::strerror(errno));
    plan.markDead(rank, "could not be started");
    stopSoon();
    return std::nullopt;
  }
  if (pid > 0) {
    children[rank] = {pid, true};
    ++running;
    return std::nullopt;
  }
  // The parent may have died before the request took effect.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  // An interrupt from the terminal reaches the whole group; the parent decides.
  std::signal(SIGINT, SIG_IGN);
  sigprocmask(SIG_SETMASK, &signals.maskBefore(), nullptr);
  return plan.body(rank, positions[rank]);
}

void Launch::stopSoon() {
  exitStatus = exitStatus ? exitStatus : 1;
  if (killDeadline)
    return;
  killDeadline = Clock::now() + secondsOf(launchGraceSeconds);
  // Those that hang elsewhere would not write theirs.
  if (plan.recordsFlights)
    killAll(flightSignal);
}

void Launch::killAll(int signal) {
  for (const Child &child : children)
    if (child.running)
      kill(child.pid, signal);
}

void Launch::reportDeath(uint64_t rank, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  if (WIFEXITED(status) && WEXITSTATUS(status) > 128) {
    // All of them stop after the same step.
    if (exitStatus == 0)
      printError(describeStop(WEXITSTATUS(status) - 128));
    exitStatus = WEXITSTATUS(status);
    return;
  }
  // A rank that exits has said why; one that was killed could not.
  if (WIFEXITED(status)) {
    plan.markDead(rank, "has stopped after an error");
    return stopSoon();
  }
  int signal = WTERMSIG(status);
  uint64_t step = positions[rank].step.load(std::memory_order_relaxed);
  std::string death = "was killed by signal " + std::to_string(signal) + " (" +
                      strsignal(signal) + ") " +
                      (step ? "in step " + std::to_string(step)
                            : std::string("before its first step"));
  plan.markDead(rank, death);
  // Those that the parent itself kills are no news.
  if (!(killDeadline && Clock::now() >= *killDeadline))
    printError("rank " + std::to_string(rank) + " " + death);
  stopSoon();
}

/// Somebody else has taken the status: how the rank ended is not known.
void Launch::reportLost(uint64_t rank, const std::string &why) {
  printError("rank " + std::to_string(rank) + " (process " +
             std::to_string(children[rank].pid) +
             ") is gone without a status: " + why);
  plan.markDead(rank, "is gone");
  stopSoon();
}

void Launch::reap() {
  for (uint64_t rank = 0; rank < children.size(); ++rank) {
    Child &child = children[rank];
    int status = 0;
    pid_t ended = child.running ? waitpid(child.pid, &status, WNOHANG) : 0;
    if (ended == 0 || (ended < 0 && errno == EINTR))
      continue;
    child.running = false;
    --running;
    if (ended > 0)
      reportDeath(rank, status);
    else
      reportLost(rank, std::strerror(errno));
  }
}

void Launch::checkStarted() {
  if (killDeadline || Clock::now() < startDeadline)
    return;
  for (uint64_t rank = 0; rank < children.size(); ++rank) {
    if (!children[rank].running || positions[rank].started.load())
      continue;
    printError("rank " + std::to_string(rank) + " (process " +
               std::to_string(children[rank].pid) + ") did not start within " +
               std::to_string(static_cast<uint64_t>(plan.timeoutSeconds + 1)) +
               " s");
    plan.markDead(rank, "did not start");
    stopSoon();
  }
  startDeadline = Clock::time_point::max();
}

void Launch::removeTemporaries() {
  for (const std::string &path : plan.writtenFiles) {
    removeAbandoned(path);
    // Of a lock that a rank had, this takes over what is left, and removes it.
    (void)OutputLock::take(path);
  }
}

void Launch::takeStop(int signal) {
  bool canStop = !isStopping && !killDeadline;
  for (uint64_t rank = 0; rank < children.size(); ++rank)
    canStop &= !children[rank].running || positions[rank].stopsWhenAsked.load();
  isStopping = true;
  if (!canStop) {
    printError(describeStop(signal));
    exitStatus = 128 + signal;
    killDeadline = Clock::now();
    return;
  }
  for (uint64_t rank = 0; rank < children.size(); ++rank)
    positions[rank].stopSignal.store(signal);
}

int Launch::run() {
  children.resize(plan.ranks);
  if (!createPositions()) {
    printError(std::string("cannot map memory for the ranks: ") +
               std::strerror(errno));
    return 1;
  }
  startDeadline = Clock::now() + secondsOf(plan.timeoutSeconds + 1);
  pid_t parent = getpid();
  for (uint64_t rank = 0; rank < plan.ranks && !killDeadline; ++rank)
    if (std::optional<int> result = start(rank, parent))
      return *result;
  plan.started();

  while (running > 0) {
    if (int signal = signals.wait(std::chrono::milliseconds(100)))
      takeStop(signal);
    if (plan.recordsFlights && takeFlightSignal())
      killAll(flightSignal);
    reap();
    checkStarted();
    if (killDeadline && Clock::now() >= *killDeadline)
      killAll(SIGKILL);
  }
  if (exitStatus)
    removeTemporaries();
  return exitStatus;
}

int mpcomm::run::launch(const LaunchPlan &plan) {
  Launch launch(plan);
  return launch.run();
}

void mpcomm::run::printError(const std::string &message) {
  std::string line = "mpcomm-run: error: " + message + "\n";
  size_t done = 0;
  while (done < line.size()) {
    ssize_t put = write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return;
    done += static_cast<size_t>(put);
  }
}
