//===- NcclCommunicator.h - collectives of one group by NCCL --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_NCCL_NCCLCOMMUNICATOR_H
#define MPCOMM_RUNTIME_COMM_NCCL_NCCLCOMMUNICATOR_H

#include "comm/nccl/NcclHandle.h"

#include <memory>

namespace mprt::nccl {

/// How NCCL is to run a collective: `width` elements of `type` for each of the
/// collective's.
struct Form {
  ncclDataType_t type = ncclUint8;
  uint64_t width = 1;
  ncclRedOp_t op = ncclSum;
};

/// The form in which NCCL gives what `collective` asks for in a group of `size`
/// ranks, or MPRT_UNSUPPORTED with the reason. `takesNcclNumerics`: what NCCL
/// makes of sums, minima and maxima will do.
Expected<Form> formOf(const mprt_collective &collective, unsigned size,
                      bool takesNcclNumerics);

class NcclCommunicator : public Communicator {
public:
  /// `handle` is a communicator of the ranks `group` in their order; `barrier`
  /// is memory of the device for one number.
  NcclCommunicator(std::shared_ptr<Handle> handle, std::vector<unsigned> group,
                   unsigned rank, void *barrier)
      : Communicator(std::move(group), rank), handle(std::move(handle)),
        barrier(barrier) {}

  Error check(const mprt_collective &collective) const override;
  bool accepts() const override { return true; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override;
  Error progress(bool &moved) override;
  bool isStreamOrdered() const override { return true; }
  Error bind(Device &device, uint32_t stream) override;
  Error examine() override;
  Error abort() override { return handle->world.abort(); }
  std::vector<unsigned> waitingFor() const override;
  std::string describePeers() const override;

private:
  ncclResult_t enqueue(ncclComm_t comm, const mprt_collective &collective,
                       const Form &form, const void *send, void *recv);
  /// A copy of `bytes` at `from` in memory of its own, made on the stream.
  Expected<const void *> stage(const mprt_collective &collective,
                               const void *from, uint64_t bytes);
  std::string name(const mprt_collective &collective) const;

  std::shared_ptr<Handle> handle;
  void *barrier;
  Device *device = nullptr;
  uint32_t stream = 0;
  ncclStream native = nullptr;
  /// Started outside of captures.
  uint64_t started = 0;
  /// The last one of all, for messages.
  std::optional<mprt_collective> last;
  uint64_t lastLook = 0; // ns
  /// Of the last call of NCCL.
  Error failure;
  void *staging = nullptr;
  uint64_t stagingBytes = 0;
};

} // namespace mprt::nccl

#endif // MPCOMM_RUNTIME_COMM_NCCL_NCCLCOMMUNICATOR_H
