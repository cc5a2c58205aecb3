//===- World.h - what a program that runs steps needs of the runtime ----===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A world is the place of one process among the ranks that run a program: it
// has met the others over a backend, computes on a device and runs entry points
// in a context. Sessions are built on it. The order of its calls is
//
//   join -> openDevice -> [openMover] -> createContext -> context().call(...)
//
// With it come what it hands out and takes: Backend, Device, Context (which
// has the totals, the trace and the flight record), Error, and the element
// types. What fails returns an Error, or an Expected; nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_SESSION_WORLD_H
#define MPCOMM_RUNTIME_SESSION_WORLD_H

#include "comm/Registry.h"
#include "device/Device.h"
#include "session/Context.h"
#include "support/DType.h"

namespace mprt {

class Meeting;

/// The mesh of a program, and the communicators that it numbers.
struct MeshOptions {
  /// Ranks along each axis, outermost first.
  std::vector<unsigned> axisSizes;
  /// For each communicator the axes that it spans, as indices of `axisSizes`.
  /// Communicators that span the same axes are several.
  std::vector<std::vector<unsigned>> communicators;
};

class World {
public:
  /// Becomes `rank` of those that are forked here. A wait in which nothing
  /// moves for `timeoutSeconds` fails, from here on.
  static Expected<World> join(LocalRanks &ranks, unsigned rank,
                              double timeoutSeconds);
  /// Becomes a rank that another launcher has started. `backend` has `join`.
  static Expected<World> join(const Backend &backend,
                              const JoinOptions &options);
  World(World &&) noexcept;
  ~World();

  /// This rank, and how many there are.
  unsigned index() const;
  unsigned size() const;
  /// Ranks on this machine, as far as is known.
  unsigned localRanks() const;

  /// Takes the device that a program computes on, as `createDevice`. Comes
  /// before all that needs one; the program becomes the current one.
  Error openDevice(std::string_view kind, const DeviceOptions &options);
  /// That of the current program.
  Device &device() const { return *devices[current]; }
  /// Bytes of the device's own memory that this process has taken.
  uint64_t deviceBytes() const;

  /// Has `backend`, which has `move`, carry what programs send between the
  /// ranks' devices, instead of the backend over which the ranks have met. All
  /// ranks call it, after `openDevice`.
  Error openMover(const Backend &backend);
  bool hasMover() const { return mover != nullptr; }
  /// The name of the backend that carries what programs send.
  const char *backend() const;

  /// Makes the context that the current program runs in. All ranks call it,
  /// with the same mesh. Of `options` the world sets the device, the timeout
  /// and, where there is a mover and all ranks run the same steps
  /// (`stepsMatch`), the way to agree on graphs.
  Error createContext(ContextOptions options, const MeshOptions &mesh,
                      bool stepsMatch);
  Context &context() const { return *programs[current].context; }
  /// That of the program that was opened as the `index`th.
  const Context &contextOf(size_t index) const {
    return *programs[index].context;
  }
  /// What entry points and the calls of mprt.h take.
  mprt_context *handle() const { return context().handle(); }
  /// Takes back the programs that were opened after the first `count`, with
  /// their contexts and devices; the last that stays is the current one.
  void closePrograms(size_t count);
  /// Makes the program that was opened as the `index`th the current one.
  void useProgram(size_t index) { current = index; }
  /// The ranks that make up a communicator of the context, ascending.
  const std::vector<unsigned> &groupOf(uint32_t communicator) const {
    return programs[current].groups.at(communicator);
  }

  /// Zeroed memory of the device that the communicators can reach, aligned to
  /// 64 bytes; given back with the world.
  Expected<void *> allocate(uint64_t bytes);

  /// As Meeting::setPlace.
  void setPlace(const char *name);
  /// Outside of any program: every rank's `bytes` at `mine` to every rank's
  /// `all`, in order of rank. All ranks call it.
  Error gather(const void *mine, void *all, uint64_t bytes);
  /// Gives `bytes` at `data` to rank `to`, which receives as many from this
  /// one; both wait for it. Errors and traces call it `what`, a literal.
  Error send(unsigned to, const void *data, uint64_t bytes, const char *what);
  Error receive(unsigned from, void *data, uint64_t bytes, const char *what);

  /// Tells the others that this rank will not go on, so that none waits for
  /// it. Does not wait.
  void reportFailure(const std::string &message);

private:
  World();
  static Expected<World> meet(Expected<std::unique_ptr<Transport>> transport,
                              double timeoutSeconds);

  // In this order: contexts go before what they are on.
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Meeting> meeting;
  /// On `transport`, and its way to gather; null: that moves data, too.
  std::unique_ptr<Transport> mover;
  /// `gather` for what the mover is told, and asked; null without it.
  std::function<Error(const void *mine, void *all, uint64_t bytes)> gatherAll;
  struct OpenProgram {
    std::unique_ptr<Context> context;
    std::vector<std::vector<unsigned>> groups;
  };
  /// Parallel to `devices`.
  std::vector<OpenProgram> programs;
  size_t current = 0;
  double timeout = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_SESSION_WORLD_H
