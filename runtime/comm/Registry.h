//===- Registry.h - the ways by which ranks communicate -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each backend describes itself in its folder, and has a line in Registry.cpp.
// Ranks are forked by a launcher of ours, which prepares where they meet, or
// were started by another one; NCCL needs ranks that have met already.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_REGISTRY_H
#define MPCOMM_RUNTIME_COMM_REGISTRY_H

#include "support/Error.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mprt {

class Device;
class Transport;

/// Where ranks meet that are forked here.
class LocalRanks {
public:
  virtual ~LocalRanks() = default;
  /// In a child: becomes `rank`. The transport must not outlive this.
  virtual Expected<std::unique_ptr<Transport>> join(unsigned rank) = 0;
  /// In the launcher, once all ranks are forked.
  virtual void started() {}
  /// In the launcher: `rank` has died or will never start. Peers that wait for
  /// it fail, and say `reason`, unless they notice by themselves.
  virtual void markDead(unsigned rank, const std::string &reason) {
    (void)rank, (void)reason;
  }
};

/// What a rank knows that another launcher has started.
struct JoinOptions {
  unsigned rank = 0, size = 1;
  /// "host:port", where ranks meet; empty: as the environment says.
  std::string address;
  /// Ranks that do not come are an error after so long; 0: for ever, where the
  /// backend can.
  double timeoutSeconds = 0;
  /// What is called instead of returning where a backend has no way back, on a
  /// thread of its own: it says what went wrong and ends the process.
  std::function<void(const Error &)> giveUp;
};

/// What moves data between the devices of ranks that have met takes.
struct MoverOptions {
  /// How the ranks have met. It outlives the transport.
  Transport *meeting = nullptr;
  /// This rank's; it outlives the transport. No two ranks may share one.
  Device *device = nullptr;
  /// Every rank's `bytes` at `mine` to every rank's `all`, in order of rank.
  /// The memory is the caller's again when it returns, also with an error.
  std::function<Error(const void *mine, void *all, uint64_t bytes)> gather;
  /// Waits for peers, also while communicators are made, end after so long.
  double timeoutSeconds = 60;
};

struct Backend {
  const char *name;
  /// The most ranks that are forked here.
  unsigned mostLocalRanks = 0;
  /// Null where the backend cannot do it.
  Expected<std::unique_ptr<LocalRanks>> (*prepare)(unsigned ranks,
                                                   double timeoutSeconds);
  Expected<std::unique_ptr<Transport>> (*join)(const JoinOptions &options);
  Expected<std::unique_ptr<Transport>> (*move)(const MoverOptions &options);
};

std::span<const Backend *const> backends();
/// Null where there is none of that name.
const Backend *findBackend(std::string_view name);

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_REGISTRY_H
