//===- Staged.h - collectives of the host for buffers of a device ---------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts a device's buffers through pinned host memory: copy down on the
// communicator's stream, wait until that is done, run the collective on the
// host, copy up on the same stream. A collective is finished when its copy up
// is enqueued, so that later work on the stream finds the result.
//
// One collective at a time; nothing on the device ever waits for the host, so
// that a rank which stops leaves no stream hanging.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_STAGED_H
#define MPCOMM_RUNTIME_COMM_STAGED_H

#include "comm/Communicator.h"
#include "device/Device.h"

#include <atomic>
#include <memory>

namespace mprt {

class StagedCommunicator : public Communicator {
public:
  /// `device` outlives this. Nothing else enqueues on `stream` while a
  /// collective is started and not finished.
  StagedCommunicator(std::unique_ptr<Communicator> host, Device &device,
                     uint32_t stream)
      : Communicator(host->worldRanks(), host->rank()), host(std::move(host)),
        device(device), stream(stream) {}

  bool accepts() const override { return phase == Phase::Idle; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  bool waitForMove(double seconds) override {
    return phase == Phase::Running && host->movesByItself() &&
           host->waitForMove(seconds);
  }
  std::optional<Span> takeSpan() override { return span; }
  std::vector<unsigned> waitingFor() const override {
    return phase == Phase::Running ? host->waitingFor()
                                   : std::vector<unsigned>();
  }
  std::string describePeers() const override {
    return phase == Phase::Running ? host->describePeers()
                                   : "its buffers are not ready on the device";
  }

private:
  enum class Phase : uint8_t { Idle, Down, Running };

  /// Makes the staging area at least that large.
  Error reserve(uint64_t bytes);
  /// The same, with the name of the current collective.
  Error atCollective(const Error &error) const;

  std::unique_ptr<Communicator> host;
  Device &device;
  uint32_t stream;

  /// Written by whoever moves it on; a wait may look at it from aside.
  std::atomic<Phase> phase{Phase::Idle};
  const mprt_collective *current = nullptr;
  char *area = nullptr;
  uint64_t areaBytes = 0;
  /// The current collective's buffers in the area, and where its result goes.
  char *staged[2] = {};
  void *target = nullptr;
  uint64_t targetBytes = 0;
  std::optional<Span> span;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_STAGED_H
