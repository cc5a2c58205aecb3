//===- ControlClient.cpp - a rank's end of the meeting --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/ControlClient.h"

#include "support/Trace.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

using namespace mprt;
using namespace mprt::control;

using Clock = std::chrono::steady_clock;

/// Between two attempts to reach rank 0, in microseconds.
static constexpr unsigned retryMicroseconds = 50'000;
/// How much longer than the server a rank waits for its verdict, in seconds.
static constexpr double verdictSlack = 5;

static Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

static int millisecondsUntil(Clock::time_point end) {
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return int(std::max<int64_t>(0, std::min<int64_t>(left.count(), 1 << 30)));
}

/// The boot of this machine's kernel: the same in all its containers.
static void describeMachine(char (&text)[40]) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file || !fgets(text, sizeof(text), file))
    gethostname(text, sizeof(text) - 1);
  if (file)
    fclose(file);
}

Client::Client(const GlooOptions &options)
    : options(options), left(options.size) {}

Client::~Client() {
  if (thread.joinable()) {
    if (write(wakeWrite, "x", 1) < 0) {
      // The pipe is full of such requests.
    }
    thread.join();
  }
  for (int open : {fd, wakeRead, wakeWrite})
    if (open >= 0)
      close(open);
}

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

/// One attempt; the socket, or -1 with the error number.
static int tryConnect(const addrinfo &entry, Clock::time_point end, int &code) {
  int fd =
      socket(entry.ai_family, entry.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
             entry.ai_protocol);
  if (fd < 0) {
    code = errno;
    return -1;
  }
  code = ::connect(fd, entry.ai_addr, entry.ai_addrlen) ? errno : 0;
  if (code == EINPROGRESS) {
    pollfd waiting{fd, POLLOUT, 0};
    int ready = poll(&waiting, 1, std::min(millisecondsUntil(end), 3000));
    socklen_t length = sizeof(code);
    if (ready <= 0)
      code = ETIMEDOUT;
    else
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length);
  }
  if (code == 0)
    return fd;
  close(fd);
  return -1;
}

Error Client::connect(bool again) {
  Clock::time_point end = after(options.timeoutSeconds);
  std::string port = std::to_string(options.port), why;
  do {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (int code =
            getaddrinfo(options.address.c_str(), port.c_str(), &hints, &found))
      why = gai_strerror(code);
    int reason = 0;
    for (addrinfo *entry = found; entry && fd < 0; entry = entry->ai_next)
      fd = tryConnect(*entry, end, reason);
    if (found)
      freeaddrinfo(found);
    if (reason)
      why = strerror(reason);
    if (reason == EMFILE || reason == ENFILE)
      return makeError(MPRT_IO_ERROR, "rank ", options.rank,
                       ": cannot open a connection to rank 0: ", why,
                       " (see ulimit -n)");
    // Somebody had listened.
    again |= reason == ECONNRESET;
    if (again && reason == ECONNREFUSED)
      return makeError(MPRT_PEER_FAILED, "rank ", options.rank,
                       ": the ranks did not meet: rank 0 died (its connection "
                       "is closed)")
          .ofRank(0);
    if (fd < 0)
      usleep(retryMicroseconds);
  } while (fd < 0 && Clock::now() < end);
  if (fd < 0)
    return makeError(MPRT_TIMEOUT, "rank ", options.rank,
                     ": cannot reach rank 0 at ", options.address, ":", port,
                     " within ", options.timeoutSeconds, " s: ", why);
  configureSocket(fd);
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST] = "";
  if (getsockname(fd, reinterpret_cast<sockaddr *>(&own), &length) == 0)
    getnameinfo(reinterpret_cast<sockaddr *>(&own), length, text, sizeof(text),
                nullptr, 0, NI_NUMERICHOST);
  address = text;
  return {};
}

Error Client::sendFrame(const std::string &frame) {
  std::lock_guard<std::mutex> guard(sending);
  size_t done = 0;
  Clock::time_point end = after(2);
  while (done < frame.size()) {
    ssize_t sent =
        send(fd, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += size_t(sent);
      continue;
    }
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
      return makeError(MPRT_PEER_FAILED,
                       "the connection to rank 0 broke: ", strerror(errno))
          .ofRank(0);
    pollfd waiting{fd, POLLOUT, 0};
    if (poll(&waiting, 1, millisecondsUntil(end)) <= 0)
      return makeError(MPRT_PEER_FAILED, "rank 0 takes no more messages")
          .ofRank(0);
  }
  return {};
}

Error Client::receiveFrame(double seconds, FrameType &type,
                           std::string &payload) {
  Clock::time_point end = after(seconds);
  bool broken = false;
  while (!takeFrame(input, type, payload, broken)) {
    if (broken)
      return makeError(MPRT_IO_ERROR, "something else than rank 0 answers at ",
                       options.address, ":", options.port);
    pollfd entries[] = {{fd, POLLIN, 0}, {wakeRead, POLLIN, 0}};
    int ready = poll(entries, wakeRead < 0 ? 1 : 2,
                     seconds < 0 ? -1 : millisecondsUntil(end));
    if (ready == 0)
      return makeError(MPRT_TIMEOUT, "rank 0 at ", options.address, ":",
                       options.port, " does not answer");
    if (wakeRead >= 0 && entries[1].revents)
      return Error(MPRT_INTERNAL, "stopped");
    char chunk[16384];
    ssize_t got = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (got > 0)
      input.append(chunk, size_t(got));
    else if (got == 0 ||
             (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
      return makeError(MPRT_PEER_FAILED,
                       "rank 0 died (its connection is closed)")
          .ofRank(0);
  }
  return {};
}

Error Client::greet() {
  JoinRequest request;
  request.rank = options.rank;
  request.size = options.size;
  describeMachine(request.machine);
  if (Error error =
          sendFrame(makeFrame(FrameType::JoinRequest, {bytesOf(request)})))
    return error;
  FrameType type;
  std::string payload;
  if (Error error =
          receiveFrame(options.timeoutSeconds + verdictSlack, type, payload))
    return error.withContext("rank " + std::to_string(options.rank) +
                             ": the ranks did not meet: ");
  JoinReply reply;
  if (type == FrameType::Refused)
    return makeError(MPRT_TIMEOUT, "rank ", options.rank,
                     ": the ranks did not meet: ", payload);
  if (type != FrameType::JoinReply || !takeFront(payload, reply))
    return makeError(MPRT_IO_ERROR, "something else than rank 0 answers at ",
                     options.address, ":", options.port);
  local = reply.localRanks;
  return {};
}

Expected<std::unique_ptr<Client>> Client::join(const GlooOptions &options) {
  std::unique_ptr<Client> client(new Client(options));
  // Where the port is crowded a connection may be dropped before its greeting
  // has come.
  Error error;
  Clock::time_point end = after(options.timeoutSeconds);
  do {
    if ((error = client->connect(bool(error))))
      return error;
    if ((error = client->greet())) {
      close(std::exchange(client->fd, -1));
      client->input.clear();
      usleep(retryMicroseconds);
    }
  } while (error && error.status() == MPRT_PEER_FAILED && Clock::now() < end);
  if (error)
    return error;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return makeError(MPRT_IO_ERROR, "cannot make a pipe: ", strerror(errno));
  client->wakeRead = ends[0];
  client->wakeWrite = ends[1];
  client->thread = std::thread([raw = client.get()] { raw->listen(); });
  return client;
}

//===----------------------------------------------------------------------===//
// News
//===----------------------------------------------------------------------===//

void Client::fail(const Error &error) {
  std::lock_guard<std::mutex> guard(mutex);
  if (!failed.load(std::memory_order_relaxed)) {
    firstFailure = error;
    failed.store(true, std::memory_order_release);
  }
  changed.notify_all();
}

void Client::handle(FrameType type, std::string payload) {
  News news;
  switch (type) {
  case FrameType::Value: {
    std::lock_guard<std::mutex> guard(mutex);
    value = std::move(payload);
    changed.notify_all();
    return;
  }
  case FrameType::Failed:
    if (takeFront(payload, news))
      // Ranks that disagree all do; other failures are those of a peer.
      fail(
          Error(news.status == MPRT_MISMATCH ? MPRT_MISMATCH : MPRT_PEER_FAILED,
                payload)
              .ofRank(news.rank));
    return;
  case FrameType::Left:
    if (takeFront(payload, news) && news.rank < left.size())
      left[news.rank].store(nowNanoseconds(), std::memory_order_release);
    return;
  case FrameType::AllLeft: {
    std::lock_guard<std::mutex> guard(mutex);
    allLeft = true;
    changed.notify_all();
    return;
  }
  default:
    return;
  }
}

void Client::listen() {
  FrameType type;
  std::string payload;
  while (true) {
    if (Error error = receiveFrame(-1, type, payload)) {
      if (error.status() != MPRT_INTERNAL && !allLeft)
        fail(Error(MPRT_PEER_FAILED, error.message()).ofRank(0));
      return;
    }
    handle(type, std::move(payload));
  }
}

bool Client::hasLeft(unsigned rank, double seconds) const {
  uint64_t when = left[rank].load(std::memory_order_acquire);
  return when != 0 && nowNanoseconds() - when >= uint64_t(seconds * 1e9);
}

std::optional<Error> Client::failure() const {
  if (!failed.load(std::memory_order_acquire))
    return std::nullopt;
  return firstFailure; // never changes again
}

std::optional<Error> Client::waitForFailure(double seconds) {
  std::unique_lock<std::mutex> guard(mutex);
  changed.wait_until(guard, after(seconds), [&] { return failed.load(); });
  guard.unlock();
  return failure();
}

void Client::reportFailure(const Error &error) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (reported || leaving)
      return;
    reported = true;
  }
  News news{options.rank, uint32_t(error.status())};
  std::string text = error.message().substr(0, maxFrameBytes / 2);
  (void)sendFrame(
      makeFrame(FrameType::Failed,
                {bytesOf(news),
                 "rank " + std::to_string(options.rank) + " failed: " + text}));
}

Error Client::set(const std::string &key, const std::string &content) {
  return sendFrame(
      makeFrame(FrameType::Set, {bytesOf(uint32_t(key.size())), key, content}));
}

Expected<std::string> Client::get(const std::string &key, double seconds) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    value.reset();
  }
  if (Error error = sendFrame(makeFrame(FrameType::Get, {key})))
    return error;
  std::unique_lock<std::mutex> guard(mutex);
  changed.wait_until(guard, after(seconds),
                     [&] { return value.has_value() || failed.load(); });
  if (value)
    return std::move(*value);
  if (failed.load())
    return firstFailure;
  return makeError(MPRT_TIMEOUT, "rank ", options.rank, ": nobody set '", key,
                   "' within ", seconds, " s");
}

void Client::leave(double seconds) {
  {
    std::lock_guard<std::mutex> guard(mutex);
    leaving = true;
  }
  if (sendFrame(makeFrame(FrameType::Bye, {})))
    return;
  std::unique_lock<std::mutex> guard(mutex);
  changed.wait_until(guard, after(seconds),
                     [&] { return allLeft || failed.load(); });
}
