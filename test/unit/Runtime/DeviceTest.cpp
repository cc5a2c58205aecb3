//===- DeviceTest.cpp - contexts on devices -------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every device does is tested on the host and on the CUDA device. The
// latter is on the fake driver, which runs everything as late as streams and
// events allow, in another order under each seed: programs whose events order
// what has to be ordered come to what they come to one call after the other.
//
//===----------------------------------------------------------------------===//

#include "CudaApi.h"
#include "Devices.h"
#include "FakeCuda.h"
#include "TwoRanks.h"

#include "comm/shm/SharedRanks.h"
#include "session/Context.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

using namespace mprt;

namespace {

/// A communicator of one rank whose collectives are copies on the stream.
class OrderedCopies : public Communicator {
public:
  explicit OrderedCopies(bool counts = true)
      : Communicator({0}, 0), counts(counts) {}
  bool isStreamOrdered() const override { return true; }
  Error bind(Device &theDevice, uint32_t theStream) override {
    device = &theDevice;
    stream = theStream;
    return {};
  }
  bool accepts() const override { return true; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override {
    if (!device->isCapturing())
      ++started;
    return device->copy(stream, recv, send, collective.count * 4,
                        CopyKind::OnDevice);
  }
  Error progress(bool &moved) override {
    if (device->isCapturing() || finished == started || !counts)
      return {};
    Expected<bool> done = device->finished(stream);
    if (!done)
      return done.error();
    if (*done) {
      finished = started;
      moved = true;
    }
    return {};
  }
  Device *device = nullptr;
  uint32_t stream = 0;
  uint64_t started = 0;
  bool counts;
};

const mprt_collective collectives[2] = {sumOf(0, elements), sumOf(1, elements)};

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

/// One thing to do, or an event.
struct Op {
  enum Kind { Add, Copy, Zero, Collective, Record, Wait } kind;
  uint32_t stream;
  /// Buffers: c = a + b, c = a, c = 0; or the event.
  uint32_t a = 0, b = 0, c = 0;
};

constexpr uint32_t numBuffers = 6, maxEvents = 3, numStreams = 3;

/// What one call after the other comes to.
void runReference(const std::vector<Op> &ops, Values &values) {
  for (const Op &op : ops) {
    if (op.kind == Op::Add)
      values[op.c] = values[op.a] + values[op.b];
    if (op.kind == Op::Copy || op.kind == Op::Collective)
      values[op.c] = values[op.a];
    if (op.kind == Op::Zero)
      values[op.c] = 0;
  }
}

/// A program of random work, in which each piece waits for those on other
/// streams that have touched its buffers, and for no more. Events are recorded
/// right after the work that is waited for, or later, and again as soon as
/// they have been waited for.
std::vector<Op> makeProgram(std::mt19937 &random, unsigned length,
                            uint32_t numEvents, bool joins) {
  std::vector<Op> ops;
  auto pick = [&](uint32_t count) { return uint32_t(random() % count); };
  // Of each buffer: by stream, the last piece of work there that touched it;
  // and what each stream has waited for of each other.
  uint64_t touched[numBuffers][numStreams] = {}, now[numStreams] = {},
           seen[numStreams][numStreams] = {};
  uint32_t nextEvent = 0;
  // Whether it begins after all that the compute stream has.
  if (joins) {
    ops.push_back({Op::Record, 0, nextEvent});
    for (uint32_t other = 1; other < numStreams; ++other)
      ops.push_back({Op::Wait, other, nextEvent});
    ++nextEvent;
  }
  for (unsigned i = 0; i < length; ++i) {
    Op op;
    op.stream = pick(numStreams);
    op.a = pick(numBuffers), op.b = pick(numBuffers), op.c = pick(numBuffers);
    uint32_t kind = pick(op.stream == 0 ? 3 : 5);
    op.kind = Op::Kind(std::min<uint32_t>(kind, Op::Collective));
    if (op.kind == Op::Add && (op.a == op.c || op.b == op.c))
      op.kind = Op::Zero;
    if (op.a == op.c)
      op.kind = Op::Zero;
    std::vector<uint32_t> uses = {op.c};
    if (op.kind != Op::Zero)
      uses.push_back(op.a);
    if (op.kind == Op::Add)
      uses.push_back(op.b);
    for (uint32_t other = 0; other < numStreams; ++other) {
      uint64_t last = 0;
      for (uint32_t buffer : uses)
        last = std::max(last, touched[buffer][other]);
      if (other == op.stream || last <= seen[op.stream][other])
        continue;
      uint32_t event = nextEvent++ % numEvents;
      ops.push_back({Op::Record, other, event});
      ops.push_back({Op::Wait, op.stream, event});
      // With that stream come those that it had waited for.
      for (uint32_t third = 0; third < numStreams; ++third)
        seen[op.stream][third] =
            std::max(seen[op.stream][third], seen[other][third]);
      seen[op.stream][other] = now[other];
    }
    ++now[op.stream];
    seen[op.stream][op.stream] = now[op.stream];
    for (uint32_t buffer : uses)
      touched[buffer][op.stream] = now[op.stream];
    ops.push_back(op);
  }
  // Whether at the end the compute stream has seen all.
  for (uint32_t other = 1; other < numStreams && joins; ++other) {
    uint32_t event = nextEvent++ % numEvents;
    ops.push_back({Op::Record, other, event});
    ops.push_back({Op::Wait, 0, event});
  }
  return ops;
}

const std::vector<Op> *entryOps = nullptr;

/// The program as an entry point.
int32_t enter(mprt_context *context, void *const *buffers, void *) {
  for (const Op &op : *entryOps) {
    void *add[] = {buffers[op.a], buffers[op.b], buffers[op.c]};
    switch (op.kind) {
    case Op::Add:
      mprt_launch(context, op.stream, &addKernel, add);
      break;
    case Op::Copy:
      mprt_copy(context, op.stream, buffers[op.c], buffers[op.a], elements * 4);
      break;
    case Op::Zero:
      mprt_zero(context, op.stream, buffers[op.c], elements * 4);
      break;
    case Op::Collective:
      mprt_collective_run(context, op.stream, &collectives[op.stream - 1],
                          buffers[op.a], buffers[op.c]);
      break;
    case Op::Record:
      mprt_event_record(context, op.stream, op.a);
      break;
    case Op::Wait:
      mprt_stream_wait(context, op.stream, op.a);
      break;
    }
  }
  return mprt_status_of(context);
}

/// A device, a world of one rank, two communicators, buffers.
struct OneRank {
  std::unique_ptr<Device> device;
  std::unique_ptr<shm::SharedRanks> world;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Context> context;
  std::vector<void *> buffers;

  explicit OneRank(int orderedFrom, ContextOptions options = {},
                   const std::string &kind = onCuda) {
    device = makeDevice(2, kind);
    world = shm::SharedRanks::create(1, {}).take();
    transport = world->join(0).take();
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int i = 0; i < 2; ++i)
      if (i >= orderedFrom)
        communicators.push_back(std::make_unique<OrderedCopies>());
      else
        communicators.push_back(transport->createCommunicator({0}).take());
    options.events = maxEvents;
    options.device = device.get();
    auto made =
        Context::create(options, transport.get(), std::move(communicators));
    EXPECT_TRUE(made) << made.error().message();
    context = made.take();
    for (uint32_t i = 0; i < numBuffers; ++i)
      buffers.push_back(device->allocate(elements * 4).take());
  }

  void store(const Values &values) {
    for (uint32_t i = 0; i < numBuffers; ++i) {
      std::vector<float> all(elements, values[i]);
      EXPECT_FALSE(device->upload(buffers[i], all.data(), elements * 4));
    }
  }
  Values load() {
    Values values;
    for (void *buffer : buffers) {
      std::vector<float> all(elements);
      EXPECT_FALSE(device->download(all.data(), buffer, elements * 4));
      for (float value : all)
        EXPECT_EQ(value, all[0]);
      values.push_back(all[0]);
    }
    return values;
  }
};

/// Runs random programs `times` times each; 0: once.
void checkRandomPrograms(int orderedFrom, ProgressMode progress, bool graphs,
                         const std::string &kind = onCuda) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    mpfake_seed(seed);
    std::mt19937 random(seed);
    ContextOptions options;
    options.progress = progress;
    OneRank setup(orderedFrom, options, kind);
    Values values = {1, 2, 3, 4, 5, 6};
    setup.store(values);
    std::vector<Op> ops = makeProgram(random, 10 + seed % 30,
                                      1 + seed % maxEvents, seed % 2 == 0);
    entryOps = &ops;
    for (int step = 0; step < (graphs ? 5 : 2); ++step) {
      runReference(ops, values);
      // Sums grow; zero and copies keep them small enough to be exact.
      EXPECT_EQ(setup.context->call(enter, setup.buffers.data(),
                                    setup.buffers.size(), nullptr),
                MPRT_OK);
      Error error = setup.context->synchronize();
      ASSERT_FALSE(error) << error.message();
      ASSERT_EQ(setup.load(), values) << "step " << step;
    }
    EXPECT_EQ(setup.context->stats().graphSteps, graphs ? 3u : 0u);
    EXPECT_EQ(setup.context->graphNote().empty(), graphs || kind == onHost);
  }
}

/// What every device does.
class EachDevice : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Devices, EachDevice, testing::Values(onHost, onCuda),
                         [](const auto &info) { return info.param; });

TEST_P(EachDevice, ProgramsAreOrdered) {
  checkRandomPrograms(2, ProgressMode::Poll, false, GetParam());
}

TEST_P(EachDevice, ProgramsAreOrderedWithAThread) {
  checkRandomPrograms(2, ProgressMode::Thread, false, GetParam());
}

TEST_P(EachDevice, ProgramsWithBothKindsAreOrdered) {
  checkRandomPrograms(1, ProgressMode::Auto, false, GetParam());
}

TEST(DeviceTest, GraphsDoWhatTheCallsDo) {
  checkRandomPrograms(0, ProgressMode::Auto, true);
}

/// Of the host, for one rank; its collectives end when they may.
class HeldCommunicator : public Communicator {
public:
  HeldCommunicator() : Communicator({0}, 0) {}
  bool accepts() const override { return true; }
  Error start(const mprt_collective &collective, const void *send,
              void *recv) override {
    memcpy(recv, send, collective.count * 4);
    ++started;
    return {};
  }
  Error progress(bool &moved) override {
    moved |= released && finished != started;
    if (released)
      finished = started;
    return {};
  }

  std::atomic<uint64_t> started{0};
  std::atomic<bool> released{false};
};

// An event may be recorded anew while a wait for what it marked before is still
// in the queue of a stream, after a collective.
TEST(DeviceTest, QueuedWaitsKeepTheirMark) {
  auto device = makeDevice(2);
  EXPECT_EQ(device->createEvent().take(), 0u); // not the context's
  auto held = std::make_unique<HeldCommunicator>();
  HeldCommunicator *handle = held.get();
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(std::move(held));
  communicators.push_back(std::make_unique<OrderedCopies>());
  ContextOptions options;
  options.events = 1;
  options.device = device.get();
  auto context =
      Context::create(options, nullptr, std::move(communicators)).take();
  mprt_context *ctx = context->handle();
  std::vector<void *> buffers;
  for (float value : {1, 2, 3, 4, 5, 6}) {
    std::vector<float> all(elements, value);
    buffers.push_back(device->allocate(elements * 4).take());
    ASSERT_FALSE(device->upload(buffers.back(), all.data(), elements * 4));
  }
  auto *gate = static_cast<std::atomic<uint32_t> *>(
      device->allocatePinned(sizeof(std::atomic<uint32_t>)).take());
  auto stream2 = static_cast<CUstream>(device->handleOf(2));
  ASSERT_EQ(cuStreamWaitValue32_v2(stream2, CUdeviceptr(gate), 1,
                                   CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  mprt_collective_run(ctx, 1, &collectives[0], buffers[0], buffers[1]);
  void *sum[] = {buffers[2], buffers[3], buffers[4]};
  mprt_launch(ctx, 2, &addKernel, sum);
  mprt_event_record(ctx, 2, 0);
  mprt_stream_wait(ctx, 1, 0);
  mprt_copy(ctx, 1, buffers[2], buffers[4], elements * 4);
  mprt_event_record(ctx, 0, 0);
  mprt_stream_wait(ctx, 2, 0);
  EXPECT_EQ(mprt_status_of(ctx), MPRT_OK);
  handle->released = true;
  // Each call moves the queue on, until all of it is on the device.
  while (context->flight()[0].done == 0)
    mprt_zero(ctx, 0, buffers[5], 4);
  uint64_t begin = nowNanoseconds();
  while (nowNanoseconds() - begin < 50'000'000)
    EXPECT_FALSE(*device->finished(1));
  *gate = 1;
  ASSERT_FALSE(context->synchronize()) << mprt_message_of(ctx);
  float values[elements];
  for (auto [buffer, expected] : {std::pair(1, 1.f), std::pair(2, 7.f)}) {
    ASSERT_FALSE(device->download(values, buffers[buffer], elements * 4));
    for (float value : values)
      EXPECT_EQ(value, expected) << "buffer " << buffer;
  }
  // The context has made 1, and 2 when it recorded a second time.
  EXPECT_EQ(device->createEvent().take(), 3u);
}

// While a collective is not done the compute stream's wait blocks the caller,
// and with it nothing that is enqueued already.
TEST(DeviceTest, AWaitForAStagedCollectiveBlocks) {
  auto device = makeDevice(1);
  auto held = std::make_unique<HeldCommunicator>();
  HeldCommunicator *handle = held.get();
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(std::move(held));
  ContextOptions options;
  options.events = 1;
  options.device = device.get();
  auto context =
      Context::create(options, nullptr, std::move(communicators)).take();
  mprt_context *ctx = context->handle();
  void *from = device->allocate(elements * 4).take();
  void *to = device->allocate(elements * 4).take();
  mprt_collective_run(ctx, 1, &collectives[0], from, to);
  mprt_event_record(ctx, 1, 0);
  std::atomic<uint64_t> ended{0};
  std::thread releases([&] {
    while (!handle->started)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(ended, 0u);
    handle->released = true;
  });
  EXPECT_EQ(mprt_stream_wait(ctx, 0, 0), MPRT_OK);
  ended = 1;
  releases.join();
  EXPECT_GE(context->stats().waitedNanoseconds, 20'000'000u);
}

/// What `shift` does in its middle.
std::function<void()> amidst;

/// Moves buffers 0 to 1 to 2 on a communicator's stream, which nothing joins.
int32_t shift(mprt_context *context, void *const *buffers, void *) {
  mprt_copy(context, 1, buffers[2], buffers[1], elements * 4);
  if (amidst)
    amidst();
  mprt_copy(context, 1, buffers[1], buffers[0], elements * 4);
  return mprt_status_of(context);
}

// The first graph may follow a step that still runs, call by call, on streams
// that nothing joins.
TEST(DeviceTest, GraphsFollowCalls) {
  OneRank setup(0);
  setup.store({1, 2, 3, 4, 5, 6});
  auto *gate = static_cast<std::atomic<uint32_t> *>(
      setup.device->allocatePinned(sizeof(std::atomic<uint32_t>)).take());
  auto stream = static_cast<CUstream>(setup.device->handleOf(1));
  auto step = [&] {
    EXPECT_EQ(setup.context->call(shift, setup.buffers.data(),
                                  setup.buffers.size(), nullptr),
              MPRT_OK);
  };
  step();
  EXPECT_FALSE(setup.context->synchronize());
  setup.store({1, 2, 3, 4, 5, 6});
  amidst = [&] {
    cuStreamWaitValue32_v2(stream, CUdeviceptr(gate), 1,
                           CU_STREAM_WAIT_VALUE_GEQ);
  };
  step();
  amidst = nullptr;
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    *gate = 1;
  });
  step();
  EXPECT_EQ(setup.context->stats().graphSteps, 1u);
  opens.join();
  EXPECT_FALSE(setup.context->synchronize());
  EXPECT_EQ(setup.load(), Values({1, 1, 1, 4, 5, 6}));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(DeviceTest, WrongKernelsAreRefused) {
  auto messageOf = [](mprt_kernel kernel) {
    auto device = makeDevice(0);
    ContextOptions options;
    options.device = device.get();
    auto context = Context::create(options, nullptr, {}).take();
    void *buffer = device->allocate(256).take();
    void *operands[] = {buffer, buffer, buffer};
    EXPECT_NE(mprt_launch(context->handle(), 0, &kernel, operands), MPRT_OK);
    // It is sticky.
    EXPECT_NE(mprt_launch(context->handle(), 0, &addKernel, operands), MPRT_OK);
    return std::string(mprt_message_of(context->handle()));
  };
  std::string at = "mprt_launch \"add\" at test.mlir:1 on rank 0: ";
  EXPECT_EQ(messageOf(kernelOf("add", 3, 33, 1)),
            at + "blocks of 33 threads, expected a multiple of 32 up to 1024");
  EXPECT_EQ(messageOf(kernelOf("add", 3, 32, uint64_t(1) << 31)),
            at + "a grid of 2147483648 blocks, expected at most 2147483647");
  mprt_kernel wrong = kernelOf("add", 3, 32, 1);
  wrong.symbol = nullptr;
  EXPECT_EQ(messageOf(wrong), at + "it is no kernel for a GPU");
  wrong.symbol = "sub";
  EXPECT_EQ(messageOf(wrong),
            at + "its symbol 'sub' is not in the program's images");
  wrong = kernelOf("add", 3, 32, 1);
  wrong.shared_bytes = 1 << 20;
  EXPECT_EQ(messageOf(wrong).rfind(
                at + "1048576 bytes of shared memory a block: ", 0),
            0u);
}

TEST_P(EachDevice, WrongStreamsAndEventsAreRefused) {
  auto messageOf = [](auto call) {
    OneRank setup(2, {}, GetParam());
    EXPECT_EQ(call(setup), MPRT_INVALID_ARGUMENT);
    return std::string(mprt_message_of(setup.context->handle()));
  };
  EXPECT_EQ(messageOf([](OneRank &s) {
              return mprt_zero(s.context->handle(), 3, s.buffers[0], 4);
            }),
            "mprt_zero on rank 0: there is no stream 3, only 0 to 2");
  EXPECT_EQ(messageOf([](OneRank &s) {
              void *operands[] = {s.buffers[0], s.buffers[1], s.buffers[2]};
              return mprt_launch(s.context->handle(), 7, &addKernel, operands);
            }),
            "mprt_launch on rank 0: there is no stream 7, only 0 to 2");
  EXPECT_EQ(messageOf([](OneRank &s) {
              return mprt_event_record(s.context->handle(), 1, 3);
            }),
            "mprt_event_record on rank 0: there is no event 3, only 3 events");
  EXPECT_EQ(messageOf([](OneRank &s) {
              return mprt_stream_wait(s.context->handle(), 1, 2);
            }),
            "mprt_stream_wait on rank 0: event 2 was never recorded");
  EXPECT_EQ(messageOf([](OneRank &s) {
              return mprt_collective_run(s.context->handle(), 1,
                                         &collectives[1], s.buffers[0],
                                         s.buffers[1]);
            }),
            "all_reduce \"sum\" at test.mlir:2 on rank 0: communicator 1 has "
            "no stream 1 (there are 2 communicators)");
}

/// Of which the other rank fails at a time, if any.
class FailingWorld : public SilentWorld {
public:
  std::optional<Error> reportedFailure() override {
    if (failsAt && nowNanoseconds() >= failsAt)
      return Error(MPRT_PEER_FAILED, "rank 1 failed: no more");
    return std::nullopt;
  }

  uint64_t failsAt = 0;
};

/// What the others had been told when a communicator was aborted.
std::string toldWhenAborted;

/// Collectives that hold their stream up until the context gives up.
class StuckCommunicator : public OrderedCopies {
public:
  StuckCommunicator(FailingWorld &world,
                    std::shared_ptr<std::atomic<bool>> aborted)
      : OrderedCopies(/*counts=*/false), world(world),
        aborted(std::move(aborted)) {}
  Error abort() override {
    toldWhenAborted = world.told;
    *aborted = true;
    return {};
  }
  Error start(const mprt_collective &, const void *, void *) override {
    ++started;
    mpfake_enqueue(
        device->handleOf(stream), "stuck",
        [](void *flag) {
          while (!*static_cast<std::atomic<bool> *>(flag))
            std::this_thread::yield();
          return 0;
        },
        aborted.get(), nullptr);
    return {};
  }

  FailingWorld &world;
  /// Outlives the device, which may still look at it.
  std::shared_ptr<std::atomic<bool>> aborted;
};

Error runStuck(FailingWorld &world, double timeoutSeconds) {
  auto aborted = std::make_shared<std::atomic<bool>>(false);
  auto device = makeDevice(1);
  ContextOptions options;
  options.events = 1;
  options.timeoutSeconds = timeoutSeconds;
  options.device = device.get();
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(std::make_unique<StuckCommunicator>(world, aborted));
  auto context =
      Context::create(options, &world, std::move(communicators)).take();
  void *buffer = device->allocate(elements * 4).take();
  mprt_context *handle = context->handle();
  mprt_collective_run(handle, 1, &collectives[0], buffer, buffer);
  mprt_event_record(handle, 1, 0);
  mprt_stream_wait(handle, 0, 0);
  mprt_zero(handle, 0, buffer, 4);
  return context->synchronize();
}

TEST(DeviceTest, CollectivesThatDoNotEndTimeOut) {
  FailingWorld world;
  Error error = runStuck(world, 0.3);
  EXPECT_EQ(error.status(), MPRT_TIMEOUT);
  EXPECT_EQ(error.message(),
            "all_reduce \"sum\" at test.mlir:2 on rank 0 (its collective 1): "
            "timed out: nothing moved for 0.3 s");
  EXPECT_EQ(world.told, error.message());
  // An abort may take its time.
  EXPECT_EQ(toldWhenAborted, error.message());
}

TEST(DeviceTest, AFailedPeerEndsTheWait) {
  FailingWorld world;
  world.failsAt = nowNanoseconds() + 50'000'000;
  constexpr double timeoutSeconds = 60;
  uint64_t begin = nowNanoseconds();
  Error error = runStuck(world, timeoutSeconds);
  EXPECT_EQ(error.status(), MPRT_PEER_FAILED);
  EXPECT_EQ(error.message(), "rank 1 failed: no more");
  EXPECT_LT(double(nowNanoseconds() - begin) * 1e-9, timeoutSeconds);
}

//===----------------------------------------------------------------------===//
// Traces and totals
//===----------------------------------------------------------------------===//

TEST_P(EachDevice, TracesLieBetweenTheCallAndItsEnd) {
  for (int orderedFrom : {0, 2}) {
    ContextOptions options;
    options.traceCapacity = 1000;
    OneRank setup(orderedFrom, options, GetParam());
    mprt_context *context = setup.context->handle();
    uint64_t begin = nowNanoseconds();
    for (int step = 0; step < 3; ++step) {
      void *operands[] = {setup.buffers[0], setup.buffers[1], setup.buffers[2]};
      mprt_launch(context, 0, &addKernel, operands);
      mprt_event_record(context, 0, 0);
      mprt_stream_wait(context, 1, 0);
      mprt_collective_run(context, 1, &collectives[0], setup.buffers[2],
                          setup.buffers[3]);
      mprt_event_record(context, 1, 1);
      mprt_stream_wait(context, 0, 1);
      mprt_copy(context, 0, setup.buffers[4], setup.buffers[3], 64);
      ASSERT_FALSE(setup.context->synchronize());
    }
    uint64_t end = nowNanoseconds();
    unsigned counts[6] = {};
    for (const TraceEvent &event : setup.context->trace().events()) {
      ++counts[event.kind];
      // The clocks are compared by two looks around an event, which a busy
      // machine may hold apart for as long as all of this took.
      EXPECT_GE(event.begin + (end - begin), begin);
      EXPECT_LE(event.begin, event.end);
      EXPECT_LE(event.end, end + (end - begin));
      EXPECT_EQ(event.stream, event.kind == TraceEvent::Collective ? 1u : 0u);
      if (event.kind == TraceEvent::Wait) {
        EXPECT_EQ(event.waitedStream, 1u);
        EXPECT_EQ(event.collective, &collectives[0]);
      }
    }
    EXPECT_EQ(counts[TraceEvent::Kernel], 3u);
    EXPECT_EQ(counts[TraceEvent::Collective], 3u);
    EXPECT_EQ(counts[TraceEvent::Wait], 3u);
    EXPECT_EQ(counts[TraceEvent::Copy], 3u);
    EXPECT_EQ(setup.context->stats().graphSteps, 0u);
  }
}

TEST(DeviceTest, FlightsOfGraphsAreKept) {
  OneRank setup(0);
  std::vector<Op> ops = {{Op::Record, 0, 0},
                         {Op::Wait, 1, 0},
                         {Op::Collective, 1, 0, 0, 1},
                         {Op::Record, 1, 1},
                         {Op::Wait, 0, 1}};
  entryOps = &ops;
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(setup.context->call(enter, setup.buffers.data(),
                                  setup.buffers.size(), nullptr),
              MPRT_OK);
    EXPECT_FALSE(setup.context->synchronize());
  }
  Stats stats = setup.context->stats();
  EXPECT_EQ(stats.eagerSteps, 1u);
  EXPECT_EQ(stats.graphSteps, 2u);
  EXPECT_EQ(stats.collectives, 4u);
  EXPECT_EQ(stats.collectiveBytes, 4 * elements * 4u);
  std::vector<FlightEntry> flight = setup.context->flight();
  ASSERT_EQ(flight.size(), 4u);
  for (const FlightEntry &entry : flight)
    EXPECT_STREQ(stateOf(entry), "done");
}

} // namespace
