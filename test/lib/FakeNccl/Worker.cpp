//===- Worker.cpp - runs the collectives of the fake NCCL -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fake.h"

#include "FakeCuda.h"
#include "comm/nccl/NcclApi.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

using namespace fake_nccl;
using namespace mprt::nccl;

/// False where it was aborted, or where the ranks have stopped.
template <typename Condition>
bool Communicator::waitUntil(Condition condition) {
  for (unsigned turns = 0; !condition(); ++turns) {
    if (aborted || stopping || region->stopped)
      return false;
    if (turns > 64)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    else
      std::this_thread::yield();
  }
  return true;
}

/// Waits for all ranks.
bool Communicator::meet() {
  uint64_t mine = ++region->parts[rank].arrived;
  return waitUntil([&] {
    for (int r = 0; r < size; ++r)
      if (region->parts[r].arrived < mine)
        return false;
    return true;
  });
}

bool Communicator::connect() {
  region->parts[rank].present = 1;
  bool met = waitUntil([&] {
    for (int r = 0; r < size; ++r)
      if (!region->parts[r].present)
        return false;
    return true;
  });
  // All of them have it open: nothing of it is left, whatever happens.
  if (met && rank == 0)
    shm_unlink(name.c_str());
  for (int r = 0; met && r < size; ++r)
    for (int s = 0; s < r; ++s)
      if (region->parts[r].device == region->parts[s].device)
        error = ncclInvalidUsage;
  return met;
}

void Communicator::run() {
  if (connect())
    connected = true;
  while (true) {
    Request *request;
    {
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait(lock, [&] { return stopping || aborted || !queue.empty(); });
      if (queue.empty())
        return;
      request = queue.front();
      queue.pop_front();
    }
    run(*request);
  }
}

void Communicator::run(Request &request) {
  uint64_t number = ++numRequests;
  bool done = !aborted;
  if (done && hangs(number, world))
    done = waitUntil([] { return false; });
  if (int code = done ? asyncFailure(number, world) : 0) {
    error = code;
    done = waitUntil([] { return false; });
  }
  if (done) {
    const std::vector<Call> &calls = request.calls;
    bool messages = calls.front().kind == Send || calls.front().kind == Recv;
    if (messages)
      done = runMessages(calls);
    else
      for (size_t i = 0; done && i < calls.size(); ++i)
        done = runTogether(calls[i]);
  }
  if (!done && region->stopped && !error)
    error = region->stopped.load();
  // A failed collective stays on the stream until it is aborted.
  while (!done && !aborted && !stopping)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  std::atomic_ref<uint32_t>(*request.word).store(request.value);
}

/// All ranks' inputs go through their outboxes, a piece at a time.
bool Communicator::runTogether(const Call &call) {
  Part &mine = region->parts[rank];
  mine.call = call;
  if (!meet())
    return false;
  for (int r = 0; r < size; ++r) {
    const Call &theirs = region->parts[r].call;
    if (theirs.kind != call.kind || theirs.count != call.count ||
        theirs.type != call.type || theirs.op != call.op ||
        theirs.peer != call.peer || theirs.graph != call.graph) {
      fprintf(stderr,
              "fake NCCL: ranks %d and %d call different collectives%s\n", rank,
              r,
              theirs.graph != call.graph
                  ? ", or one of them not from the same capture"
                  : "");
      region->stopped = ncclInvalidUsage;
      return false;
    }
  }
  if (!meet())
    return false;
  size_t width = widthOf(call.type);
  const auto *send = static_cast<const uint8_t *>(mpfake_device(call.send));
  auto *recv = static_cast<uint8_t *>(mpfake_device(call.recv));
  bool scatters = call.kind == ReduceScatter, gathers = call.kind == AllGather;
  bool isRoot = call.peer == rank;
  bool reduces =
      scatters || call.kind == AllReduce || (call.kind == Reduce && isRoot);
  uint64_t total = call.count * (scatters ? size : 1);
  uint64_t piece = chunkBytes / width;
  // Blocks of a reduce_scatter do not share a piece.
  uint64_t block = scatters ? call.count : total;
  for (uint64_t begin = 0; begin < total;) {
    uint64_t inBlock = begin % block;
    uint64_t count = std::min(piece, block - inBlock);
    if (call.kind != Broadcast || isRoot)
      memcpy(mine.outbox, send + begin * width, count * width);
    if (!meet())
      return false;
    std::vector<const void *> inputs;
    for (int r = 0; r < size; ++r)
      inputs.push_back(region->parts[r].outbox);
    uint64_t place = begin / block;
    if (reduces && (!scatters || place == uint64_t(rank)))
      reduce(recv + (scatters ? inBlock : begin) * width, inputs,
             (begin / piece + place) % size, count, call.type, call.op);
    else if (call.kind == Broadcast)
      memcpy(recv + begin * width, inputs[call.peer], count * width);
    for (int r = 0; gathers && r < size; ++r)
      memcpy(recv + (r * call.count + begin) * width, inputs[r], count * width);
    if (!meet())
      return false;
    begin += count;
  }
  return true;
}

/// Sends and receives of a group, all at once.
bool Communicator::runMessages(const std::vector<Call> &calls) {
  std::vector<uint64_t> done(calls.size());
  auto turn = [&](size_t i) {
    const Call &call = calls[i];
    uint64_t total = call.count * widthOf(call.type);
    if (done[i] == total)
      return;
    // In a group the first of a pair goes first.
    for (size_t k = 0; k < i; ++k)
      if (calls[k].kind == call.kind && calls[k].peer == call.peer &&
          done[k] < calls[k].count * widthOf(calls[k].type))
        return;
    bool sends = call.kind == Send;
    Part &from = region->parts[sends ? rank : call.peer];
    int to = sends ? call.peer : rank;
    if (from.full[to] != (sends ? 0 : 1))
      return;
    uint64_t bytes = std::min<uint64_t>(chunkBytes, total - done[i]);
    if (sends)
      memcpy(from.messages[to],
             static_cast<const uint8_t *>(mpfake_device(call.send)) + done[i],
             bytes);
    else
      memcpy(static_cast<uint8_t *>(mpfake_device(call.recv)) + done[i],
             from.messages[to], bytes);
    from.full[to] = sends ? 1 : 0;
    done[i] += bytes;
  };
  return waitUntil([&] {
    bool all = true;
    for (size_t i = 0; i < calls.size(); ++i) {
      turn(i);
      all = all && done[i] == calls[i].count * widthOf(calls[i].type);
    }
    return all;
  });
}
