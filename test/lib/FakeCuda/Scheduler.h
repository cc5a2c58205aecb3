//===- Scheduler.h - the order in which the fake device works -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Work is a graph of nodes; a node may run once those that it comes after are
// done. One thread runs them, and is out for trouble: it does nothing before it
// must, then what is waited for in a random order, and rather long stretches of
// one stream than a fair mix. Now and then it runs ahead, so that what must not
// be changed under work that is queued is caught too, and if nothing is asked
// of it for a while it goes on all the same. Host functions run on a thread of
// their own, one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_SCHEDULER_H
#define MPCOMM_TEST_LIB_FAKECUDA_SCHEDULER_H

#include "CudaApi.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace fake {

struct Context;

/// Something for a device to do.
struct Work {
  enum Kind {
    Nothing, /// a mark in a stream
    Device,  /// `run`
    Host,    /// `run`, on the thread for host functions
    Poll     /// waits until `holds`
  };
  /// Bytes that must belong to a live allocation when the work runs. A length
  /// of 0 is any place in an allocation, or its end.
  struct Touched {
    uint64_t address;
    size_t bytes;
  };
  Kind kind = Nothing;
  const char *name = "";
  std::function<CUresult()> run;
  std::function<bool()> holds;
  std::vector<Touched> touched;
  /// What a fill sets: `count` elements of `size` bytes.
  struct Filled {
    uint64_t to = 0;
    size_t size = 0, count = 0;
    uint32_t value = 0;
  };
  Filled filled{};
};

struct Node {
  std::shared_ptr<const Work> work;
  Context *context;
  unsigned group; // of the stream, for long stretches
  unsigned pending = 0;
  bool needed = false, done = false;
  std::chrono::steady_clock::time_point doneAt;
  std::vector<std::shared_ptr<Node>> before, after;
};

/// All functions are called under the state's lock.
class Scheduler {
public:
  std::shared_ptr<Node> add(Context &context, unsigned group,
                            std::shared_ptr<const Work> work,
                            const std::vector<std::shared_ptr<Node>> &before);
  /// Waits until all nodes are done.
  void waitFor(std::unique_lock<std::mutex> &lock,
               const std::vector<std::shared_ptr<Node>> &nodes);
  /// Waits until nothing of the context is left.
  void waitForAll(std::unique_lock<std::mutex> &lock, const Context &context);
  /// Lets the device do a little: called where a program asks whether it has.
  void nudge();
  /// Puts the device's clock forward.
  void elapse(std::chrono::microseconds time) { ahead += time; }

private:
  void start();
  void workLoop();
  void hostLoop();
  std::shared_ptr<Node> choose();
  void execute(std::unique_lock<std::mutex> &lock, Node &node);
  void finish(Node &node);

  bool started = false;
  std::vector<std::shared_ptr<Node>> ready;
  std::vector<std::shared_ptr<Node>> unfinished; // some may be done
  std::shared_ptr<Node> atHost;                  // for or on the host's thread
  unsigned credits = 0, lastGroup = ~0u;
  std::chrono::steady_clock::time_point lastAsked;
  std::chrono::microseconds ahead{0}; // of the host's clock
  std::condition_variable wake, progress, wakeHost;
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_SCHEDULER_H
