//===- MpiCommunicator.h - collectives over MPI ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each collective becomes one or two non-blocking MPI operations with local
// work between them; progress() is MPI_Test. Two collectives may be in flight,
// each on a duplicate of the communicator of its own, so that the order of MPI
// calls is the same on every rank whatever the timing; the second waits where
// its buffers overlap the first's. Messages between two ranks are counted when
// they come; where collectives are checked, a header goes before each.
//
// What MPI cannot reduce as it should (16-bit floats with sums in f32, floats
// with sums in double, minima of floats with NaN, 8- and 16-bit integers that
// wrap) is an all-to-all of
// slices, a local reduction in the order of the ranks, and an all-gather: the
// same volume as a ring, and the same bits as over shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Reduce.h"
#include "comm/Signature.h"

#include <memory>
#include <mpi.h>

namespace mprt::mpi {

/// The error of an MPI call.
Error mpiError(const std::string &what, int code);

/// `rank 1` or `ranks 0, 2, 3`.
std::string nameRanks(const std::vector<unsigned> &ranks);

class MpiCommunicator final : public Communicator {
public:
  /// Takes over `parent`, a communicator of exactly `group`. All of the group
  /// call it.
  static Expected<std::unique_ptr<Communicator>>
  create(MPI_Comm parent, std::vector<unsigned> group, unsigned rank,
         bool checkCollectives);

  bool accepts() const override { return inFlight < depth; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  std::string describePeers() const override;

private:
  static constexpr unsigned depth = 2;

  /// What each rank says that it calls, where that is checked.
  struct Header {
    Signature signature;
    CallWords words;
  };

  struct Operation {
    enum Step { Waiting, Checking, First, Second, Done };
    Step step = Done;
    const mprt_collective *call = nullptr;
    const uint8_t *send = nullptr;
    uint8_t *recv = nullptr;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    /// What a permute sends, besides what it receives.
    MPI_Request sending = MPI_REQUEST_NULL;
    std::vector<uint8_t> scratch;
    std::vector<int> counts, displacements, rowCounts, rowDisplacements;
    std::vector<Header> headers;
  };

  MpiCommunicator(std::vector<unsigned> group, unsigned rank)
      : Communicator(std::move(group), rank) {}

  /// The operation that is `age` younger than the oldest.
  Operation &operation(unsigned age) {
    return operations[(oldest + age) % depth];
  }
  bool overlaps(const Operation &a, const Operation &b) const;
  bool isExact(const mprt_collective &call) const;
  Error post(Operation &op);
  Error postCheck(Operation &op);
  Error checkHeaders(const Operation &op) const;
  /// Whether a message that came is the one that was waited for.
  Error checkMessage(const Operation &op, int code,
                     const MPI_Status &status) const;
  /// An all_reduce or a reduce.
  Error postReduce(Operation &op);
  Error postReduceScatter(Operation &op);
  Error postMoving(Operation &op);
  int postPermute(Operation &op);
  /// Local work after the first MPI operation; posts the second, if any.
  Error continueWith(Operation &op);
  void reduceRows(const Operation &op, uint64_t count, uint8_t *result) const;
  void divide(const Operation &op) const;

  MPI_Comm collectiveComms[depth] = {};
  MPI_Comm pointToPoint = MPI_COMM_NULL;
  bool checks = false;
  Operation operations[depth];
  unsigned oldest = 0, inFlight = 0;
  uint64_t collectives = 0;
};

} // namespace mprt::mpi

#endif // MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
