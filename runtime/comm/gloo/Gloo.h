//===- Gloo.h - ranks that meet over TCP ----------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Gloo backend is a shared object of its own, libmprt_gloo.so, that is
// loaded when it is asked for: a build of the runtime runs on machines without
// Gloo and says what is missing. It needs no MPI: ranks find each other as
// those of torchrun do, through the address and port of rank 0.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_COMM_GLOO_GLOO_H
#define MPCOMM_RUNTIME_COMM_GLOO_GLOO_H

#include "comm/Transport.h"

#include <memory>
#include <optional>
#include <string>

namespace mprt {

struct GlooOptions {
  unsigned rank = 0, size = 1;
  /// Where rank 0 serves the meeting; a name or a number.
  std::string address = "127.0.0.1";
  /// How messages call it: the variable that it is of.
  const char *addressName = "MASTER_ADDR=";
  /// The address that rank 0 listens on and joins through itself, where it is
  /// another; as `address`. Where it is every address, `interface` is needed.
  std::string listenAddress;
  /// Whether some rank runs on another machine, if the launcher said.
  std::optional<bool> hasOtherMachines = std::nullopt;
  uint16_t port = 0;
  /// Rank 0: a socket that listens there already, taken over; -1: none.
  int listener = -1;
  /// Seconds until ranks that do not come are an error; also of a shutdown.
  double timeoutSeconds = 60;
  /// Interface for the data, as in "eth0"; empty: the one that leads to rank 0.
  std::string interface;
};

/// Options from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (29500), as torchrun
/// sets them, and GLOO_SOCKET_IFNAME. Where a launcher's own store holds
/// MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the port after it is used;
/// MPRT_MASTER_PORT overrides both. MPRT_LISTEN_ADDRESS is `listenAddress`.
/// Where LOCAL_WORLD_SIZE says that all ranks run on this machine, they meet on
/// its loopback interface. `rank` and `size` replace the first two where
/// another launcher has told them.
Expected<GlooOptions> glooOptionsFromEnvironment();
Expected<GlooOptions> glooOptionsFromEnvironment(unsigned rank, unsigned size);

/// A socket that listens on a free port of the loopback interface, for ranks
/// that are forked from this process: rank 0 takes it over.
Expected<int> listenOnLoopback(uint16_t &port);

/// Meets the other ranks. MPRT_UNSUPPORTED where libmprt_gloo.so or Gloo cannot
/// be loaded, MPRT_TIMEOUT with the ranks that never came. The transport
/// outlives its communicators; when it goes it waits for the others to have
/// finished as well, unless a rank failed.
Expected<std::unique_ptr<Transport>> joinGloo(const GlooOptions &options);

} // namespace mprt

/// What libmprt_gloo.so exports; `error` receives the failure where null comes
/// back.
extern "C" mprt::Transport *mprt_gloo_join(const mprt::GlooOptions &options,
                                           mprt::Error &error);

#endif // MPCOMM_RUNTIME_COMM_GLOO_GLOO_H
