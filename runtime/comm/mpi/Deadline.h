//===- Deadline.h - an end to calls that wait for ever --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI_Init and the making of communicators wait for ranks that may never come,
// cannot be told how long, and cannot be called off.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_MPI_DEADLINE_H
#define MPCOMM_RUNTIME_COMM_MPI_DEADLINE_H

#include "comm/mpi/Mpi.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace mprt::mpi {

/// Unless it goes before, calls `options.giveUp` with `error`, and how long it
/// took, after `options.timeoutSeconds`, on a thread of its own. Does nothing
/// where the options say neither.
class Deadline {
public:
  Deadline(const MpiOptions &options, Error error);
  ~Deadline();
  Deadline(const Deadline &) = delete;
  Deadline &operator=(const Deadline &) = delete;

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread thread;
};

} // namespace mprt::mpi

#endif // MPCOMM_RUNTIME_COMM_MPI_DEADLINE_H
