//===- Rank.cpp - one process among the ranks of a run --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Thin: everything that takes time is in the runtime.
//
//===----------------------------------------------------------------------===//

#include "launch/Rank.h"

#include "launch/Environment.h"

#include "comm/Registry.h"
#include "session/Mesh.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

using namespace mpcomm::run;

namespace {

/// Events that a trace keeps on each rank, 15 MB.
constexpr uint32_t traceCapacity = 1u << 18;

} // namespace

Result<Rank> Rank::create(std::unique_ptr<mprt::Transport> transport,
                          double timeoutSeconds) {
  Rank rank;
  rank.transport = std::move(transport);
  rank.timeout = timeoutSeconds;
  auto meeting = mprt::Meeting::create(*rank.transport, timeoutSeconds);
  if (!meeting) {
    // Before the transport goes, which would wait for the others.
    rank.transport->reportFailure(meeting.error());
    return meeting.error();
  }
  rank.meeting = meeting.take();
  return rank;
}

Status Rank::openDevice(const Manifest &manifest, const mprt_image *images) {
  mprt::DeviceOptions options;
  options.localRank = static_cast<unsigned>(
      localRankFromEnvironment().value_or(index() % localRanks()));
  options.communicators = static_cast<uint32_t>(manifest.communicators.size());
  options.images = images;
  options.scratchBytes = manifest.scratchBytes;
  auto made = mprt::createDevice(manifest.device, options);
  if (!made)
    return fail("--device ", manifest.device, ": ", made.error().message());
  computes = made.take();
  return {};
}

void Rank::prepareNccl(const Manifest &manifest) {
  // Two GPUs that have no room for the kernels of both of two communicators may
  // each run the one that the other waits for. Ranks that run the same run it
  // in one order; others have been proved to match without one.
  if (std::all_of(
          manifest.functions.begin(), manifest.functions.end(),
          [](const ManifestFunction &f) { return f.coordinates.empty(); }))
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
}

Status Rank::openNccl() {
  mprt::MoverOptions options;
  options.meeting = transport.get();
  options.device = computes.get();
  options.timeoutSeconds = timeout;
  // A rank may be moved, what it is on is not.
  gatherAll = [all = meeting.get()](const void *mine, void *theirs,
                                    uint64_t bytes) {
    return all->gather(mine, theirs, bytes);
  };
  options.gather = gatherAll;
  auto joined = mprt::findBackend("nccl")->move(options);
  if (!joined)
    return fail("--comm nccl: ", joined.error().message());
  mover = joined.take();
  return {};
}

Status Rank::createContext(const Manifest &manifest, uint32_t events,
                           bool traces, uint32_t flights) {
  std::vector<unsigned> sizes;
  for (const ManifestAxis &axis : manifest.axes)
    sizes.push_back(static_cast<unsigned>(axis.size));
  std::vector<std::unique_ptr<mprt::Communicator>> communicators;
  // Those of one group and several channels are several.
  for (const ManifestCommunicator &wanted : manifest.communicators) {
    std::vector<unsigned> spanned(wanted.axes.begin(), wanted.axes.end());
    auto communicator = (mover ? mover : transport)
                            ->createCommunicator(mprt::groupOf(
                                sizes, spanned, transport->rank()));
    if (!communicator)
      return communicator.error();
    communicators.push_back(communicator.take());
  }
  mprt::ContextOptions options;
  options.events = events;
  options.timeoutSeconds = timeout;
  options.traceCapacity = traces ? traceCapacity : 0;
  options.flightCapacity = flights;
  options.device = computes.get();
  // Ranks that measure call what they call as often as they like.
  if (!manifest.functions.empty())
    options.gather = gatherAll;
  auto context =
      mprt::Context::create(options, transport.get(), std::move(communicators));
  if (!context)
    return context.error();
  program = context.take();
  return {};
}

Result<void *> Rank::allocateArena(uint64_t bytes) {
  uint64_t wanted = std::max<uint64_t>(bytes, 64);
  auto memory = mover                        ? mover->allocate(wanted)
                : computes->isAsynchronous() ? computes->allocate(wanted)
                                             : transport->allocate(wanted);
  if (!memory)
    return fail("rank ", index(), ": arena of ", bytes,
                " bytes: ", memory.error().message());
  return *memory;
}

Status Rank::gather(const void *mine, void *all, uint64_t bytes) {
  return meeting->gather(mine, all, bytes);
}

Result<std::vector<std::string>> Rank::gatherText(const std::string &mine,
                                                  const char *what) {
  uint64_t bytes = mine.size();
  std::vector<uint64_t> all(size());
  if (Status status = gather(&bytes, all.data(), sizeof(bytes));
      status.failed())
    return status;
  std::vector<std::string> texts(size());
  texts[index()] = mine;
  for (uint64_t from = 1; from < size(); ++from) {
    Status status;
    if (all[from] && index() == 0) {
      texts[from].resize(all[from]);
      status = receive(from, texts[from].data(), all[from], what);
    } else if (all[from] && index() == from) {
      status = send(0, mine.data(), bytes, what);
    }
    if (status.failed())
      return status;
  }
  return texts;
}

Status Rank::agree(const Status &mine) {
  uint8_t failed = mine.failed();
  std::vector<uint8_t> all(size());
  if (Status status = gather(&failed, all.data(), 1); status.failed())
    return mine.failed() ? mine : status;
  for (uint64_t rank = 0; rank < all.size(); ++rank)
    if (all[rank])
      return rank == index() ? mine : fail("");
  return {};
}

Status Rank::describeFailure(const std::string &function,
                             int32_t status) const {
  mprt::Error error = program->error();
  if (error)
    return fail(function, ": ", error.message());
  return fail("rank ", index(), ": ", function, " returned status ", status,
              " without an error of the runtime");
}

std::vector<TraceEvent> Rank::traceEvents() const {
  std::vector<TraceEvent> events;
  for (const mprt::TraceEvent &event : program->trace().events())
    events.push_back({event.stream, mprt::nameOf(event.kind), event.name,
                      event.location, event.begin, event.end, event.bytes,
                      event.queued, event.position, event.waitedStream,
                      event.collective, event.flops, event.type});
  return events;
}

void Rank::reportFailure(const std::string &message) {
  transport->reportFailure(mprt::Error(MPRT_PEER_FAILED, message));
}

void Rank::abandon() {
  std::fflush(stdout);
  _exit(1);
}
