//===- MpiCommunicator.h - collectives by MPI -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each collective becomes MPI's non-blocking one, which makes progress when it
// is tested. With `check` on, what the ranks came with is gathered first.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H

#include "../Communicator.h"

#include <mpi.h>

namespace mprt {

class MpiCommunicator : public Communicator {
public:
  /// Takes `handle`, whose ranks are `group` in that order.
  MpiCommunicator(std::vector<unsigned> group, unsigned rank, MPI_Comm handle,
                  bool check);
  ~MpiCommunicator() override;

  bool accepts() const override { return stage == Stage::Idle; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  std::vector<unsigned> waitingFor() const override;

private:
  enum class Stage : uint8_t { Idle, Comparing, Running };

  /// What has to agree among the ranks.
  struct Header {
    mprt_collective collective;
    char name[96];
    char location[160];
  };

  Error startComparison();
  Error compare();
  Error startOperation();
  void finishOperation();
  Error failure(const char *call, int code) const;

  MPI_Comm handle;
  bool check;
  Stage stage = Stage::Idle;
  MPI_Request request = MPI_REQUEST_NULL;
  const mprt_collective *collective = nullptr;
  const void *send = nullptr;
  void *recv = nullptr;
  /// reduce_scatter in place writes here first. Grows to the greatest need.
  std::vector<char> scratch;
  Header mine;
  std::vector<Header> headers;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_COMM_MPI_MPICOMMUNICATOR_H
