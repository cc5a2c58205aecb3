//===- ShmTransport.cpp - a rank in a world of shared memory --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/shm/ShmTransport.h"

#include "comm/shm/ShmCommunicator.h"
#include "support/Pages.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mprt;
using namespace mprt::shm;

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

ShmTransport::ShmTransport(Segment &segment, unsigned rank)
    : segment(segment), self(rank), pidfds(segment.ranks, -1) {}

ShmTransport::~ShmTransport() {
  RankPhase joined = RankPhase::Joined;
  segment.rank(self).phase.compare_exchange_strong(joined, RankPhase::Left,
                                                   std::memory_order_acq_rel);
  for (int fd : pidfds)
    if (fd >= 0)
      close(fd);
}

Expected<std::unique_ptr<Communicator>>
ShmTransport::createCommunicator(std::vector<unsigned> group) {
  auto position = std::find(group.begin(), group.end(), self);
  if (position == group.end() || !std::is_sorted(group.begin(), group.end()) ||
      group.back() >= segment.ranks)
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", self, " of ",
                     segment.ranks,
                     " cannot make a communicator of a group that is not "
                     "ascending or that it is not in");
  if (usedSlots == segment.slots)
    return makeError(MPRT_OUT_OF_MEMORY, "more than ", segment.slots,
                     " communicators");
  auto rank = unsigned(position - group.begin());
  return std::unique_ptr<Communicator>(
      new ShmCommunicator(segment, usedSlots++, std::move(group), rank));
}

Expected<void *> ShmTransport::allocate(uint64_t bytes) {
  uint64_t rounded = (bytes + 4095) / 4096 * 4096;
  if (rounded < bytes || rounded > segment.arenaBytes - allocated)
    return makeError(MPRT_OUT_OF_MEMORY, "rank ", self, ": cannot allocate ",
                     bytes, " bytes of shared memory: ",
                     segment.arenaBytes - allocated, " are left");
  uint8_t *memory = segment.arena(self) + allocated;
  if (Error error = populate(memory, rounded))
    return makeError(MPRT_OUT_OF_MEMORY, "rank ", self,
                     ": shared memory: ", error.message());
  allocated += rounded;
  return static_cast<void *>(memory);
}

void ShmTransport::reportFailure(const Error &error) {
  segment.recordFailure(self, error.status(), error.message());
}

std::optional<Error> ShmTransport::reportedFailure() {
  uint32_t first = segment.world().firstFailed.load(std::memory_order_acquire);
  if (first == 0 || first - 1 == self)
    return std::nullopt;
  return segment.failureOf(first - 1);
}

std::optional<Error> ShmTransport::examineRank(unsigned r) {
  const RankRecord &record = segment.rank(r);
  RankPhase phase = record.phase.load(std::memory_order_acquire);
  if (phase == RankPhase::Failed)
    return segment.failureOf(r);
  if (phase == RankPhase::Left) {
    segment.recordFailure(r, MPRT_PEER_FAILED,
                          "it has left after fewer collectives");
    return segment.failureOf(r);
  }
  if (phase == RankPhase::Absent)
    return std::nullopt; // not there yet: that is what timeouts are for
  pid_t pid = record.pid.load(std::memory_order_relaxed);
  if (pid == getpid())
    return std::nullopt; // ranks as threads of one process, in tests
  bool dead = false;
  if (pidfds[r] < 0)
    pidfds[r] = int(syscall(SYS_pidfd_open, pid, 0));
  if (pidfds[r] >= 0) {
    pollfd entry{pidfds[r], POLLIN, 0};
    dead = poll(&entry, 1, 0) > 0;
  } else {
    dead = kill(pid, 0) != 0 && errno == ESRCH;
  }
  if (!dead ||
      record.phase.load(std::memory_order_acquire) != RankPhase::Joined)
    return std::nullopt; // an orderly end is seen in the next turn
  segment.recordFailure(r, MPRT_PEER_FAILED,
                        "process " + std::to_string(pid) + " died");
  return segment.failureOf(r);
}
