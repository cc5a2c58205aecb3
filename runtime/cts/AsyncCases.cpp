//===- AsyncCases.cpp - several collectives at a time ---------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"

#include <algorithm>
#include <cstring>

using namespace mprt;
using namespace mprt::cts;

static mprt_collective sumOf(uint32_t id, uint32_t communicator,
                             uint64_t count) {
  mprt_collective c{};
  c.id = id;
  c.kind = MPRT_ALL_REDUCE;
  c.reduction = MPRT_SUM;
  c.type = c.accumulate = MPRT_F32;
  c.communicator = communicator;
  c.peer = -1;
  c.count = count;
  c.name = "async";
  c.location = "cts";
  return c;
}

/// Sums of small integers are exact in float.
static bool allEqual(const float *data, uint64_t count, float value) {
  for (uint64_t i = 0; i < count; ++i)
    if (data[i] != value)
      return false;
  return true;
}

/// Buckets of several sizes are all enqueued before the first is awaited, and
/// awaited in the order that `step` gives.
static void runBuckets(Rank &rank, unsigned step, bool inArena) {
  if (rank.owner().error())
    return;
  rank.begin("buckets in flight, order " + std::to_string(step) +
             (inArena ? ", arena" : ", heap"));
  constexpr unsigned numBuckets = 8;
  static const uint64_t counts[numBuckets] = {1,    70000, 33,     8193,
                                              5000, 0,     100001, 12};
  mprt_context *context = rank.context();
  unsigned size = rank.size(0);
  std::vector<mprt_collective> collectives(numBuckets);
  std::vector<std::vector<float>> heap(numBuckets);
  std::vector<float *> buffers(numBuckets);
  auto *arena = reinterpret_cast<float *>(rank.arenaBuffer());
  for (unsigned b = 0; b < numBuckets; ++b) {
    heap[b].resize(counts[b] + 1);
    buffers[b] = inArena ? arena : heap[b].data();
    arena += (counts[b] + 63) / 64 * 64;
    for (uint64_t i = 0; i < counts[b]; ++i)
      buffers[b][i] = float(b + rank.rank(0));
    rank.map(buffers[b], counts[b] * sizeof(float));
  }
  rank.toDevice();
  for (unsigned b = 0; b < numBuckets; ++b) {
    collectives[b] = sumOf(100 + b, 0, counts[b]);
    float *data = rank.at(buffers[b]);
    mprt_collective_run(context, 1, &collectives[b], data, data);
    mprt_event_record(context, 1, b);
  }
  for (unsigned i = 0; i < numBuckets; ++i) {
    unsigned b = (i * step + step / 2) % numBuckets;
    mprt_stream_wait(context, MPRT_COMPUTE_STREAM, b);
    rank.fromDevice();
    // Sum over r of (b + r).
    float expected = float(size * b + size * (size - 1) / 2);
    rank.expect(allEqual(buffers[b], counts[b], expected),
                "bucket " + std::to_string(b) + " is wrong");
  }
  rank.healthy();
}

/// Each collective takes what the one before it on its stream has made, with no
/// event between them.
static void runChain(Rank &rank) {
  if (rank.owner().error())
    return;
  rank.begin("one takes what another made");
  constexpr uint64_t count = 40000;
  mprt_context *context = rank.context();
  unsigned size = rank.size(0), self = rank.rank(0);
  auto *all = reinterpret_cast<float *>(rank.arenaBuffer());
  float *own = all + count * size, *gathered = own + count;
  rank.map(all, count * (2 * size + 1) * sizeof(float));
  mprt_collective scatter = sumOf(600, 0, count), gather = sumOf(601, 0, count);
  mprt_collective reduce = sumOf(602, 0, count * size);
  scatter.kind = MPRT_REDUCE_SCATTER;
  gather.kind = MPRT_ALL_GATHER;
  for (unsigned round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < count * size; ++i)
      all[i] = float(i / count + self + round);
    rank.toDevice();
    mprt_collective_run(context, 1, &scatter, rank.at(all), rank.at(own));
    mprt_collective_run(context, 1, &gather, rank.at(own), rank.at(gathered));
    mprt_collective_run(context, 1, &reduce, rank.at(gathered),
                        rank.at(gathered));
    mprt_event_record(context, 1, 0);
    mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 0);
    rank.fromDevice();
    if (!rank.healthy())
      return;
    for (unsigned r = 0; r < size; ++r) {
      // Sum over ranks s of (r + s + round), by each rank.
      auto sum = float(size * (r + round) + size * (size - 1) / 2);
      rank.expect(allEqual(gathered + r * count, count, float(size) * sum),
                  "block " + std::to_string(r) + " is wrong");
    }
  }
}

/// Two communicators with work of their own, and one that waits for the other.
static void runTwoStreams(Rank &rank) {
  if (rank.owner().error())
    return;
  rank.begin("two communicators");
  constexpr uint64_t count = 50000;
  mprt_context *context = rank.context();
  auto *a = reinterpret_cast<float *>(rank.arenaBuffer());
  float *b = a + count, *copy = b + count;
  for (uint64_t i = 0; i < count; ++i) {
    a[i] = 1;
    b[i] = 2;
  }
  memset(copy, 1, count * sizeof(float));
  rank.map(a, 3 * count * sizeof(float));
  rank.toDevice();
  mprt_collective world = sumOf(200, 0, count), half = sumOf(201, 1, count);
  mprt_collective last = sumOf(202, 1, count);
  mprt_collective_run(context, 1, &world, rank.at(a), rank.at(a));
  mprt_event_record(context, 1, 0);
  mprt_collective_run(context, 2, &half, rank.at(b), rank.at(b));
  // Stream 2 takes what stream 1 has made, and goes on with it.
  mprt_stream_wait(context, 2, 0);
  mprt_copy(context, 2, rank.at(copy), rank.at(a), count * sizeof(float));
  mprt_collective_run(context, 2, &last, rank.at(copy), rank.at(copy));
  mprt_event_record(context, 2, 1);
  mprt_zero(context, 2, rank.at(b), 4 * sizeof(float));
  mprt_event_record(context, 2, 2);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 2);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 1);
  rank.fromDevice();
  if (!rank.healthy())
    return;
  auto n = float(rank.size(0)), m = float(rank.size(1));
  rank.expect(allEqual(a, count, n), "the world's sum is wrong");
  rank.expect(allEqual(copy, count, n * m), "the copied sum is wrong");
  rank.expect(allEqual(b, 4, 0), "the stream's zero did not happen");
  rank.expect(allEqual(b + 4, count - 4, 2 * m), "the half's sum is wrong");
}

/// Two communicators of one group: what waits on one holds up nothing on the
/// other. Of each pair one rank posts its receive first, and the other rank
/// sends only once it has received.
static void runChannels(Rank &rank) {
  if (rank.owner().error())
    return;
  unsigned self = rank.rank(0);
  unsigned peer = self ^ 1u;
  if (peer >= rank.size(0))
    return;
  rank.begin("two communicators of one group");
  constexpr uint64_t count = 200000;
  mprt_context *context = rank.context();
  auto *sent = reinterpret_cast<float *>(rank.arenaBuffer());
  float *received = sent + count;
  std::fill_n(sent, count, float(self + 1));
  memset(received, 0, count * sizeof(float));
  rank.map(sent, 2 * count * sizeof(float));
  rank.toDevice();
  auto between = [&](uint32_t id, mprt_collective_kind kind, uint32_t on) {
    mprt_collective c = sumOf(id, on, count);
    c.kind = uint8_t(kind);
    c.peer = int32_t(peer);
    return c;
  };
  // Even ranks send on the second, odd ones on the first.
  uint32_t mine = self % 2 == 0 ? 2 : 0, theirs = 2 - mine;
  mprt_collective receive = between(500, MPRT_RECV, theirs);
  mprt_collective send = between(501, MPRT_SEND, mine);
  mprt_collective_run(context, 1 + theirs, &receive, nullptr,
                      rank.at(received));
  mprt_event_record(context, 1 + theirs, 0);
  if (self % 2 == 1)
    mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 0);
  mprt_collective_run(context, 1 + mine, &send, rank.at(sent), nullptr);
  mprt_event_record(context, 1 + mine, 1);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 1);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 0);
  rank.fromDevice();
  if (rank.healthy())
    rank.expect(allEqual(received, count, float(peer + 1)),
                "the message is wrong");
}

static void addOne(void *const *args) {
  auto *data = static_cast<float *>(args[0]);
  for (unsigned i = 0; i < 1000; ++i)
    data[i] += 1;
}

/// Kernels between collectives, on the compute and on a communication stream;
/// an event that is recorded again and again.
static void runManySteps(Rank &rank) {
  // There are no kernels for a device here.
  if (rank.owner().error() || rank.hasDevice())
    return;
  rank.begin("many steps");
  mprt_context *context = rank.context();
  auto *data = reinterpret_cast<float *>(rank.arenaBuffer());
  unsigned size = rank.size(0);
  memset(data, 0, 1000 * sizeof(float));
  mprt_kernel kernel{};
  kernel.fn = addOne;
  kernel.name = "add_one";
  kernel.location = "cts";
  kernel.bytes = 8000;
  kernel.flops = 1000;
  mprt_collective mean = sumOf(300, 0, 1000);
  mean.reduction = MPRT_MEAN;
  void *args[] = {data};
  for (unsigned i = 0; i < 200; ++i) {
    mprt_launch(context, MPRT_COMPUTE_STREAM, &kernel, args);
    mprt_collective_run(context, 1, &mean, data, data);
    mprt_event_record(context, 1, 3);
    mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 3);
  }
  mprt_collective_run(context, 1, &mean, data, data);
  mprt_launch(context, 1, &kernel, args); // after the collective
  mprt_event_record(context, 1, 3);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 3);
  if (rank.healthy())
    rank.expect(allEqual(data, 1000, 201),
                "the mean over " + std::to_string(size) + " ranks is wrong");
}

/// The same sums give the same bits however the ranks are timed.
static void runRepeats(Rank &rank) {
  if (rank.owner().error())
    return;
  rank.begin("the same bits again");
  constexpr uint64_t count = 30011;
  auto *data = reinterpret_cast<float *>(rank.arenaBuffer());
  std::vector<float> first;
  mprt_collective sum = sumOf(400, 0, count);
  rank.map(data, count * sizeof(float));
  for (unsigned round = 0; round < 5; ++round) {
    uint32_t state = 12345 + rank.rank(0);
    for (uint64_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      data[i] = float(int32_t(state)) * 0x1p-31f;
    }
    if (rank.run(sum, data, data)) {
      rank.healthy();
      return;
    }
    if (round == 0)
      first.assign(data, data + count);
    rank.expect(memcmp(first.data(), data, count * sizeof(float)) == 0,
                "round " + std::to_string(round) + " differs from the first");
  }
}

void mprt::cts::runAsyncCases(Rank &rank) {
  for (bool inArena : {false, true})
    for (unsigned step : {1, 3, 5, 7})
      runBuckets(rank, step, inArena);
  runChain(rank);
  runTwoStreams(rank);
  runChannels(rank);
  runManySteps(rank);
  runRepeats(rank);
}
