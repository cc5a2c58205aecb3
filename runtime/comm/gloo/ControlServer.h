//===- ControlServer.h - the meeting's end in rank 0 ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread around poll(2). It trusts no connection before a right greeting:
// whoever else finds the port is dropped.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H
#define MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H

#include "Control.h"

#include <chrono>
#include <map>
#include <memory>
#include <thread>

namespace mprt::control {

class Server {
public:
  /// Serves `ranks` ranks on the listening socket `listener`, which it takes
  /// over. Ranks that are not there after `timeoutSeconds` are named to those
  /// that are.
  static Expected<std::unique_ptr<Server>> start(int listener, unsigned ranks,
                                                 double timeoutSeconds);
  /// Delivers what is on its way, for a moment, and ends.
  ~Server();

private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int fd = -1;
    int rank = -1; ///< -1: has not greeted
    bool left = false;
    Clock::time_point since;
    std::string machine, input, output;
    /// The key that it waits for; empty: none.
    std::string wanted;
  };

  Server(int listener, unsigned ranks, double timeoutSeconds);
  void run();
  bool turn();
  void acceptOne();
  void readFrom(Connection &connection);
  void handle(Connection &connection, FrameType type, std::string payload);
  void greet(Connection &connection, std::string payload);
  void startAll();
  void refuseAll(const std::string &why);
  void answerWaiting();
  void close(Connection &connection);
  void broadcast(const std::string &frame, int exceptRank);
  static void flush(Connection &connection);
  std::vector<unsigned> missing() const;

  int listener, wakeRead = -1, wakeWrite = -1;
  unsigned ranks, here = 0, departed = 0;
  double timeoutSeconds;
  Clock::time_point deadline;
  bool started = false, refused = false;
  std::vector<std::unique_ptr<Connection>> connections;
  std::map<std::string, std::string> store;
  std::thread thread;
};

} // namespace mprt::control

#endif // MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H
