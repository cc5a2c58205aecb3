//===- ShmTransport.h - a rank in a world of shared memory ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_SHM_SHMTRANSPORT_H
#define MPCOMM_RUNTIME_COMM_SHM_SHMTRANSPORT_H

#include "comm/Transport.h"
#include "comm/shm/Layout.h"

namespace mprt::shm {

class ShmTransport final : public Transport {
public:
  ShmTransport(Segment &segment, unsigned rank);
  ~ShmTransport() override;

  unsigned rank() const override { return self; }
  unsigned size() const override { return segment.ranks; }
  unsigned localRanks() const override { return segment.ranks; }
  const char *name() const override { return "shm"; }

  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override;
  Expected<void *> allocate(uint64_t bytes) override;
  void reportFailure(const Error &error) override;
  std::optional<Error> reportedFailure() override;
  std::optional<Error> examineRank(unsigned rank) override;

private:
  Segment &segment;
  unsigned self;
  uint64_t allocated = 0;
  /// Communicators made so far; ranks may be threads that share the segment.
  unsigned usedSlots = 0;
  /// Descriptors through which the peers' ends are seen; -1: not open yet.
  std::vector<int> pidfds;
};

} // namespace mprt::shm

#endif // MPCOMM_RUNTIME_COMM_SHM_SHMTRANSPORT_H
