//===- ControlClient.h - a rank's end of the meeting ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread reads what the server says; asking whether there is bad news costs
// one load. All functions may be called from any thread.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_CONTROLCLIENT_H
#define MPCOMM_RUNTIME_COMM_GLOO_CONTROLCLIENT_H

#include "comm/gloo/Control.h"
#include "comm/gloo/Gloo.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace mprt::control {

class Client {
public:
  /// Connects, greets, and waits until all ranks are there.
  static Expected<std::unique_ptr<Client>> join(const GlooOptions &options);
  ~Client();

  unsigned localRanks() const { return local; }
  /// The numeric address by which this rank reaches rank 0.
  const std::string &localAddress() const { return address; }

  Error set(const std::string &key, const std::string &value);
  /// Waits for the key to be set.
  Expected<std::string> get(const std::string &key, double seconds);

  /// The first failure of another rank that was heard of.
  std::optional<Error> failure() const;
  /// The same, waiting for it a while.
  std::optional<Error> waitForFailure(double seconds);
  /// Whether `rank` said goodbye `seconds` ago or earlier.
  bool hasLeft(unsigned rank, double seconds) const;

  /// Tells the others; once.
  void reportFailure(const Error &error);
  /// Says goodbye and waits until all ranks have, or one has failed.
  void leave(double seconds);

private:
  explicit Client(const GlooOptions &options);
  /// `again`: once rank 0 was there; that it is not is then final.
  Error connect(bool again);
  Error greet();
  Error sendFrame(const std::string &frame);
  /// Reads until there is a whole frame.
  Error receiveFrame(double seconds, FrameType &type, std::string &payload);
  void listen();
  void handle(FrameType type, std::string payload);
  void fail(const Error &error);

  GlooOptions options;
  int fd = -1, wakeRead = -1, wakeWrite = -1;
  unsigned local = 1;
  std::string address, input;
  std::thread thread;

  std::mutex sending;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> failed{false};
  bool reported = false, leaving = false, allLeft = false;
  Error firstFailure;
  std::optional<std::string> value;
  /// When ranks left, in ns of CLOCK_MONOTONIC; 0: they did not.
  std::vector<std::atomic<uint64_t>> left;
};

} // namespace mprt::control

#endif // MPCOMM_RUNTIME_COMM_GLOO_CONTROLCLIENT_H
