//===- NcclRunTest.cpp - communicators of NCCL, and their end -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rank with two communicators, the second of which is split from the first,
// on the doubles of NCCL and of the CUDA driver. Each test is a process, since
// NCCL's version is asked for once.
//
//===----------------------------------------------------------------------===//

#include "TwoRanks.h"
#include "comm/nccl/Nccl.h"
#include "comm/shm/SharedRanks.h"
#include "device/Device.h"
#include "session/Context.h"
#include "support/Trace.h"

#include "mpcomm/Runtime/mprt.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <cstring>

using namespace mprt;

namespace {

constexpr uint64_t count = 32;
constexpr double abortSeconds = 3;

const mprt_collective sums[2] = {sumOf(0, count), sumOf(1, count)};

/// A collective on each communicator.
int32_t enter(mprt_context *context, void *const *buffers, void *) {
  for (uint32_t i = 0; i < 2; ++i)
    mprt_collective_run(context, MPRT_COMM_STREAM(i), &sums[i], buffers[i],
                        buffers[i]);
  return mprt_status_of(context);
}

struct OneRank {
  std::unique_ptr<Device> device;
  std::unique_ptr<shm::SharedRanks> world;
  std::unique_ptr<Transport> meeting, mover;
  std::unique_ptr<Context> context;
  std::vector<void *> buffers;

  OneRank() {
    setenv("MPRT_CUDA_LIBRARY", MPCOMM_FAKE_CUDA, 1);
    setenv("MPRT_NCCL_LIBRARY", MPCOMM_FAKE_NCCL, 1);
    DeviceOptions cuda;
    cuda.communicators = 2;
    device = createDevice("cuda", cuda).take();
    world = shm::SharedRanks::create(1, {}).take();
    meeting = world->join(0).take();
    MoverOptions nccl;
    nccl.meeting = meeting.get();
    nccl.device = device.get();
    nccl.timeoutSeconds = abortSeconds;
    nccl.gather = [](const void *mine, void *all, uint64_t bytes) {
      memcpy(all, mine, bytes);
      return Error();
    };
    mover = joinNccl(nccl).take();
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int i = 0; i < 2; ++i)
      communicators.push_back(mover->createCommunicator({0}).take());
    ContextOptions options;
    options.device = device.get();
    context = Context::create(options, meeting.get(), std::move(communicators))
                  .take();
    for (int i = 0; i < 2; ++i)
      buffers.push_back(device->allocate(count * 4).take());
  }

  /// So many steps, done.
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      (void)context->call(enter, buffers.data(), buffers.size(), nullptr);
      if (Error error = context->synchronize())
        fprintf(stderr, "%s\n", error.message().c_str());
    }
  }
};

/// Steps, a last one of which hangs on both communicators; `done`, where the
/// context's failure ends that in time.
[[noreturn]] void hang(int steps) {
  OneRank rank;
  rank.run(steps);
  bool isGraph = rank.context->stats().graphSteps > 0;
  setenv("MPFAKE_NCCL_HANG", "1", 1);
  (void)rank.context->call(enter, rank.buffers.data(), rank.buffers.size(),
                           nullptr);
  uint64_t begin = nowNanoseconds();
  rank.context->fail(Error(MPRT_TIMEOUT, "given up"));
  double seconds = double(nowNanoseconds() - begin) * 1e-9;
  fprintf(stderr, "%s: %s%s\n", isGraph ? "graph" : "calls",
          rank.context->error().message().c_str(),
          seconds < abortSeconds ? ", done" : "");
  _exit(0);
}

} // namespace

TEST(NcclRun, StepsOnTwoCommunicators) {
  EXPECT_EXIT(
      {
        OneRank rank;
        rank.run(4);
        fprintf(stderr, "%d graphs\n", int(rank.context->stats().graphSteps));
        _exit(0);
      },
      testing::ExitedWithCode(0), "^2 graphs\n$");
}

// An abort waits for all of the device: one after the other none would end.
TEST(NcclRun, CommunicatorsThatHangEndTogether) {
  for (const char *version : {"22809", "22200", "22105", "21805"}) {
    SCOPED_TRACE(version);
    setenv("MPFAKE_NCCL_VERSION", version, 1);
    EXPECT_EXIT(hang(0), testing::ExitedWithCode(0), "^calls: given up, done");
    unsetenv("MPFAKE_NCCL_VERSION");
  }
}

// An abort waits for the end of the graphs that it was captured into.
TEST(NcclRun, GraphsThatHangEnd) {
  for (const char *version : {"22809", "21805"}) {
    SCOPED_TRACE(version);
    setenv("MPFAKE_NCCL_VERSION", version, 1);
    EXPECT_EXIT(hang(4), testing::ExitedWithCode(0), "^graph: given up, done");
    unsetenv("MPFAKE_NCCL_VERSION");
  }
}

TEST(NcclRun, AnAbortThatDoesNotReturnIsLeftAlone) {
  setenv("MPFAKE_NCCL_STUCK", "1", 1);
  EXPECT_EXIT(
      hang(0), testing::ExitedWithCode(0),
      "^calls: given up; NCCL did not end its communicators "
      "\\(ncclCommAbort\\) within 3 s, what is on the GPU is left as it "
      "is\n");
  unsetenv("MPFAKE_NCCL_STUCK");
}
