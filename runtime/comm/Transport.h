//===- Transport.h - what a rank shares with the others -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process that has joined a world of ranks holds one transport. It makes
// communicators and memory that they reach without staging, and carries the
// news of a failed rank. shm::SharedRanks::join, joinMpi and joinGloo make
// transports.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_TRANSPORT_H
#define MPCOMM_RUNTIME_COMM_TRANSPORT_H

#include "comm/Communicator.h"

#include <memory>
#include <optional>

namespace mprt {

class Transport {
public:
  virtual ~Transport() = default;

  virtual unsigned rank() const = 0;
  virtual unsigned size() const = 0;
  /// How many ranks run on this machine, as far as is known.
  virtual unsigned localRanks() const = 0;
  /// "shm", "mpi", "gloo" or "nccl".
  virtual const char *name() const = 0;

  /// Makes a communicator of the ranks `group` (ascending, this rank among
  /// them). Every rank of the world makes the same number of communicators in
  /// the same order, each for the group that it belongs to.
  virtual Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) = 0;

  /// Memory that the communicators of this transport reach: zeroed, aligned to
  /// a page, given back with the transport. MPRT_OUT_OF_MEMORY where there is
  /// none.
  virtual Expected<void *> allocate(uint64_t bytes) = 0;
  /// Of that, what is memory of a device and not counted by it.
  virtual uint64_t deviceBytes() const { return 0; }

  /// Tells the peers that this rank has failed, and why. Does not wait.
  virtual void reportFailure(const Error &error) = 0;

  /// A failure somewhere in the world, as far as can be told at the cost of one
  /// load: called in every turn of a wait.
  virtual std::optional<Error> reportedFailure() { return std::nullopt; }

  /// Whether `rank` can no longer answer (it died, or has left), looked at
  /// closely: called every few milliseconds of a wait.
  virtual std::optional<Error> examineRank(unsigned) { return std::nullopt; }
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_TRANSPORT_H
