//===- World.cpp - one process among the ranks that run a program -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/World.h"

#include "comm/Transport.h"
#include "session/Meeting.h"
#include "session/Mesh.h"

#include <algorithm>

using namespace mprt;

World::World() = default;
World::World(World &&) noexcept = default;
World::~World() = default;

Expected<World> World::meet(Expected<std::unique_ptr<Transport>> transport,
                            double timeoutSeconds) {
  if (!transport)
    return transport.error();
  World world;
  world.transport = transport.take();
  world.timeout = timeoutSeconds;
  auto meeting = Meeting::create(*world.transport, timeoutSeconds);
  if (!meeting) {
    // Before the transport goes, which would wait for the others.
    world.transport->reportFailure(meeting.error());
    return meeting.error();
  }
  world.meeting = meeting.take();
  return world;
}

Expected<World> World::join(LocalRanks &ranks, unsigned rank,
                            double timeoutSeconds) {
  return meet(ranks.join(rank), timeoutSeconds);
}

Expected<World> World::join(const Backend &backend,
                            const JoinOptions &options) {
  return meet(backend.join(options), options.timeoutSeconds);
}

unsigned World::index() const { return transport->rank(); }
unsigned World::size() const { return transport->size(); }
unsigned World::localRanks() const { return transport->localRanks(); }

Error World::openDevice(std::string_view kind, const DeviceOptions &options) {
  auto made = createDevice(kind, options);
  if (!made)
    return made.error();
  current = devices.size();
  devices.push_back(made.take());
  programs.emplace_back();
  return {};
}

uint64_t World::deviceBytes() const {
  uint64_t bytes = mover ? mover->deviceBytes() : 0;
  for (const std::unique_ptr<Device> &device : devices)
    bytes += device->allocatedBytes();
  return bytes;
}

Error World::openMover(const Backend &backend) {
  MoverOptions options;
  options.meeting = transport.get();
  options.device = &device();
  options.timeoutSeconds = timeout;
  // A world may be moved, what it is on is not.
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

const char *World::backend() const {
  return mover ? mover->name() : transport->name();
}

Error World::createContext(ContextOptions options, const MeshOptions &mesh,
                           bool stepsMatch) {
  std::vector<std::vector<unsigned>> &groups = programs[current].groups;
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
  options.device = &device();
  if (stepsMatch)
    options.gather = gatherAll;
  auto made =
      Context::create(options, transport.get(), std::move(communicators));
  if (made)
    programs[current].context = made.take();
  return made.error();
}

void World::closePrograms(size_t count) {
  // Contexts are on devices.
  programs.resize(std::min(count, programs.size()));
  devices.resize(programs.size());
  current = programs.empty() ? 0 : programs.size() - 1;
}

Expected<void *> World::allocate(uint64_t bytes) {
  uint64_t wanted = std::max<uint64_t>(bytes, 64);
  auto memory = mover                       ? mover->allocate(wanted)
                : device().isAsynchronous() ? device().allocate(wanted)
                                            : transport->allocate(wanted);
  if (!memory)
    return memory.error().withContext("rank " + std::to_string(index()) +
                                      ": arena of " + std::to_string(bytes) +
                                      " bytes: ");
  return memory;
}

void World::setPlace(const char *name) { meeting->setPlace(name); }

Error World::gather(const void *mine, void *all, uint64_t bytes) {
  return meeting->gather(mine, all, bytes);
}

Error World::send(unsigned to, const void *data, uint64_t bytes,
                  const char *what) {
  return meeting->send(to, data, bytes, what);
}

Error World::receive(unsigned from, void *data, uint64_t bytes,
                     const char *what) {
  return meeting->receive(from, data, bytes, what);
}

void World::reportFailure(const std::string &message) {
  transport->reportFailure(Error(MPRT_PEER_FAILED, message));
}
