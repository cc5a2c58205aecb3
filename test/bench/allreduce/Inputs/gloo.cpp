//===- gloo.cpp - all-reduce of Gloo --------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: gloo ring | bcube RANKS, then what timing.h takes.
//
//===----------------------------------------------------------------------===//

#include "timing.h"

#include <csignal>
#include <cstring>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(int rank, int ranks, bool ring, const char *folder,
                char **arguments) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  size_t most = 0;
  for (char **size = arguments + 1; *size; ++size)
    most = std::max<size_t>(most, std::strtoull(*size, nullptr, 10));
  std::vector<float> data(most / sizeof(float));
  // Operations with one tag would take each other's messages.
  uint32_t tag = 0;
  measure(
      rank, ranks, arguments, data.data(),
      [&] {
        gloo::BarrierOptions options(context);
        options.setTag(++tag);
        gloo::barrier(options);
      },
      [&](size_t count) {
        gloo::AllreduceOptions options(context);
        options.setTag(++tag);
        options.setOutput(data.data(), count);
        options.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(
                &gloo::sum<float>));
        options.setAlgorithm(ring ? gloo::AllreduceOptions::Algorithm::RING
                                  : gloo::AllreduceOptions::Algorithm::BCUBE);
        gloo::allreduce(options);
      });
}

int main(int, char **argv) {
  bool ring = !std::strcmp(argv[1], "ring");
  int ranks = std::atoi(argv[2]);
  char folder[] = "/tmp/mpcomm-bench-XXXXXX";
  if (!mkdtemp(folder))
    return 1;
  for (int r = 0; r < ranks; ++r)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(r, ranks, ring, folder, argv + 3);
      _exit(0);
    }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;)
    worst |= status;
  std::string remove = std::string("rm -r ") + folder;
  return std::system(remove.c_str()) | worst;
}
