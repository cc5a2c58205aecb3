//===- mprt-cts.cpp - the conformance suite of communicators --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   mprt-cts shm 1 2 3      starts 1, 2 and 3 ranks one after the other
//   mprt-cts shm-faults     ranks that disagree, stall or die
//   mprt-cts gloo 1 2 3     the same over TCP
//   mprt-cts gloo-faults
//   RANK=… … mprt-cts gloo-rank    one of the ranks that torchrun started
//   mpirun … mprt-cts mpi   the ranks that mpirun started
//   mpirun … mprt-cts mpi-mismatch     with MPRT_CHECK=1
//
// Before the rest: `--quick`: fewer sizes; `--cuda`: buffers on a CUDA device;
// `--cuda --nccl`: moved by NCCL, among ranks that meet otherwise. Ends with 1
// where a case failed.
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"

#include "comm/Registry.h"
#include "comm/gloo/Gloo.h"
#include "comm/mpi/Mpi.h"
#include "session/Meeting.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

using namespace mprt;
using namespace mprt::cts;

static int complain(const Error &error) {
  fprintf(stderr, "mprt-cts: %s: %s\n", nameOf(error.status()),
          error.message().c_str());
  return 1;
}

/// Whether the buffers are of a CUDA device.
static bool onCuda = false;
/// Whether NCCL moves them, and the transport only brings the ranks together.
static bool overNccl = false;

/// All cases of one rank; 0 where they pass.
static int runRank(Transport &transport, bool quick) {
  ContextOptions options;
  options.events = 16;
  options.timeoutSeconds = 120;
  std::unique_ptr<Device> device;
  if (onCuda) {
    DeviceOptions cuda;
    cuda.rank = transport.rank();
    cuda.localRank = transport.rank() % transport.localRanks();
    cuda.communicators = 3;
    Expected<std::unique_ptr<Device>> made = createDevice("cuda", cuda);
    if (!made)
      return complain(made.error());
    device = made.take();
    options.device = device.get();
  }
  std::unique_ptr<Meeting> meeting;
  std::unique_ptr<Transport> mover;
  if (overNccl) {
    Expected<std::unique_ptr<Meeting>> made =
        Meeting::create(transport, options.timeoutSeconds);
    if (!made)
      return complain(made.error());
    meeting = made.take();
    MoverOptions nccl;
    nccl.meeting = &transport;
    nccl.device = device.get();
    nccl.timeoutSeconds = options.timeoutSeconds;
    nccl.gather = [&](const void *mine, void *all, uint64_t bytes) {
      return meeting->gather(mine, all, bytes);
    };
    Expected<std::unique_ptr<Transport>> joined =
        findBackend("nccl")->move(nccl);
    if (!joined)
      return complain(joined.error());
    mover = joined.take();
  }
  Expected<std::unique_ptr<Rank>> rank =
      Rank::create(transport, options, mover.get());
  if (!rank)
    return complain(rank.error());
  runAsyncCases(**rank);
  runNanCases(**rank);
  runCollectiveCases(**rank, quick);
  if (transport.rank() == 0)
    printf("%s, %u ranks%s: %u cases, %u failures%s%s\n",
           mover ? mover->name() : transport.name(), transport.size(),
           onCuda ? " on cuda" : "", (*rank)->numCases(),
           (*rank)->numFailures(),
           (*rank)->numRefused()
               ? (", " + std::to_string((*rank)->numRefused()) + " unsupported")
                     .c_str()
               : "",
           (*rank)->owner().hasProgressThread() ? " (progress thread)" : "");
  fflush(stdout);
  return (*rank)->numFailures() ? 1 : 0;
}

/// 1 where a child failed.
static int waitForAll() {
  int worst = 0;
  for (int status = 0; wait(&status) > 0;)
    if (status != 0)
      worst = 1;
  return worst;
}

/// Forks `ranks` processes that run all cases over `backend`.
static int runForked(const Backend &backend, unsigned ranks, bool quick) {
  Expected<std::unique_ptr<LocalRanks>> local =
      backend.prepare(ranks, /*timeoutSeconds=*/60);
  if (!local)
    return complain(local.error());
  fflush(stdout);
  for (unsigned r = 0; r < ranks; ++r)
    if (fork() == 0) {
      int status = 1;
      {
        Expected<std::unique_ptr<Transport>> transport = (*local)->join(r);
        if (transport)
          status = runRank(**transport, quick);
        else
          complain(transport.error());
      }
      fflush(stdout);
      _exit(status);
    }
  (*local)->started();
  return waitForAll();
}

int main(int argc, char **argv) {
  bool quick = argc > 1 && !strcmp(argv[1], "--quick");
  argv += quick;
  argc -= quick;
  onCuda = argc > 1 && !strcmp(argv[1], "--cuda");
  argv += onCuda;
  argc -= onCuda;
  overNccl = onCuda && argc > 1 && !strcmp(argv[1], "--nccl");
  argv += overNccl;
  argc -= overNccl;
  const char *what = argc > 1 ? argv[1] : "";
  const Backend *backend = findBackend(what);
  if (backend && backend->prepare && argc > 2) {
    int worst = 0;
    for (int i = 2; i < argc; ++i)
      worst |= runForked(*backend, unsigned(atoi(argv[i])), quick);
    return worst;
  }
  if (!strcmp(what, "gloo-rank")) {
    Expected<GlooOptions> options = glooOptionsFromEnvironment();
    if (!options)
      return complain(options.error());
    Expected<std::unique_ptr<Transport>> transport = joinGloo(*options);
    if (!transport)
      return complain(transport.error());
    return runRank(**transport, quick);
  }
  if (!strcmp(what, "shm-faults") || !strcmp(what, "gloo-faults"))
    return runFaultCases(what[0] == 'g') ? 1 : 0;
  if (!strcmp(what, "mpi") || !strcmp(what, "mpi-mismatch")) {
    Expected<std::unique_ptr<Transport>> transport = joinMpi(MpiOptions{});
    if (!transport)
      return complain(transport.error());
    if (!strcmp(what, "mpi"))
      return runRank(**transport, quick);
    return runMismatchCase(**transport) ? 1 : 0;
  }
  fprintf(
      stderr,
      "usage: mprt-cts [--quick] [--cuda [--nccl]] shm RANKS… | gloo RANKS… "
      "| gloo-rank | "
      "mpi | mpi-mismatch | shm-faults | gloo-faults\n");
  return 2;
}
