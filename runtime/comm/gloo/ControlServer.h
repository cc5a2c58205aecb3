//===- ControlServer.h - the meeting's end in rank 0 ----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread around poll(2). It trusts no connection before a right greeting:
// whoever else finds the port is dropped, and is never so many that ranks find
// no place. Once all ranks have come nobody can: the port is closed.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H
#define MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H

#include "comm/gloo/Control.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mprt::control {

class Server {
public:
  /// Serves `ranks` ranks on the listening sockets `listeners`, which it takes
  /// over. Ranks that are not there after `timeoutSeconds` are named to those
  /// that are, with `where` they should have come.
  static Expected<std::unique_ptr<Server>> start(std::vector<int> listeners,
                                                 unsigned ranks,
                                                 double timeoutSeconds,
                                                 const std::string &where);
  /// Why the ranks did not meet; empty: they have, or may yet.
  std::string refusal() const;
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

  Server(std::vector<int> listeners, unsigned ranks, double timeoutSeconds,
         const std::string &where);
  void run();
  bool turn();
  void acceptFrom(int listener);
  void closeListeners();
  /// Drops the oldest connections that have not greeted, down to `most`; false
  /// where there was none to drop.
  bool dropStrangers(size_t most);
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

  std::vector<int> listeners;
  int wakeRead = -1, wakeWrite = -1;
  unsigned ranks, here = 0, departed = 0;
  double timeoutSeconds;
  std::string where;
  Clock::time_point deadline;
  bool started = false, refused = false;
  mutable std::mutex mutex;
  std::string reason; ///< of the refusal; guarded by `mutex`
  std::vector<std::unique_ptr<Connection>> connections;
  std::map<std::string, std::string> store;
  std::thread thread;
};

} // namespace mprt::control

#endif // MPCOMM_RUNTIME_COMM_GLOO_CONTROLSERVER_H
