//===- Session.cpp - one process among the ranks that run a program -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include "comm/Transport.h"
#include "session/Meeting.h"
#include "session/Mesh.h"

#include <algorithm>

using namespace mprt;

Session::Session() = default;
Session::Session(Session &&) noexcept = default;
Session::~Session() = default;

Expected<Session> Session::meet(Expected<std::unique_ptr<Transport>> transport,
                                double timeoutSeconds) {
  if (!transport)
    return transport.error();
  Session session;
  session.transport = transport.take();
  session.timeout = timeoutSeconds;
  auto meeting = Meeting::create(*session.transport, timeoutSeconds);
  if (!meeting) {
    // Before the transport goes, which would wait for the others.
    session.transport->reportFailure(meeting.error());
    return meeting.error();
  }
  session.meeting = meeting.take();
  return session;
}

Expected<Session> Session::join(LocalRanks &ranks, unsigned rank,
                                double timeoutSeconds) {
  return meet(ranks.join(rank), timeoutSeconds);
}

Expected<Session> Session::join(const Backend &backend,
                                const JoinOptions &options) {
  return meet(backend.join(options), options.timeoutSeconds);
}

unsigned Session::index() const { return transport->rank(); }
unsigned Session::size() const { return transport->size(); }
unsigned Session::localRanks() const { return transport->localRanks(); }

Error Session::openDevice(std::string_view kind, const DeviceOptions &options) {
  auto made = createDevice(kind, options);
  if (made)
    computes = made.take();
  return made.error();
}

uint64_t Session::deviceBytes() const {
  return computes->allocatedBytes() + (mover ? mover->deviceBytes() : 0);
}

Error Session::openMover(const Backend &backend) {
  MoverOptions options;
  options.meeting = transport.get();
  options.device = computes.get();
  options.timeoutSeconds = timeout;
  // A session may be moved, what it is on is not.
  gatherAll = [all = meeting.get()](const void *mine, void *theirs,
                                    uint64_t bytes) {
    return all->gather(mine, theirs, bytes);
  };
  options.gather = gatherAll;
  auto joined = backend.move(options);
  if (joined)
    mover = joined.take();
  return joined.error();
}

const char *Session::backend() const {
  return mover ? mover->name() : transport->name();
}

Error Session::createContext(ContextOptions options, const MeshOptions &mesh,
                             bool stepsMatch) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const std::vector<unsigned> &spanned : mesh.communicators) {
    groups.push_back(mprt::groupOf(mesh.axisSizes, spanned, index()));
    auto communicator =
        (mover ? mover : transport)->createCommunicator(groups.back());
    if (!communicator)
      return communicator.error();
    communicators.push_back(communicator.take());
  }
  options.timeoutSeconds = timeout;
  options.device = computes.get();
  if (stepsMatch)
    options.gather = gatherAll;
  auto made =
      Context::create(options, transport.get(), std::move(communicators));
  if (made)
    program = made.take();
  return made.error();
}

Expected<void *> Session::allocate(uint64_t bytes) {
  uint64_t wanted = std::max<uint64_t>(bytes, 64);
  auto memory = mover                        ? mover->allocate(wanted)
                : computes->isAsynchronous() ? computes->allocate(wanted)
                                             : transport->allocate(wanted);
  if (!memory)
    return makeError(memory.error().status(), "rank ", index(), ": arena of ",
                     bytes, " bytes: ", memory.error().message());
  return memory;
}

Error Session::gather(const void *mine, void *all, uint64_t bytes) {
  return meeting->gather(mine, all, bytes);
}

Error Session::send(unsigned to, const void *data, uint64_t bytes,
                    const char *what) {
  return meeting->send(to, data, bytes, what);
}

Error Session::receive(unsigned from, void *data, uint64_t bytes,
                       const char *what) {
  return meeting->receive(from, data, bytes, what);
}

void Session::reportFailure(const std::string &message) {
  transport->reportFailure(Error(MPRT_PEER_FAILED, message));
}
