//===- TwoRanks.h - what tests of two ranks share ---------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_RUNTIME_TWORANKS_H
#define MPCOMM_TEST_UNIT_RUNTIME_TWORANKS_H

#include "comm/Transport.h"

#include "mpcomm/Runtime/mprt.h"

#include <memory>
#include <string>
#include <vector>

namespace mprt {

/// A sum of `count` floats over `communicator`.
inline mprt_collective sumOf(uint32_t communicator, uint64_t count) {
  mprt_collective collective{};
  collective.kind = MPRT_ALL_REDUCE;
  collective.type = collective.accumulate = MPRT_F32;
  collective.communicator = communicator;
  collective.peer = -1;
  collective.count = count;
  collective.name = "sum";
  collective.location = "test.mlir:2";
  return collective;
}

/// Rank 0 of a world of two, the other of which never does anything.
class SilentWorld : public Transport {
public:
  unsigned rank() const override { return 0; }
  unsigned size() const override { return 2; }
  unsigned localRanks() const override { return 2; }
  const char *name() const override { return "silent"; }
  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned>) override {
    return Error(MPRT_UNSUPPORTED, "");
  }
  Expected<void *> allocate(uint64_t) override {
    return Error(MPRT_UNSUPPORTED, "");
  }
  void reportFailure(const Error &error) override { told = error.message(); }

  std::string told;
};

} // namespace mprt

#endif // MPCOMM_TEST_UNIT_RUNTIME_TWORANKS_H
