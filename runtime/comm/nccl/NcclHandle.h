//===- NcclHandle.h - one communicator of NCCL ----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An ncclComm_t that does not block: calls return at once, and what they have
// begun is waited for here, no longer than the peers are alive and a time-out
// lasts. Any thread may abort it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_NCCL_NCCLHANDLE_H
#define MPCOMM_RUNTIME_COMM_NCCL_NCCLHANDLE_H

#include "comm/Transport.h"
#include "comm/nccl/NcclApi.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace mprt {
class Device;
}

namespace mprt::nccl {

class Handle;

/// What all communicators of a rank share.
struct NcclWorld {
  const Api *api = nullptr;
  Transport *meeting = nullptr;
  Device *device = nullptr;
  double timeoutSeconds = 60;
  /// MPRT_NCCL_NUMERICS=nccl.
  bool takesNcclNumerics = false;
  /// One of them was aborted: none is finished in peace any more.
  mutable std::atomic<bool> isLost{false};
  /// Those that are there, and what guards the list.
  mutable std::vector<Handle *> handles;
  mutable std::mutex mutex;

  /// An abort took too long: the next one does not begin again.
  mutable std::atomic<bool> isStuck{false};

  /// Ends what is on the streams of all of them, whether or not peers come.
  /// MPRT_TIMEOUT where NCCL takes longer than it may: it is left alone then.
  Error abort() const;
};

class Handle {
public:
  /// `group`: ranks of the world.
  Handle(const NcclWorld &world, std::vector<unsigned> group);
  /// Finishes what is under way, or aborts it.
  ~Handle();
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;

  /// Runs `call` on the communicator and waits until NCCL has taken it in: from
  /// then on it is on the stream. `what` begins the message of a failure.
  /// `call` sets `comm`, if that is what it is for.
  template <typename Call> Error run(const std::string &what, Call call) {
    std::lock_guard<std::mutex> guard(mutex);
    if (aborting.load(std::memory_order_acquire))
      return Error(MPRT_INTERNAL, what + ": the communicator was aborted");
    return settle(call(comm), what);
  }

  /// Tells NCCL of memory that collectives will use, so that it need not copy;
  /// does what can be done.
  void registerMemory(void *pointer, uint64_t bytes);

  /// What has gone wrong on the stream since, if anything.
  Error examine(const std::string &what);

  /// Gives the communicator away, which takes no more calls from here on; null
  /// where there is none. Fails where a call does not return until `deadline`,
  /// in ns of nowNanoseconds().
  Expected<ncclComm_t> surrender(uint64_t deadline);

  const NcclWorld &world;
  const std::vector<unsigned> group;

private:
  Error settle(ncclResult_t result, const std::string &what);
  std::string describeMissing() const;
  /// Whether nothing is left of the communicator.
  bool finish();

  std::mutex mutex;
  std::atomic<bool> aborting{false};
  ncclComm_t comm = nullptr;
  std::vector<void *> registrations;
};

/// Has NCCL make communicators that do not block.
ncclConfig_t makeConfig();

} // namespace mprt::nccl

#endif // MPCOMM_RUNTIME_COMM_NCCL_NCCLHANDLE_H
