//===- FaultCases.cpp - ranks that disagree, stall or die -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each case has a world of three ranks of its own, since a failure ends one.
// Every surviving rank checks its status, the words of its message and that it
// did not take until a timeout, and ends its process with 0 where all is as it
// should be. What has to have happened first is waited for in memory that the
// ranks share beside what is tested: a busy machine may delay each of them at
// any place.
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"

#include "comm/gloo/Gloo.h"
#include "comm/shm/SharedRanks.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mprt;
using namespace mprt::cts;

namespace {

constexpr unsigned numRanks = 3;
constexpr uint64_t count = 30000;
/// Seconds without movement until a timeout: far longer than a rank takes to
/// learn of a failure, however busy the machine is.
constexpr double longTimeout = 100, shortTimeout = 2;
/// Seconds in which a failure is known, and ranks meet.
constexpr double patience = 50;

/// How many ranks of the present case have come so far.
struct Meeting {
  std::atomic<unsigned> arrived{0};
};

struct Fault {
  const char *name;
  double timeout;
  /// What rank r does; returns its number of failures.
  unsigned (*body)(Rank &rank);
  /// What the launcher does after starting them, if anything.
  void (*launcher)(shm::SharedRanks &world, const pid_t *pids);
  /// The rank that kills itself; every other one ends in order.
  int victim = -1;
};

} // namespace

static mprt_collective sum(uint64_t elements, const char *name) {
  mprt_collective c{};
  c.id = 5;
  c.kind = MPRT_ALL_REDUCE;
  c.type = c.accumulate = MPRT_F32;
  c.peer = -1;
  c.count = elements;
  c.name = name;
  c.location = "model.py:12";
  return c;
}

static double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// In memory that the ranks map at one address; made before they are forked.
static Meeting *meeting = nullptr;

static void arrive() { meeting->arrived.fetch_add(1); }

static void waitForArrivals(Rank &rank, unsigned expected) {
  double end = seconds() + patience;
  while (meeting->arrived < expected && seconds() < end)
    usleep(1000);
  rank.expect(meeting->arrived >= expected,
              "waited in vain for " + std::to_string(expected) + " arrivals");
}

static void expectError(Rank &rank, const Error &error, mprt_status status,
                        std::initializer_list<const char *> words) {
  rank.expect(error.status() == status,
              std::string("expected ") + nameOf(status) + ", found " +
                  nameOf(error.status()) + ": " + error.message());
  for (const char *word : words)
    rank.expect(error.message().find(word) != std::string::npos,
                std::string("expected '") + word + "' in: " + error.message());
}

/// A descriptor outlives the context, and with it the body of a case.
static const mprt_collective &keep(const mprt_collective &collective) {
  static std::deque<mprt_collective> kept;
  return kept.emplace_back(collective);
}

/// Runs `collective` and expects it to fail with `status`, with all of `words`
/// in the message.
static void expectFailure(Rank &rank, const mprt_collective &passed,
                          mprt_status status,
                          std::initializer_list<const char *> words) {
  const mprt_collective &collective = keep(passed);
  double begin = seconds();
  uint8_t *data = rank.arenaBuffer();
  bool isInPlace = passed.kind < MPRT_PERMUTE;
  void *to = data + (isInPlace ? 0 : Rank::arenaBytes / 2);
  Error error = rank.owner().run(collective, data, to);
  double took = seconds() - begin;
  expectError(rank, error, status, words);
  rank.expect(took < patience, "took " + std::to_string(took) + " s");
  // What comes after returns the same and does nothing.
  mprt_status again =
      mprt_collective_run(rank.context(), 1, &collective, data, to);
  rank.expect(again == status, "the error is not sticky");
  rank.expect(mprt_message_of(rank.context()) == error.message(),
              "the message changed");
}

static unsigned mismatchBody(Rank &rank) {
  rank.begin("mismatch");
  mprt_collective c = sum(rank.rank(0) == 1 ? count + 1 : count,
                          rank.rank(0) == 1 ? "other" : "grads");
  expectFailure(rank, c, MPRT_MISMATCH,
                {"grads", "other", "model.py:12", "30001", "30000"});
  return rank.numFailures();
}

static unsigned differentKindBody(Rank &rank) {
  rank.begin("different kinds");
  mprt_collective c = sum(count, "grads");
  if (rank.rank(0) == 2) {
    c.kind = MPRT_BARRIER;
    c.name = "end";
  }
  expectFailure(rank, c, MPRT_MISMATCH, {"grads", "end", "barrier"});
  return rank.numFailures();
}

static unsigned accumulationBody(Rank &rank) {
  rank.begin("sums kept in different types");
  mprt_collective c = sum(count, "grads");
  if (rank.rank(0) == 2)
    c.accumulate = MPRT_F64;
  expectFailure(rank, c, MPRT_MISMATCH,
                {"30000 x f32, id 5", "30000 x f32, kept in f64, id 5"});
  return rank.numFailures();
}

static unsigned targetsBody(Rank &rank) {
  static const int32_t ring[] = {1, 2, 0}, back[] = {2, 0, 1};
  rank.begin("different targets");
  mprt_collective c = sum(count, "edge");
  c.kind = MPRT_PERMUTE;
  c.targets = rank.rank(0) == 1 ? back : ring;
  c.num_targets = numRanks;
  expectFailure(rank, c, MPRT_MISMATCH,
                {"permute \"edge\" at model.py:12", "targets with hash"});
  return rank.numFailures();
}

static unsigned rootsBody(Rank &rank) {
  rank.begin("different roots");
  mprt_collective c = sum(count, "edge");
  c.kind = MPRT_REDUCE;
  c.peer = rank.rank(0) == 1 ? 1 : 0;
  expectFailure(rank, c, MPRT_MISMATCH,
                {"reduce \"edge\" at model.py:12", "root 0", "root 1"});
  return rank.numFailures();
}

static unsigned wrongMessageBody(Rank &rank) {
  rank.begin("send and recv that do not match");
  mprt_collective c = sum(10, "edge");
  if (rank.rank(0) == 2)
    return 0;
  c.kind = rank.rank(0) == 0 ? MPRT_SEND : MPRT_RECV;
  c.peer = rank.rank(0) == 0 ? 1 : 0;
  if (rank.rank(0) == 1) {
    c.count = 11;
    expectFailure(rank, c, MPRT_MISMATCH, {"edge", "10 x f32", "11 x f32"});
    return rank.numFailures();
  }
  // The send itself may have gone before rank 1 tells what is wrong.
  if (Error error = rank.owner().run(keep(c), rank.arenaBuffer(), nullptr)) {
    expectError(rank, error, MPRT_MISMATCH, {"rank 1", "11 x f32"});
    return rank.numFailures();
  }
  c.kind = MPRT_RECV;
  expectFailure(rank, c, MPRT_MISMATCH, {"rank 1", "11 x f32"});
  return rank.numFailures();
}

static unsigned timeoutBody(Rank &rank) {
  rank.begin("timeout");
  arrive();
  if (rank.rank(0) == 2) { // is there, but does not call
    waitForArrivals(rank, numRanks + 2);
    return rank.numFailures();
  }
  // What happens to one while the other is not there yet is another case.
  waitForArrivals(rank, numRanks);
  double begin = seconds();
  Error error = rank.owner().run(keep(sum(count, "grads")), rank.arenaBuffer(),
                                 rank.arenaBuffer());
  double took = seconds() - begin;
  bool first = error.status() == MPRT_TIMEOUT;
  // The other of the two may be told by the first.
  rank.expect(first || error.status() == MPRT_PEER_FAILED,
              std::string("found ") + nameOf(error.status()));
  for (const char *word :
       {"all_reduce", "grads", "model.py:12", "ranks that arrived: 0, 1",
        "ranks that did not arrive: 2 (has called no collective here yet)"})
    rank.expect(error.message().find(word) != std::string::npos,
                std::string("expected '") + word + "' in: " + error.message());
  rank.expect((!first || took > 0.9 * shortTimeout) &&
                  took < shortTimeout + patience,
              "took " + std::to_string(took) + " s");
  arrive();
  return rank.numFailures();
}

static unsigned crossedBody(Rank &rank) {
  rank.begin("receives that wait for one another");
  arrive();
  if (rank.rank(0) == 2) { // leaves when the others are done
    waitForArrivals(rank, numRanks + 2);
    return rank.numFailures();
  }
  waitForArrivals(rank, numRanks);
  unsigned peer = 1 - rank.rank(0);
  const char *const calls[] = {"recv \"B0\" at model.py:12",
                               "recv \"F0\" at model.py:12"};
  mprt_collective c = sum(count, rank.rank(0) == 0 ? "B0" : "F0");
  c.kind = MPRT_RECV;
  c.peer = int32_t(peer);
  Error error = rank.owner().run(keep(c), nullptr, rank.arenaBuffer());
  bool first = error.status() == MPRT_TIMEOUT;
  expectError(rank, error, first ? MPRT_TIMEOUT : MPRT_PEER_FAILED,
              {calls[1 - peer], "(its collective 1)", "timed out"});
  // The second is told by the first; over shared memory the first can see.
  bool sees = std::string(rank.transport().name()) == "shm";
  if (sees || !first)
    expectError(rank, error, error.status(), {calls[peer]});
  arrive();
  return rank.numFailures();
}

static unsigned deathBody(Rank &rank) {
  rank.begin("death");
  if (rank.owner().run(keep(sum(count, "first")), rank.arenaBuffer(),
                       rank.arenaBuffer()))
    rank.fail("the first collective failed");
  arrive();
  if (rank.rank(0) == 1) {
    // The others would lose the first to the news, too.
    waitForArrivals(rank, numRanks);
    kill(getpid(), SIGKILL);
  }
  expectFailure(rank, sum(count, "second"), MPRT_PEER_FAILED,
                {"second", "rank 1", "died"});
  return rank.numFailures();
}

static unsigned leftBody(Rank &rank) {
  rank.begin("left");
  if (rank.rank(0) == 1)
    return 0;
  expectFailure(rank, sum(count, "grads"), MPRT_PEER_FAILED,
                {"grads", "rank 1", "left"});
  return rank.numFailures();
}

static unsigned markedBody(Rank &rank) {
  rank.begin("marked by the launcher");
  if (rank.rank(0) == 0) {
    raise(SIGSTOP); // alive as far as anyone can see
    return 0;
  }
  expectFailure(rank, sum(count, "grads"), MPRT_PEER_FAILED,
                {"grads", "rank 0", "was given up"});
  return rank.numFailures();
}

static void markStopped(shm::SharedRanks &world, const pid_t *pids) {
  int status = 0;
  waitpid(pids[0], &status, WUNTRACED);
  world.markDead(0, "was given up");
  kill(pids[0], SIGCONT);
}

static unsigned reportedBody(Rank &rank) {
  rank.begin("reported by a rank");
  if (rank.rank(0) == 2) {
    rank.owner().fail(Error(MPRT_IO_ERROR, "the disk is full"));
    waitForArrivals(rank, 2); // does not leave before
    return rank.numFailures();
  }
  expectFailure(rank, sum(count, "grads"), MPRT_PEER_FAILED,
                {"grads", "rank 2", "the disk is full"});
  arrive();
  return rank.numFailures();
}

static unsigned invalidBody(Rank &rank) {
  rank.begin("invalid arguments");
  mprt_collective c = sum(count, "grads");
  c.kind = MPRT_BROADCAST;
  c.peer = int32_t(numRanks);
  expectFailure(rank, c, MPRT_INVALID_ARGUMENT,
                {"grads", "expected a rank of the group (0 to 2), found 3"});
  return rank.numFailures();
}

static unsigned integerMeanBody(Rank &rank) {
  rank.begin("mean of integers");
  mprt_collective c = sum(count, "counts");
  c.type = c.accumulate = MPRT_I32;
  c.reduction = MPRT_MEAN;
  expectFailure(rank, c, MPRT_UNSUPPORTED,
                {"counts", "mean of i32 is not supported"});
  return rank.numFailures();
}

/// The ranks of one case meet over shared memory, or over TCP.
static Expected<std::unique_ptr<Transport>>
joinWorld(shm::SharedRanks *world, GlooOptions options, unsigned rank) {
  if (world)
    return world->join(rank);
  options.rank = rank;
  options.timeoutSeconds = patience;
  return joinGloo(options);
}

static unsigned runFault(const Fault &fault, bool overGloo) {
  std::unique_ptr<shm::SharedRanks> world;
  GlooOptions options;
  Error problem;
  if (overGloo) {
    options.size = numRanks;
    Expected<int> listener = listenOnLoopback(options.port);
    if (listener)
      options.listener = *listener;
    problem = listener.error();
  } else {
    auto made = shm::SharedRanks::create(numRanks, shm::SharedRanksOptions{});
    if (made)
      world = made.take();
    problem = made.error();
  }
  if (problem) {
    fprintf(stderr, "FAILED %s: %s\n", fault.name, problem.message().c_str());
    return 1;
  }
  new (meeting) Meeting();
  pid_t pids[numRanks];
  for (unsigned r = 0; r < numRanks; ++r) {
    pids[r] = fork();
    if (pids[r] == 0) {
      unsigned failures = 1;
      Expected<std::unique_ptr<Transport>> transport =
          joinWorld(world.get(), options, r);
      if (transport) {
        ContextOptions options;
        options.events = 1;
        options.timeoutSeconds = fault.timeout;
        Expected<std::unique_ptr<Rank>> rank =
            Rank::create(**transport, options);
        if (rank)
          failures = fault.body(**rank);
      }
      if (transport)
        (*transport).reset(); // leaves, as an orderly end does
      _exit(failures ? 1 : 0);
    }
  }
  if (overGloo)
    close(options.listener);
  else if (fault.launcher)
    fault.launcher(*world, pids);
  unsigned failures = 0;
  for (unsigned r = 0; r < numRanks; ++r) {
    int status = 0;
    waitpid(pids[r], &status, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool meant = int(r) == fault.victim ? killed : status == 0;
    if (!meant) {
      ++failures;
      fprintf(stderr, "FAILED %s: rank %u ended with status %d\n", fault.name,
              r, status);
    }
  }
  return failures;
}

unsigned mprt::cts::runFaultCases(bool overGloo) {
  const Fault faults[] = {
      {"mismatch", longTimeout, mismatchBody, nullptr},
      {"different kinds", longTimeout, differentKindBody, nullptr},
      {"accumulation", longTimeout, accumulationBody, nullptr},
      {"targets", longTimeout, targetsBody, nullptr},
      {"roots", longTimeout, rootsBody, nullptr},
      {"wrong message", longTimeout, wrongMessageBody, nullptr},
      {"timeout", shortTimeout, timeoutBody, nullptr},
      {"crossed", shortTimeout, crossedBody, nullptr},
      {"death", longTimeout, deathBody, nullptr, /*victim=*/1},
      {"left", longTimeout, leftBody, nullptr},
      {"marked", longTimeout, markedBody, markStopped},
      {"reported", longTimeout, reportedBody, nullptr},
      {"invalid", longTimeout, invalidBody, nullptr},
      {"integer mean", longTimeout, integerMeanBody, nullptr},
  };
  void *memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  meeting = static_cast<Meeting *>(memory);
  unsigned failures = 0, cases = 0;
  for (const Fault &fault : faults) {
    // Over TCP a rank that is stopped is one that does not come.
    if (overGloo && fault.launcher)
      continue;
    ++cases;
    failures += runFault(fault, overGloo);
  }
  munmap(memory, sizeof(Meeting));
  printf("%s, faults: %u cases, %u failures\n", overGloo ? "gloo" : "shm",
         cases, failures);
  return failures;
}

unsigned mprt::cts::runMismatchCase(Transport &transport) {
  ContextOptions options;
  options.events = 1;
  Expected<std::unique_ptr<Rank>> rank = Rank::create(transport, options);
  if (!rank)
    return 1;
  unsigned failures = mismatchBody(**rank);
  printf("%s, rank %u: mismatch %s\n", transport.name(), transport.rank(),
         failures ? "was not reported well" : "was reported");
  fflush(stdout);
  return failures;
}
