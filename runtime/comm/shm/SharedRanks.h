//===- SharedRanks.h - ranks of one machine in shared memory -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parent makes SharedRanks, forks its ranks, and each child joins. The memory
// is one anonymous file (memfd), mapped before the fork: it has the same
// address in all ranks, has no name that could be left over, and is gone with
// the last process. It is reserved sparsely; pages exist when they are touched.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_SHM_SHAREDRANKS_H
#define MPCOMM_RUNTIME_COMM_SHM_SHAREDRANKS_H

#include "comm/Registry.h"
#include "comm/Transport.h"

#include <memory>

namespace mprt::shm {

struct SharedRanksOptions {
  /// Address space reserved for each rank's memory; halved until the machine
  /// grants it.
  uint64_t arenaBytes = uint64_t(64) << 30;
  /// Most communicators that can be made in this world; memory of those that
  /// are not is not touched.
  unsigned communicators = 256;
};

struct Segment;

/// The memory that the ranks of one machine share.
class SharedRanks final : public LocalRanks {
public:
  /// Each has a bit and a line in what they share.
  static constexpr unsigned maxRanks = 1024;

  /// Reserves memory for `ranks` ranks (1 ... maxRanks). Call it before
  /// forking.
  static Expected<std::unique_ptr<SharedRanks>>
  create(unsigned ranks, const SharedRanksOptions &options);
  ~SharedRanks() override;
  SharedRanks(const SharedRanks &) = delete;
  SharedRanks &operator=(const SharedRanks &) = delete;

  unsigned size() const;

  /// In the launcher: `rank` has died or will never start. Peers that wait for
  /// it fail with MPRT_PEER_FAILED at once; `reason` is in their message.
  void markDead(unsigned rank, const std::string &reason) override;

  /// In a child: becomes `rank`. Does not wait for the others. The transport
  /// must not outlive this world.
  Expected<std::unique_ptr<Transport>> join(unsigned rank) override;

private:
  explicit SharedRanks(std::unique_ptr<Segment> segment);
  std::unique_ptr<Segment> segment;
};

} // namespace mprt::shm

#endif // MPCOMM_RUNTIME_COMM_SHM_SHAREDRANKS_H
