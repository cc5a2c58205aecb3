//===- SharedRanks.cpp - ranks of one machine in shared memory -----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/shm/SharedRanks.h"

#include "comm/shm/Layout.h"
#include "comm/shm/ShmTransport.h"
#include "support/Backoff.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace mprt;
using namespace mprt::shm;

/// The least address space for a rank's arena that is worth starting with.
static constexpr uint64_t minArenaBytes = uint64_t(64) << 20;

static uint64_t roundToPages(uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

void Segment::recordFailure(unsigned r, mprt_status status,
                            const std::string &message) const {
  RankRecord &record = rank(r);
  if (record.claimed.exchange(1, std::memory_order_acq_rel))
    return;
  record.status = status;
  copyText(record.message, sizeof(record.message), message);
  record.phase.store(RankPhase::Failed, std::memory_order_release);
  uint32_t none = 0;
  world().firstFailed.compare_exchange_strong(none, r + 1,
                                              std::memory_order_acq_rel);
}

Error Segment::failureOf(unsigned r) const {
  const RankRecord &record = rank(r);
  // A mismatch is everybody's; the rest is that rank's own affair.
  mprt_status status =
      record.status == MPRT_MISMATCH ? MPRT_MISMATCH : MPRT_PEER_FAILED;
  return makeError(status, "rank ", r, " failed: ", record.message).ofRank(r);
}

SharedRanks::SharedRanks(std::unique_ptr<Segment> segment)
    : segment(std::move(segment)) {}

SharedRanks::~SharedRanks() {
  munmap(segment->base, segment->bytes);
  close(segment->fd);
}

unsigned SharedRanks::size() const { return segment->ranks; }

Expected<std::unique_ptr<SharedRanks>>
SharedRanks::create(unsigned ranks, const SharedRanksOptions &options) {
  if (ranks == 0 || ranks > maxRanks)
    return makeError(MPRT_INVALID_ARGUMENT, "expected 1 to ", maxRanks,
                     " ranks, found ", ranks);
  int fd = memfd_create("mpcomm", MFD_CLOEXEC);
  if (fd < 0)
    return makeError(MPRT_IO_ERROR,
                     "cannot make shared memory: ", strerror(errno));

  auto segment = std::make_unique<Segment>();
  segment->ranks = ranks;
  segment->slots = options.communicators;
  segment->inlineLimit =
      ranks > availableCores() ? inlineBytes : sharedInlineBytes;
  segment->memberBytes =
      roundToPages(sizeof(ShmMember) + uint64_t(ranks) * sizeof(Channel));
  segment->fd = fd;
  segment->launcher = getpid();
  void *base = MAP_FAILED;
  for (uint64_t arena = roundToPages(options.arenaBytes);; arena /= 2) {
    segment->arenaBytes = roundToPages(arena);
    segment->bytes =
        segment->arenasOffset() + uint64_t(ranks) * segment->arenaBytes;
    if (ftruncate(fd, off_t(segment->bytes)) == 0)
      base = mmap(nullptr, segment->bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base != MAP_FAILED || arena / 2 < minArenaBytes)
      break;
  }
  if (base == MAP_FAILED) {
    int reason = errno;
    close(fd);
    return makeError(MPRT_OUT_OF_MEMORY, "cannot reserve ", segment->bytes,
                     " bytes of shared address space for ", ranks,
                     " ranks: ", strerror(reason));
  }
  segment->base = static_cast<uint8_t *>(base);
  // A core dump of the sparse mapping would be of no use. Large pages are a
  // wish that not every kernel grants.
  madvise(base, segment->bytes, MADV_DONTDUMP);
  madvise(segment->arena(0), uint64_t(ranks) * segment->arenaBytes,
          MADV_HUGEPAGE);
  return std::unique_ptr<SharedRanks>(new SharedRanks(std::move(segment)));
}

void SharedRanks::markDead(unsigned rank, const std::string &reason) {
  if (rank < segment->ranks)
    segment->recordFailure(rank, MPRT_PEER_FAILED, reason);
}

Expected<std::unique_ptr<Transport>> SharedRanks::join(unsigned rank) {
  if (rank >= segment->ranks)
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", rank,
                     " cannot join a world of ", segment->ranks, " ranks");
  RankRecord &record = segment->rank(rank);
  RankPhase absent = RankPhase::Absent;
  record.pid.store(getpid(), std::memory_order_relaxed);
  if (!record.phase.compare_exchange_strong(absent, RankPhase::Joined,
                                            std::memory_order_acq_rel))
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", rank,
                     " has joined before or was given up");
  return std::unique_ptr<Transport>(new ShmTransport(*segment, rank));
}

static Expected<std::unique_ptr<LocalRanks>> prepare(unsigned ranks, double) {
  Expected<std::unique_ptr<SharedRanks>> made = SharedRanks::create(ranks, {});
  if (!made)
    return made.error();
  return std::unique_ptr<LocalRanks>(made.take());
}

namespace mprt {
extern const Backend shmBackend;
const Backend shmBackend = {"shm", SharedRanks::maxRanks, prepare, nullptr,
                            nullptr};
} // namespace mprt
