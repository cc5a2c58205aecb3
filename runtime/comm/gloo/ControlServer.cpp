//===- ControlServer.cpp - the meeting's end in rank 0 --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/ControlServer.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace mprt;
using namespace mprt::control;

/// Seconds that a connection has for its greeting.
static constexpr std::chrono::seconds greetingTime(10);
/// Connections without a greeting, beside as many as there are ranks to come.
static constexpr size_t mostStrangers = 64;
/// What one turn waits at most, in milliseconds.
static constexpr int turnMilliseconds = 200;
/// How long the end of the server waits for its last words to go.
static constexpr std::chrono::milliseconds flushTime(500);

Server::Server(std::vector<int> listeners, unsigned ranks,
               double timeoutSeconds, const std::string &where)
    : listeners(std::move(listeners)), ranks(ranks),
      timeoutSeconds(timeoutSeconds), where(where),
      deadline(Clock::now() +
               std::chrono::duration_cast<Clock::duration>(
                   std::chrono::duration<double>(timeoutSeconds))) {}

Expected<std::unique_ptr<Server>> Server::start(std::vector<int> listeners,
                                                unsigned ranks,
                                                double timeoutSeconds,
                                                const std::string &where) {
  std::unique_ptr<Server> server(
      new Server(std::move(listeners), ranks, timeoutSeconds, where));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    Error error =
        makeError(MPRT_IO_ERROR, "cannot make a pipe: ", strerror(errno));
    return error;
  }
  server->wakeRead = ends[0];
  server->wakeWrite = ends[1];
  for (int listener : server->listeners)
    fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK);
  server->thread = std::thread([raw = server.get()] { raw->run(); });
  return server;
}

Server::~Server() {
  if (thread.joinable()) {
    if (write(wakeWrite, "x", 1) < 0) {
      // The pipe is full of such requests.
    }
    thread.join();
  }
  for (auto &connection : connections)
    if (connection->fd >= 0)
      ::close(connection->fd);
  closeListeners();
  for (int fd : {wakeRead, wakeWrite})
    if (fd >= 0)
      ::close(fd);
}

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

void Server::flush(Connection &connection) {
  while (connection.fd >= 0 && !connection.output.empty()) {
    ssize_t sent = send(connection.fd, connection.output.data(),
                        connection.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return; // a broken one shows when it is read
    connection.output.erase(0, size_t(sent));
  }
}

void Server::broadcast(const std::string &frame, int exceptRank) {
  for (auto &connection : connections)
    if (connection->rank >= 0 && connection->rank != exceptRank) {
      connection->output += frame;
      flush(*connection);
    }
}

std::vector<unsigned> Server::missing() const {
  std::vector<bool> seen(ranks);
  for (const auto &connection : connections)
    if (connection->rank >= 0)
      seen[size_t(connection->rank)] = true;
  std::vector<unsigned> result;
  for (unsigned r = 0; r < ranks; ++r)
    if (!seen[r])
      result.push_back(r);
  return result;
}

std::string Server::refusal() const {
  std::lock_guard<std::mutex> guard(mutex);
  return reason;
}

void Server::refuseAll(const std::string &why) {
  refused = true;
  {
    std::lock_guard<std::mutex> guard(mutex);
    reason = why;
  }
  for (auto &connection : connections)
    if (connection->rank >= 0) {
      connection->output += makeFrame(FrameType::Refused, {why});
      flush(*connection);
    }
}

void Server::close(Connection &connection) {
  ::close(connection.fd);
  connection.fd = -1;
  if (connection.rank < 0 || connection.left)
    return;
  auto rank = uint32_t(connection.rank);
  if (!started) {
    connection.rank = -1;
    --here;
    if (!refused)
      refuseAll("rank " + std::to_string(rank) +
                " went away before all ranks had come");
    return;
  }
  broadcast(makeFrame(FrameType::Failed,
                      {bytesOf(News{rank, MPRT_PEER_FAILED}),
                       "rank " + std::to_string(rank) +
                           " died (its connection to rank 0 is closed)"}),
            connection.rank);
}

void Server::closeListeners() {
  for (int listener : listeners)
    ::close(listener);
  listeners.clear();
}

bool Server::dropStrangers(size_t most) {
  auto isStranger = [](const auto &c) { return c->fd >= 0 && c->rank < 0; };
  auto count =
      size_t(std::count_if(connections.begin(), connections.end(), isStranger));
  bool any = false;
  for (auto &connection : connections) // in the order in which they came
    if (count > most && isStranger(connection)) {
      close(*connection);
      --count;
      any = true;
    }
  return any;
}

void Server::acceptFrom(int listener) {
  // Then who has greeted has its turn.
  for (int i = 0; i < 256 && !started; ++i) {
    int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int error = fd < 0 ? errno : 0;
    // A connection waits that nobody can take, and would for ever.
    if (error == EMFILE || error == ENFILE || error == ENOBUFS ||
        error == ENOMEM) {
      if (dropStrangers(0))
        continue;
      if (!refused)
        refuseAll(std::string("rank 0 cannot take another connection: ") +
                  strerror(error) + " (see ulimit -n); ranks still to come: " +
                  listRanks(missing()));
      return closeListeners();
    }
    if (error == EINTR || error == ECONNABORTED)
      continue;
    if (error)
      return;
    configureSocket(fd);
    auto connection = std::make_unique<Connection>();
    connection->fd = fd;
    connection->since = Clock::now();
    connections.push_back(std::move(connection));
    // A rank greets at once.
    readFrom(*connections.back());
    dropStrangers(mostStrangers + ranks - here);
  }
}

void Server::readFrom(Connection &connection) {
  char chunk[16384];
  bool ended = false;
  // With more than a frame there is work to do; what is left is read in the
  // next turn.
  while (connection.input.size() <= maxFrameBytes + sizeof(FrameHeader)) {
    ssize_t got = recv(connection.fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got > 0) {
      connection.input.append(chunk, size_t(got));
      continue;
    }
    ended = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    break;
  }
  FrameType type;
  std::string payload;
  bool broken =
      connection.rank < 0 &&
      connection.input.size() > 2 * (sizeof(FrameHeader) + sizeof(JoinRequest));
  while (connection.fd >= 0 && !broken &&
         takeFrame(connection.input, type, payload, broken))
    handle(connection, type, std::move(payload));
  if (connection.fd >= 0 && (ended || broken))
    close(connection);
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

void Server::greet(Connection &connection, std::string payload) {
  JoinRequest request;
  auto refuse = [&](const std::string &why) {
    connection.output += makeFrame(FrameType::Refused, {why});
    flush(connection);
    close(connection);
  };
  if (!takeFront(payload, request) ||
      request.magic != JoinRequest::expectedMagic)
    return close(connection);
  // It has come after the others were told.
  if (refused)
    return refuse(refusal());
  request.machine[sizeof(request.machine) - 1] = 0;
  std::string who = "rank " + std::to_string(request.rank);
  if (request.size != ranks)
    return refuse(who + " was started as one of " +
                  std::to_string(request.size) + " ranks, rank 0 as one of " +
                  std::to_string(ranks));
  for (const auto &other : connections)
    if (other->rank == int(request.rank))
      return refuse("there is a " + who + " already");
  if (request.rank >= ranks)
    return refuse(who + " is not below " + std::to_string(ranks));
  connection.rank = int(request.rank);
  connection.machine = request.machine;
  if (++here == ranks && !refused)
    startAll();
}

void Server::startAll() {
  started = true;
  closeListeners();
  std::map<std::string, uint32_t> machines;
  for (const auto &connection : connections)
    if (connection->rank >= 0)
      ++machines[connection->machine];
  for (auto &connection : connections)
    if (connection->rank >= 0) {
      JoinReply reply{machines[connection->machine]};
      connection->output += makeFrame(FrameType::JoinReply, {bytesOf(reply)});
      flush(*connection);
    }
}

void Server::answerWaiting() {
  for (auto &connection : connections) {
    if (connection->wanted.empty())
      continue;
    auto found = store.find(connection->wanted);
    if (found == store.end())
      continue;
    connection->output += makeFrame(FrameType::Value, {found->second});
    connection->wanted.clear();
    flush(*connection);
  }
}

void Server::handle(Connection &connection, FrameType type,
                    std::string payload) {
  if (connection.rank < 0) {
    if (type == FrameType::JoinRequest)
      return greet(connection, std::move(payload));
    return close(connection);
  }
  switch (type) {
  case FrameType::Set: {
    uint32_t keyBytes = 0;
    if (!takeFront(payload, keyBytes) || keyBytes > payload.size())
      return close(connection);
    store[payload.substr(0, keyBytes)] = payload.substr(keyBytes);
    return answerWaiting();
  }
  case FrameType::Get:
    connection.wanted = payload;
    return answerWaiting();
  case FrameType::Failed:
    // One that has told why it fails is no news when it goes.
    connection.left = true;
    return broadcast(makeFrame(FrameType::Failed, {payload}), connection.rank);
  case FrameType::Bye:
    if (!connection.left)
      broadcast(makeFrame(FrameType::Left,
                          {bytesOf(News{uint32_t(connection.rank), 0})}),
                connection.rank);
    connection.left = true;
    if (++departed == ranks)
      broadcast(makeFrame(FrameType::AllLeft, {}), -1);
    return;
  default:
    return close(connection);
  }
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

/// One round of poll(2); false once the end was asked for.
bool Server::turn() {
  std::vector<pollfd> entries = {{wakeRead, POLLIN, 0}};
  for (int listener : listeners)
    entries.push_back({listener, POLLIN, 0});
  size_t first = entries.size();
  for (const auto &connection : connections)
    entries.push_back(
        {connection->fd,
         short(POLLIN | (connection->output.empty() ? 0 : POLLOUT)), 0});
  if (poll(entries.data(), entries.size(), turnMilliseconds) < 0)
    return errno == EINTR;
  size_t known = connections.size();
  for (size_t i = 0; i < known; ++i) {
    Connection &connection = *connections[i];
    if (entries[first + i].revents & POLLOUT)
      flush(connection);
    if (connection.fd >= 0 && (entries[first + i].revents & ~POLLOUT))
      readFrom(connection);
  }
  for (size_t i = 1; i < first; ++i)
    if (entries[i].revents && !listeners.empty())
      acceptFrom(entries[i].fd);
  auto now = Clock::now();
  for (auto &connection : connections)
    if (connection->fd >= 0 && connection->rank < 0 &&
        now - connection->since > greetingTime)
      close(*connection);
  std::erase_if(connections, [](const auto &c) { return c->fd < 0; });
  if (!started && !refused && now > deadline)
    refuseAll("ranks that did not come within " +
              std::to_string(uint64_t(timeoutSeconds)) +
              " s: " + listRanks(missing()) + where);
  return entries[0].revents == 0;
}

void Server::run() {
  while (turn()) {
  }
  auto end = Clock::now() + flushTime;
  auto pending = [](const auto &c) { return c->fd >= 0 && !c->output.empty(); };
  while (Clock::now() < end &&
         std::any_of(connections.begin(), connections.end(), pending))
    turn();
}
