//===- Fake.h - what the test double of NCCL consists of ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Api.cpp checks calls and puts requests on streams; Worker.cpp runs them, on a
// thread of each communicator, when the stream has come to them; Exchange.cpp
// is the memory that the processes of a communicator share.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKENCCL_FAKE_H
#define MPCOMM_TEST_LIB_FAKENCCL_FAKE_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fake_nccl {

enum Kind : int32_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Reduce,
  Send,
  Recv
};

struct Call {
  Kind kind;
  const void *send;
  void *recv;
  uint64_t count;
  int type, op, peer;
  uint32_t graph = 0; ///< of which capture it is; 0: of none
};

/// Bytes of an element of NCCL's type; 0 for an unknown one.
size_t widthOf(int type);

/// result[i] = the reduction over `inputs`, beginning with input `first`, as
/// NCCL would make it. Inputs are of one rank each.
void reduce(void *result, const std::vector<const void *> &inputs, size_t first,
            size_t count, int type, int op);

//===----------------------------------------------------------------------===//
// Memory that processes share
//===----------------------------------------------------------------------===//

constexpr int maxRanks = 16;
constexpr size_t chunkBytes = 1 << 16;

/// A rank's part of a region.
struct Part {
  std::atomic<uint64_t> arrived; ///< barriers that it has come to
  std::atomic<int32_t> present, device;
  Call call;                           ///< what it is about to run
  std::atomic<int32_t> full[maxRanks]; ///< a message to each other rank
  uint8_t outbox[chunkBytes];
  uint8_t messages[maxRanks][chunkBytes];
};

struct Region {
  std::atomic<int32_t> stopped; ///< an error of all
  std::atomic<uint64_t> splits; ///< of rank 0, for names
  Part parts[maxRanks];
};

/// Opens the region of that name, which is made where it is not there.
Region *openRegion(const std::string &name);

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Counts a call of `name` on `rank` (-1: none yet); the code that it is to
/// fail with, or 0.
int countCall(const char *name, int rank);
/// Whether the `number`-th collective of `rank` is to hang, and the code of the
/// error that it is to end in, or 0.
bool hangs(uint64_t number, int rank);
int asyncFailure(uint64_t number, int rank);
int numberOf(const char *variable, int otherwise);
/// Whether `rank` is one that faults are for.
bool isFaulty(int rank);

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

struct Communicator;

/// What one group of calls puts on a stream.
struct Request {
  Communicator *communicator;
  std::vector<Call> calls;
  uint32_t *word;
  uint32_t value; ///< that the word gets when it is done
  bool again;     ///< of a graph: the word is reset each time
};

struct Communicator {
  std::string name;
  Region *region = nullptr;
  int rank = 0, size = 1, world = 0;
  bool blocking = true;
  /// Polls after which a call is done.
  std::atomic<int> busy{0};
  std::atomic<int> error{0};
  std::atomic<bool> connected{false}, aborted{false}, stopping{false};
  /// What it was split into, and where that is told once it is not busy.
  Communicator *child = nullptr;
  Communicator **childAt = nullptr;
  /// Groups of calls that live in graphs, or in launches of them.
  std::atomic<int> graphs{0};
  bool finalizing = false;
  void *context = nullptr; ///< a CUcontext

  uint32_t *words = nullptr; ///< pinned; the first is for eager work
  uint32_t nextWord = 1, eager = 0;
  uint64_t numSplits = 0, numRequests = 0;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Request *> queue;
  std::thread thread;

  void run();
  bool connect();
  void run(Request &request);
  bool runTogether(const Call &call);
  bool runMessages(const std::vector<Call> &calls);
  bool meet();
  template <typename Condition> bool waitUntil(Condition condition);
};

constexpr uint32_t maxWords = 1 << 14;

} // namespace fake_nccl

#endif // MPCOMM_TEST_LIB_FAKENCCL_FAKE_H
