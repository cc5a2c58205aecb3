//===- ours.cpp - all-reduce over the runtime -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: ours shm RANKS | mpi, then what timing.h takes. Called as a compiled
// program calls it: enqueue, record an event, wait for the event.
//
//===----------------------------------------------------------------------===//

#include "timing.h"

#include "comm/mpi/Mpi.h"
#include "comm/shm/SharedRanks.h"
#include "session/Context.h"

#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mprt;

static int fail(const Error &error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

static int run(Transport &transport, char **arguments) {
  size_t most = 0;
  for (char **size = arguments + 1; *size; ++size)
    most = std::max<size_t>(most, std::strtoull(*size, nullptr, 10));
  std::vector<unsigned> all(transport.size());
  for (unsigned r = 0; r < all.size(); ++r)
    all[r] = r;
  Expected<std::unique_ptr<Communicator>> world =
      transport.createCommunicator(all);
  if (!world)
    return fail(world.error());
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(world.take());
  ContextOptions options;
  options.events = 1;
  auto context = Context::create(options, &transport, std::move(communicators));
  if (!context)
    return fail(context.error());
  Expected<void *> memory = transport.allocate(most);
  if (!memory)
    return fail(memory.error());

  mprt_context *handle = (*context)->handle();
  auto *data = static_cast<float *>(*memory);
  mprt_collective barrier = {}, reduce = {};
  barrier.kind = MPRT_BARRIER;
  barrier.peer = reduce.peer = -1;
  barrier.name = reduce.name = "bench";
  barrier.location = reduce.location = "";
  auto call = [&](const mprt_collective &collective) {
    mprt_collective_run(handle, MPRT_COMM_STREAM(0), &collective, data, data);
    mprt_event_record(handle, MPRT_COMM_STREAM(0), 0);
    if (mprt_stream_wait(handle, MPRT_COMPUTE_STREAM, 0))
      std::exit(fail((*context)->error()));
  };
  measure(
      int(transport.rank()), int(transport.size()), arguments, data,
      [&] { call(barrier); },
      [&](size_t count) {
        reduce.count = count;
        call(reduce);
      });
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && !std::strcmp(argv[1], "mpi")) {
    Expected<std::unique_ptr<Transport>> transport = joinMpi(MpiOptions{});
    return transport ? run(**transport, argv + 2) : fail(transport.error());
  }
  unsigned ranks = unsigned(std::atoi(argv[2]));
  auto world = shm::SharedRanks::create(ranks, shm::SharedRanksOptions{});
  if (!world)
    return fail(world.error());
  for (unsigned r = 0; r < ranks; ++r)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int status = 1;
      {
        Expected<std::unique_ptr<Transport>> transport = (*world)->join(r);
        status =
            transport ? run(**transport, argv + 3) : fail(transport.error());
      }
      std::fflush(stdout);
      _exit(status);
    }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;)
    worst |= status;
  return worst != 0;
}
