//===- GlooCommunicator.cpp - the thread of a communicator ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives.cpp is what the thread does for each kind.
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/GlooCommunicator.h"

#include "comm/Validate.h"
#include "support/Trace.h"
#include "support/Urgent.h"

#include <chrono>
#include <csignal>
#include <pthread.h>

using namespace mprt;

/// How long a rank that lost a connection waits for the news that tells why.
/// Whoever broke it tells as soon as it gets to run, which on a busy machine
/// may be a while; there is none only where a network fails between two that
/// live.
static constexpr double newsSeconds = 10;

GlooCommunicator::GlooCommunicator(
    std::vector<unsigned> group, unsigned rank,
    std::unique_ptr<GlooLinks> links, control::Client &control,
    std::vector<std::unique_ptr<GlooLinks>> &retired)
    : Communicator(std::move(group), rank), links(std::move(links)),
      control(control), retired(retired), headers(this->group.size()),
      awaited(this->group.size()), lastCalls(this->group.size()) {
  if (this->links)
    this->links->onMove = [this] { noteMove(); };
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { threadMain(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

GlooCommunicator::~GlooCommunicator() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    stopping = true;
    work.notify_all();
  }
  if (links)
    links->stop();
  thread.join();
  if (!links)
    return;
  links->onMove = nullptr;
  retired.push_back(std::move(links));
}

//===----------------------------------------------------------------------===//
// From the context
//===----------------------------------------------------------------------===//

Error GlooCommunicator::start(const mprt_collective &collective,
                              const void *send, void *recv) {
  std::lock_guard<std::mutex> guard(mutex);
  jobs.push_back({&collective, static_cast<const uint8_t *>(send),
                  static_cast<uint8_t *>(recv)});
  work.notify_one();
  return {};
}

Error GlooCommunicator::progress(bool &moved) {
  uint64_t now = moves.load(std::memory_order_acquire);
  if (now == seenMoves.load(std::memory_order_relaxed))
    return {};
  seenMoves.store(now, std::memory_order_relaxed);
  moved = true;
  finished = done.load(std::memory_order_acquire);
  std::lock_guard<std::mutex> guard(mutex);
  if (!failure || failureTold)
    return {};
  failureTold = true;
  return failure;
}

bool GlooCommunicator::waitForMove(double seconds) {
  std::unique_lock<std::mutex> guard(mutex);
  changed.wait_for(guard, std::chrono::duration<double>(seconds), [&] {
    return moves.load(std::memory_order_relaxed) !=
           seenMoves.load(std::memory_order_relaxed);
  });
  return true;
}

std::optional<Communicator::Span> GlooCommunicator::takeSpan() {
  std::lock_guard<std::mutex> guard(mutex);
  if (spans.empty())
    return std::nullopt;
  Span span = spans.front();
  spans.pop_front();
  return span;
}

bool GlooCommunicator::isMissing(unsigned r) const {
  Lane lane = paired.load() ? Lane::PairHeader : Lane::Header;
  return awaited[r].load() && !(arriving.load() && links->hasHeader(lane, r));
}

std::vector<unsigned> GlooCommunicator::waitingFor() const {
  // Ranks that have called this collective finish it before they leave.
  std::vector<unsigned> ranks;
  for (unsigned r = 0; r < size() && arriving.load(); ++r)
    if (isMissing(r))
      ranks.push_back(group[r]);
  return ranks;
}

std::string GlooCommunicator::describePeers() const {
  std::string present, absent;
  bool headersMissing = arriving.load();
  std::lock_guard<std::mutex> guard(mutex);
  for (unsigned r = 0; r < size(); ++r) {
    std::string name = std::to_string(group[r]);
    if (!isMissing(r)) {
      present += (present.empty() ? "" : ", ") + name;
      continue;
    }
    absent += (absent.empty() ? "" : ", ") + name;
    if (!headersMissing)
      continue;
    absent += headers[r].load() == 0 ? " (has called no collective here yet)"
                                     : " (last called " + lastCalls[r] + ")";
  }
  return "ranks that arrived: " + present +
         (headersMissing ? "; ranks that did not arrive: "
                         : "; ranks that did not finish: ") +
         absent;
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

void GlooCommunicator::noteMove() {
  std::lock_guard<std::mutex> guard(mutex);
  moves.fetch_add(1, std::memory_order_release);
  changed.notify_all();
}

void GlooCommunicator::fail(const Error &error) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    failure = error;
  }
  noteMove();
  if (links)
    links->disconnect();
}

Error GlooCommunicator::lostPeer(const Job &job, const PeerLost &lost) {
  unsigned peer = group[lost.peer];
  std::string what = describe(*job.call) + " on rank " +
                     std::to_string(group[groupRank]) + ": ";
  // Whoever closed the connection may be a victim as well: the news tells.
  if (std::optional<Error> news = control.waitForFailure(newsSeconds))
    return news->withContext(what);
  if (control.hasLeft(peer, 0))
    return makeError(MPRT_PEER_FAILED, what, "rank ", peer,
                     " has left after fewer collectives")
        .ofRank(peer);
  return makeError(MPRT_PEER_FAILED, what, "the connection to rank ", peer,
                   " broke: ", lost.what)
      .ofRank(peer);
}

void GlooCommunicator::threadMain() {
  becomeUrgent();
  while (true) {
    Job job;
    {
      std::unique_lock<std::mutex> guard(mutex);
      work.wait(guard, [&] { return stopping || !jobs.empty(); });
      if (stopping)
        return;
      job = jobs.front();
      jobs.pop_front();
    }
    uint64_t begin = nowNanoseconds();
    try {
      if (links)
        run(job);
      else
        runAlone(job);
    } catch (const Stopped &) {
      links->disconnect();
      return;
    } catch (const PeerLost &lost) {
      return fail(lostPeer(job, lost));
    } catch (const Error &mismatch) {
      return fail(mismatch);
    } catch (const std::exception &error) {
      return fail(makeError(MPRT_INTERNAL, describe(*job.call), " on rank ",
                            group[groupRank], ": ", error.what()));
    }
    {
      std::lock_guard<std::mutex> guard(mutex);
      // Nobody may ask; a bounded number of them is kept.
      if (spans.size() == 4096)
        spans.pop_front();
      spans.push_back({begin, nowNanoseconds()});
    }
    done.fetch_add(1, std::memory_order_release);
    noteMove();
  }
}
