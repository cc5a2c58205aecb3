//===- LoadGloo.cpp - finds the Gloo backend and its options --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/Gloo.h"

#include "comm/Registry.h"
#include "support/LoadBackend.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace mprt;

static constexpr uint16_t defaultPort = 29500; // torchrun's

/// Reads a number of at most `most` from a variable; `missing` where it is not
/// set.
static Error readNumber(const char *name, uint64_t most,
                        std::optional<uint64_t> missing, uint64_t &value) {
  const char *text = getenv(name);
  if (!text || !*text) {
    if (!missing)
      return makeError(MPRT_INVALID_ARGUMENT, "environment: ", name,
                       " is not set; Gloo needs RANK, WORLD_SIZE, MASTER_ADDR "
                       "and MASTER_PORT, which torchrun sets");
    value = *missing;
    return {};
  }
  const char *end = text + strlen(text);
  auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || value > most)
    return makeError(MPRT_INVALID_ARGUMENT, "environment: expected ", name,
                     " to be a number of at most ", most, ", found '", text,
                     "'");
  return {};
}

Expected<GlooOptions> mprt::glooOptionsFromEnvironment(unsigned rank,
                                                       unsigned size) {
  GlooOptions options;
  options.rank = rank;
  options.size = size;
  const char *address = getenv("MASTER_ADDR");
  if (!address || !*address)
    return makeError(MPRT_INVALID_ARGUMENT,
                     "environment: MASTER_ADDR is not set; it names the "
                     "machine of rank 0 (torchrun sets it)");
  options.address = address;
  uint64_t port = 0;
  if (Error error = readNumber("MASTER_PORT", 65535, defaultPort, port))
    return error;
  const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent && !strcmp(agent, "True"))
    ++port;
  if (Error error = readNumber("MPRT_MASTER_PORT", 65535, port, port))
    return error;
  if (port == 0 || port > 65535)
    return makeError(MPRT_INVALID_ARGUMENT,
                     "environment: expected MASTER_PORT from 1 to 65535");
  options.port = uint16_t(port);
  if (const char *interface = getenv("GLOO_SOCKET_IFNAME"))
    options.interface = interface;
  if (const char *listen = getenv("MPRT_LISTEN_ADDRESS"))
    options.listenAddress = listen;
  uint64_t local = 0;
  if (Error error = readNumber("LOCAL_WORLD_SIZE", 1 << 20, 0, local))
    return error;
  if (local)
    options.hasOtherMachines = local < size;
  if (local == size && options.listenAddress.empty())
    options.address = "127.0.0.1";
  return options;
}

Expected<GlooOptions> mprt::glooOptionsFromEnvironment() {
  uint64_t rank = 0, size = 0;
  if (Error error = readNumber("RANK", 1 << 20, std::nullopt, rank))
    return error;
  if (Error error = readNumber("WORLD_SIZE", 1 << 20, std::nullopt, size))
    return error;
  if (rank >= size)
    return makeError(MPRT_INVALID_ARGUMENT, "environment: RANK=", rank,
                     " and WORLD_SIZE=", size,
                     " are no rank and number of ranks");
  return glooOptionsFromEnvironment(unsigned(rank), unsigned(size));
}

Expected<int> mprt::listenOnLoopback(uint16_t &port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto *general = reinterpret_cast<sockaddr *>(&address);
  if (fd < 0 || bind(fd, general, length) != 0 || listen(fd, 4096) != 0 ||
      getsockname(fd, general, &length) != 0) {
    Error error = makeError(MPRT_IO_ERROR,
                            "cannot listen on 127.0.0.1: ", strerror(errno));
    if (fd >= 0)
      close(fd);
    return error;
  }
  port = ntohs(address.sin_port);
  return fd;
}

Expected<std::unique_ptr<Transport>>
mprt::joinGloo(const GlooOptions &options) {
  Expected<void *> symbol = loadBackend(
      {"libmprt_gloo.so", "mprt_gloo_join", /*global=*/false, "no Gloo",
       "the gloo communicator needs libmprt_gloo.so, which is built "
       "where Gloo's headers are, and libgloo"});
  if (!symbol)
    return symbol.error();
  auto *join = reinterpret_cast<decltype(&mprt_gloo_join)>(*symbol);
  Error error;
  Transport *transport = join(options, error);
  if (!transport)
    return error ? error : Error(MPRT_INTERNAL, "Gloo did not start");
  return std::unique_ptr<Transport>(transport);
}

namespace {

/// Ranks that meet on the loopback interface.
class LoopbackRanks final : public LocalRanks {
public:
  explicit LoopbackRanks(const GlooOptions &options) : options(options) {}
  ~LoopbackRanks() override { started(); }

  Expected<std::unique_ptr<Transport>> join(unsigned rank) override {
    options.rank = rank;
    // As a launcher would have told it.
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(options.size).c_str(), 1);
    setenv("MASTER_ADDR", options.address.c_str(), 1);
    setenv("MASTER_PORT", std::to_string(options.port).c_str(), 1);
    GlooOptions mine = options;
    options.listener = -1; // taken over
    return joinGloo(mine);
  }
  void started() override {
    if (options.listener >= 0)
      close(options.listener);
    options.listener = -1;
  }

private:
  GlooOptions options;
};

} // namespace

static Expected<std::unique_ptr<LocalRanks>> prepare(unsigned ranks,
                                                     double timeoutSeconds) {
  GlooOptions options;
  options.size = ranks;
  options.timeoutSeconds = timeoutSeconds;
  Expected<int> listener = listenOnLoopback(options.port);
  if (!listener)
    return listener.error();
  options.listener = *listener;
  return std::unique_ptr<LocalRanks>(new LoopbackRanks(options));
}

/// The same where the caller says where the ranks meet.
static Expected<GlooOptions> glooOptionsFor(const JoinOptions &options) {
  GlooOptions gloo;
  gloo.rank = options.rank;
  gloo.size = options.size;
  size_t colon = options.address.rfind(':');
  std::string port =
      colon == std::string::npos ? "" : options.address.substr(colon + 1);
  const char *end = port.data() + port.size();
  auto [stop, code] = std::from_chars(port.data(), end, gloo.port);
  if (colon == 0 || port.empty() || code != std::errc() || stop != end ||
      gloo.port == 0)
    return makeError(MPRT_INVALID_ARGUMENT,
                     "expected an address host:port, found '",
                     printable(options.address), "'");
  gloo.address = options.address.substr(0, colon);
  gloo.addressName = "";
  // [2001:db8::1]:29500
  if (gloo.address.starts_with('[') && gloo.address.ends_with(']'))
    gloo.address = gloo.address.substr(1, gloo.address.size() - 2);
  if (gloo.address == "localhost" || gloo.address == "::1" ||
      gloo.address.starts_with("127."))
    gloo.hasOtherMachines = false;
  if (const char *interface = getenv("GLOO_SOCKET_IFNAME"))
    gloo.interface = interface;
  return gloo;
}

static Expected<std::unique_ptr<Transport>> join(const JoinOptions &options) {
  Expected<GlooOptions> gloo =
      options.address.empty()
          ? glooOptionsFromEnvironment(options.rank, options.size)
          : glooOptionsFor(options);
  if (!gloo)
    return gloo.error();
  gloo->timeoutSeconds = options.timeoutSeconds;
  return joinGloo(*gloo);
}

namespace mprt {
extern const Backend glooBackend;
const Backend glooBackend = {"gloo", ~0u, prepare, join, nullptr};
} // namespace mprt
