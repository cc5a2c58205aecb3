//===- Harness.h - one rank in the conformance suite ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank has a transport and a context with two communicators: 0 of all ranks,
// 1 of a part of them. Cases run in the same order on all ranks; a case that
// fails is named on stderr and counted.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_CTS_HARNESS_H
#define MPCOMM_RUNTIME_CTS_HARNESS_H

#include "comm/Transport.h"
#include "device/Device.h"
#include "session/Context.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mprt::cts {

class Rank {
public:
  /// Makes the communicators and the context. Communicator 1 splits the world
  /// into those of even and those of odd rank; 2 is another one of the world.
  /// `mover`, if any, makes the communicators and the device's memory.
  static Expected<std::unique_ptr<Rank>> create(Transport &transport,
                                                const ContextOptions &options,
                                                Transport *mover = nullptr);

  /// Whether its communicator can run `collective`; counts those that it
  /// cannot.
  bool supports(const mprt_collective &collective);
  unsigned numRefused() const { return refused; }

  /// Where a device computes, cases keep their data on the host, and give the
  /// context a twin of it: `map` makes one until the next case begins, `at` is
  /// where the twin of `pointer` is, `toDevice` and `fromDevice` copy all. On
  /// the host memory is its own twin.
  void map(void *memory, uint64_t bytes);
  template <typename T> T *at(T *pointer) const {
    return static_cast<T *>(
        find(const_cast<std::remove_const_t<T> *>(pointer)));
  }
  void toDevice();
  void fromDevice();
  bool hasDevice() const { return theDevice != nullptr; }

  /// Runs a collective on memory of the host, and waits for it.
  Error run(const mprt_collective &collective, const void *send, void *recv);

  mprt_context *context() { return theContext->handle(); }
  Context &owner() { return *theContext; }
  Transport &transport() { return theTransport; }
  unsigned rank(unsigned communicator) const { return ranks[communicator]; }
  unsigned size(unsigned communicator) const { return sizes[communicator]; }

  /// Memory that lives as long as the rank, `bytes` long and surrounded by
  /// bytes that checkGuards watches.
  uint8_t *arenaBuffer() { return arena; }
  static constexpr uint64_t arenaBytes = 64 << 20;

  /// Starts a case; its failures are printed under its name.
  void begin(std::string name) {
    current = std::move(name);
    twins.clear();
    twinsEnd = 0;
    ++cases;
  }
  /// Reports a failure of the current case.
  void fail(const std::string &what);
  bool expect(bool condition, const std::string &what) {
    if (!condition)
      fail(what);
    return condition;
  }
  /// Fails where the context has failed; such a run cannot go on.
  bool healthy();

  unsigned numCases() const { return cases; }
  unsigned numFailures() const { return failures; }

private:
  explicit Rank(Transport &transport) : theTransport(transport) {}
  void *find(void *pointer) const;

  struct Twin {
    uint8_t *host;
    uint64_t bytes;
    uint8_t *device;
  };

  Transport &theTransport;
  Device *theDevice = nullptr;
  uint8_t *deviceMemory = nullptr;
  std::vector<Twin> twins;
  uint64_t twinsEnd = 0;
  std::unique_ptr<Context> theContext;
  unsigned ranks[3] = {}, sizes[3] = {};
  const Communicator *communicators[3] = {}; ///< the context's
  unsigned refused = 0;
  uint8_t *arena = nullptr;
  std::string current;
  unsigned cases = 0, failures = 0;
};

/// All kinds, types, reductions, sizes and places. `quick`: fewer sizes.
void runCollectiveCases(Rank &rank, bool quick);
/// NaN on one of the ranks.
void runNanCases(Rank &rank);
/// Several in flight, waits in any order, copies and waits on streams.
void runAsyncCases(Rank &rank);

/// Mismatches, timeouts, deaths: each in a world of its own, made here, of
/// shared memory or over Gloo. Returns the number of failures.
unsigned runFaultCases(bool overGloo);
/// A mismatch among the ranks of a world that stands already, after which
/// nothing can be done in it.
unsigned runMismatchCase(Transport &transport);

} // namespace mprt::cts

#endif // MPCOMM_RUNTIME_CTS_HARNESS_H
