//===- GlooTransport.cpp - a rank that meets the others over TCP ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/ControlClient.h"
#include "comm/gloo/ControlServer.h"
#include "comm/gloo/Gloo.h"
#include "comm/gloo/GlooCommunicator.h"
#include "support/Pages.h"
#include "support/Urgent.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <netinet/in.h>
#include <set>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace mprt;

/// How long after a rank has left what it sent may still be on its way.
static constexpr double leftSeconds = 0.5;

namespace {

/// Gloo's addresses, through the meeting's store.
class MeetingStore final : public gloo::rendezvous::Store {
public:
  MeetingStore(control::Client &client, std::string prefix, double seconds)
      : client(client), prefix(std::move(prefix)), seconds(seconds) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    check(client.set(prefix + key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string &key) override {
    Expected<std::string> value = client.get(prefix + key, seconds);
    if (!value)
      check(value.error());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      (void)get(key);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &) override {
    wait(keys);
  }

private:
  static void check(const Error &error) {
    if (error)
      throw std::runtime_error(error.message());
  }

  control::Client &client;
  std::string prefix;
  double seconds;
};

class GlooTransport final : public Transport {
public:
  explicit GlooTransport(const GlooOptions &options) : options(options) {}
  ~GlooTransport() override;

  Error initialize();

  unsigned rank() const override { return options.rank; }
  unsigned size() const override { return options.size; }
  unsigned localRanks() const override { return client->localRanks(); }
  const char *name() const override { return "gloo"; }

  Expected<std::unique_ptr<Communicator>>
  createCommunicator(std::vector<unsigned> group) override;
  Expected<void *> allocate(uint64_t bytes) override;

  void reportFailure(const Error &error) override {
    failed = true;
    client->reportFailure(error);
  }
  std::optional<Error> reportedFailure() override { return client->failure(); }
  std::optional<Error> examineRank(unsigned r) override;

private:
  Error startServer();
  Error makeDevice();

  GlooOptions options;
  std::unique_ptr<control::Server> server;
  std::unique_ptr<control::Client> client;
  std::shared_ptr<gloo::transport::Device> device;
  std::vector<std::unique_ptr<GlooLinks>> retired;
  std::vector<Pages> allocations;
  uint64_t chunkBytes = 512 << 10;
  unsigned communicators = 0;
  bool failed = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Joining and leaving
//===----------------------------------------------------------------------===//

/// Whether `entry` is of the loopback interface.
static bool isLoopback(const addrinfo &entry) {
  if (entry.ai_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in *>(entry.ai_addr)
                     ->sin_addr.s_addr) >>
               24 ==
           127;
  return IN6_IS_ADDR_LOOPBACK(
      &reinterpret_cast<const sockaddr_in6 *>(entry.ai_addr)->sin6_addr);
}

/// Whether `entry` is every address of the machine.
static bool isWildcard(const addrinfo &entry) {
  if (entry.ai_family == AF_INET)
    return reinterpret_cast<const sockaddr_in *>(entry.ai_addr)
               ->sin_addr.s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_UNSPECIFIED(
      &reinterpret_cast<const sockaddr_in6 *>(entry.ai_addr)->sin6_addr);
}

static std::string numberOf(const addrinfo &entry) {
  char text[NI_MAXHOST] = "";
  getnameinfo(entry.ai_addr, entry.ai_addrlen, text, sizeof(text), nullptr, 0,
              NI_NUMERICHOST);
  return text;
}

/// Whether `name` is meant to be of the loopback interface, if it is.
static bool namesLoopback(const std::string &name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0)
    return strcasecmp(name.c_str(), "localhost") == 0;
  freeaddrinfo(found);
  return true;
}

/// A socket that listens on `entry`; -1 with errno.
static int listenOn(const addrinfo &entry) {
  int fd = socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd < 0)
    return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (entry.ai_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(fd, entry.ai_addr, entry.ai_addrlen) == 0 && listen(fd, 4096) == 0)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

namespace {

/// Where rank 0 listens.
struct Listening {
  std::vector<int> sockets;
  /// The address that rank 0 itself takes, in digits; not the loopback
  /// interface's where there is another.
  std::string own;
  bool isLoopback = true;
};

} // namespace

/// Listens on all addresses of this machine that `options` name, and on no
/// other.
static Expected<Listening> listenFor(const GlooOptions &options) {
  bool isOwn = !options.listenAddress.empty();
  const std::string &name = isOwn ? options.listenAddress : options.address;
  const char *variable = isOwn ? "MPRT_LISTEN_ADDRESS=" : options.addressName;
  constexpr const char *another =
      "; MPRT_LISTEN_ADDRESS is the address of rank 0's machine to listen on";
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (int code = getaddrinfo(name.c_str(), std::to_string(options.port).c_str(),
                             &hints, &found))
    return makeError(MPRT_IO_ERROR, "rank 0 cannot listen on ", variable, name,
                     ": ", gai_strerror(code));
  Listening result;
  std::set<std::string> seen;
  bool hasWildcard = false;
  int error = 0, last = EADDRNOTAVAIL;
  for (const addrinfo *entry = found; entry && !error; entry = entry->ai_next) {
    if (!seen.emplace(reinterpret_cast<const char *>(entry->ai_addr),
                      entry->ai_addrlen)
             .second)
      continue;
    int fd = listenOn(*entry);
    if (fd < 0) {
      if ((last = errno) != EADDRNOTAVAIL && last != EAFNOSUPPORT)
        error = last;
      continue;
    }
    result.sockets.push_back(fd);
    hasWildcard |= isWildcard(*entry);
    bool isFirstElsewhere = result.isLoopback && !isLoopback(*entry);
    if (result.own.empty() || isFirstElsewhere)
      result.own = numberOf(*entry);
    if (isFirstElsewhere)
      result.isLoopback = false;
  }
  freeaddrinfo(found);
  Error failure;
  if (error)
    failure = makeError(
        MPRT_IO_ERROR, "rank 0 cannot listen on port ", options.port, " of ",
        name, ": ", strerror(error),
        "; MASTER_PORT chooses another, MPRT_MASTER_PORT one for us alone");
  else if (result.sockets.empty())
    failure = makeError(MPRT_IO_ERROR, "rank 0 cannot listen on ", variable,
                        name, ": ", strerror(last), isOwn ? "" : another);
  else if (options.hasOtherMachines.value_or(false) && result.isLoopback)
    failure = makeError(MPRT_INVALID_ARGUMENT, "rank 0 cannot be reached on ",
                        variable, name,
                        " from other machines: here this is the "
                        "loopback interface",
                        another);
  else if (isOwn && hasWildcard && options.interface.empty() &&
           options.size > 1)
    // Its own connection would lead to the loopback interface.
    failure = makeError(MPRT_INVALID_ARGUMENT, variable, name,
                        " does not say which address of rank 0 the data go "
                        "to; GLOO_SOCKET_IFNAME is their interface");
  if (failure) {
    for (int fd : result.sockets)
      close(fd);
    return failure;
  }
  // Nobody has said whether all ranks are here.
  if (result.isLoopback && !options.hasOtherMachines && options.size > 1 &&
      !namesLoopback(name))
    std::fprintf(stderr,
                 "mpcomm: warning: rank 0 cannot be reached on %s%s from other "
                 "machines: here this is %s, of the loopback interface%s\n",
                 variable, name.c_str(), result.own.c_str(), another);
  return result;
}

Error GlooTransport::startServer() {
  if (options.rank != 0) {
    if (options.listener >= 0)
      close(options.listener);
    return {};
  }
  std::vector<int> listeners = {options.listener};
  std::string where;
  if (options.listener < 0) {
    Expected<Listening> made = listenFor(options);
    if (!made)
      return made.error();
    listeners = made->sockets;
    const std::string &name =
        options.listenAddress.empty() ? options.address : options.listenAddress;
    where = "; rank 0 listens on port " + std::to_string(options.port) +
            " of " + name;
    if (name != made->own)
      where += ", " + made->own;
    if (made->isLoopback)
      where += " (loopback)";
    // What MASTER_ADDR leads to on this machine may be another.
    options.address = made->own;
  }
  auto started = control::Server::start(std::move(listeners), options.size,
                                        options.timeoutSeconds, where);
  if (!started)
    return started.error();
  server = started.take();
  return {};
}

/// What Gloo does not say of the cause.
static std::string whyNoDescriptor() {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return std::string("; ") + strerror(errno);
  close(fd);
  return {};
}

Error GlooTransport::makeDevice() {
  gloo::transport::tcp::attr attributes;
  if (options.interface.empty())
    attributes.hostname = client->localAddress();
  else
    attributes.iface = options.interface;
  // Gloo's thread inherits what this one has. Signals are for the program's own
  // threads.
  Error error;
  std::thread maker([&] {
    becomeUrgent();
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    try {
      device = gloo::transport::tcp::CreateDevice(attributes);
    } catch (const std::exception &failure) {
      error =
          makeError(MPRT_IO_ERROR, "rank ", options.rank, ": Gloo cannot use ",
                    options.interface.empty() ? "address " : "interface ",
                    options.interface.empty() ? client->localAddress()
                                              : options.interface,
                    ": ", failure.what(), whyNoDescriptor());
    }
  });
  maker.join();
  return error;
}

Error GlooTransport::initialize() {
  if (const char *text = getenv("MPRT_GLOO_CHUNK")) {
    const char *end = text + strlen(text);
    auto [stop, code] = std::from_chars(text, end, chunkBytes);
    if (code != std::errc() || stop != end || chunkBytes < 64 ||
        chunkBytes > (1 << 30))
      return makeError(MPRT_INVALID_ARGUMENT,
                       "expected MPRT_GLOO_CHUNK to be bytes from 64 to 1 GiB, "
                       "found '",
                       text, "'");
    chunkBytes = (chunkBytes + 63) / 64 * 64;
  }
  if (Error error = startServer())
    return error;
  auto joined = control::Client::join(options);
  if (!joined) {
    // It may have had no connection to tell it over.
    std::string refusal = server ? server->refusal() : std::string();
    if (refusal.empty())
      return joined.error();
    return Error(joined.error().status(),
                 "rank 0: the ranks did not meet: " + refusal);
  }
  client = joined.take();
  // Gloo writes to sockets without MSG_NOSIGNAL.
  struct sigaction action;
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
    signal(SIGPIPE, SIG_IGN);
  Error error = makeDevice();
  if (error)
    reportFailure(error);
  return error;
}

GlooTransport::~GlooTransport() {
  if (client && !failed && !client->failure())
    client->leave(options.timeoutSeconds);
  retired.clear();
  device.reset();
  client.reset();
  server.reset();
}

//===----------------------------------------------------------------------===//
// What it makes
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Communicator>>
GlooTransport::createCommunicator(std::vector<unsigned> group) {
  auto position = std::find(group.begin(), group.end(), options.rank);
  if (position == group.end() || !std::is_sorted(group.begin(), group.end()) ||
      group.back() >= options.size)
    return makeError(MPRT_INVALID_ARGUMENT, "rank ", options.rank, " of ",
                     options.size,
                     " cannot make a communicator of a group that is not "
                     "ascending or that it is not in");
  auto rank = unsigned(position - group.begin());
  std::string prefix = std::to_string(communicators++) + "/" +
                       std::to_string(group.front()) + "/";
  std::unique_ptr<GlooLinks> links;
  if (group.size() > 1) {
    try {
      auto context = std::make_shared<gloo::rendezvous::Context>(
          int(rank), int(group.size()));
      context->setTimeout(
          std::chrono::milliseconds(int64_t(options.timeoutSeconds * 1000)));
      MeetingStore store(*client, prefix, options.timeoutSeconds);
      context->connectFullMesh(store, device);
      links = std::make_unique<GlooLinks>(std::move(context), chunkBytes);
    } catch (const std::exception &failure) {
      if (std::optional<Error> news = client->failure())
        return *news;
      return makeError(MPRT_PEER_FAILED, "rank ", options.rank,
                       ": cannot connect to the other ranks: ", failure.what(),
                       whyNoDescriptor());
    } catch (const PeerLost &lost) {
      return makeError(MPRT_PEER_FAILED, "rank ", options.rank,
                       ": lost the connection to rank ", group[lost.peer], ": ",
                       lost.what)
          .ofRank(group[lost.peer]);
    }
  }
  return std::unique_ptr<Communicator>(new GlooCommunicator(
      std::move(group), rank, std::move(links), *client, retired));
}

Expected<void *> GlooTransport::allocate(uint64_t bytes) {
  Expected<Pages> pages = Pages::make(bytes, /*now=*/true);
  if (pages.failed())
    return pages.error().withContext("rank " + std::to_string(options.rank) +
                                     ": ");
  return allocations.emplace_back(pages.take()).data();
}

std::optional<Error> GlooTransport::examineRank(unsigned r) {
  // The news may overtake what the rank has sent before.
  if (!client->hasLeft(r, leftSeconds))
    return std::nullopt;
  return makeError(MPRT_PEER_FAILED, "rank ", r,
                   " has left after fewer collectives")
      .ofRank(r);
}

Transport *mprt_gloo_join(const GlooOptions &options, Error &error) {
  auto transport = std::make_unique<GlooTransport>(options);
  error = transport->initialize();
  return error ? nullptr : transport.release();
}
