//===- CollectiveCases.cpp - every kind of collective, one at a time ------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A case is a descriptor, a place (in or out of place) and a kind of memory.
// Buffers lie between guard bytes; all ranks must hold the same bits after an
// all_reduce.
//
//===----------------------------------------------------------------------===//

#include "cts/Harness.h"
#include "cts/Reference.h"

#include "comm/Reduce.h"
#include "comm/Validate.h"
#include "support/DType.h"

#include <cstring>
#include <deque>

using namespace mprt;
using namespace mprt::cts;

namespace {

enum class Memory {
  Heap,
  Arena,
  Mixed ///< the arena on some ranks, the heap on others
};

const char *nameOf(Memory memory) {
  return memory == Memory::Heap    ? "heap"
         : memory == Memory::Arena ? "arena"
                                   : "mixed";
}

/// A buffer of a case, between guards.
class CaseBuffer {
public:
  static constexpr uint64_t guard = 64;
  static constexpr uint8_t pattern = 0xa5;

  /// `place` counts the buffers of a case. An odd `shift` makes addresses
  /// unaligned to more than an element.
  CaseBuffer(Rank &rank, bool inArena, unsigned place, uint64_t bytes,
             uint64_t shift)
      : bytes(bytes) {
    uint64_t all = bytes + 2 * guard + shift;
    if (inArena) {
      base = rank.arenaBuffer() + place * (Rank::arenaBytes / 2);
    } else {
      owned.resize(all);
      base = owned.data();
    }
    base += shift;
    rank.map(base, bytes + 2 * guard);
    memset(base, pattern, bytes + 2 * guard);
  }

  uint8_t *data() { return base + guard; }
  bool guardsIntact() const {
    for (uint64_t i = 0; i < guard; ++i)
      if (base[i] != pattern || base[guard + bytes + i] != pattern)
        return false;
    return true;
  }

private:
  std::vector<uint8_t> owned;
  uint8_t *base;
  uint64_t bytes;
};

struct Case {
  mprt_collective collective;
  bool inPlace = false;
  Memory memory = Memory::Heap;
  uint64_t shift = 0; ///< bytes off alignment
};

class Runner {
public:
  explicit Runner(Rank &rank) : rank(rank) {}
  void run(const Case &test);

private:
  bool submit(const Case &test, const void *send, void *recv);
  void checkSame(const Case &test, const uint8_t *recv, uint64_t bytes);
  void runOne(const Case &test);

  Rank &rank;
  uint64_t seed = 0;
};

} // namespace

static std::string titleOf(const Case &test) {
  const mprt_collective &c = test.collective;
  std::string title = nameOf(mprt_collective_kind(c.kind));
  title += std::string(" ") + nameOf(mprt_dtype(c.type));
  if (reduces(c)) {
    title += std::string(" ") + nameOf(mprt_reduction(c.reduction));
    if (c.accumulate == MPRT_F64 && c.type != MPRT_F64)
      title += " in f64";
  }
  title += " of " + std::to_string(c.count);
  if (c.peer >= 0)
    title += " peer " + std::to_string(c.peer);
  for (uint32_t r = 0; r < c.num_targets; ++r)
    title += (r ? " " : " targets ") + std::to_string(c.targets[r]);
  title += test.inPlace ? ", in place, " : ", out of place, ";
  title += nameOf(test.memory);
  if (test.shift)
    title += ", shifted by " + std::to_string(test.shift);
  return title + ", communicator " + std::to_string(c.communicator);
}

bool Runner::submit(const Case &test, const void *send, void *recv) {
  uint32_t stream = MPRT_COMM_STREAM(test.collective.communicator);
  mprt_context *context = rank.context();
  rank.toDevice();
  mprt_collective_run(context, stream, &test.collective, rank.at(send),
                      rank.at(recv));
  mprt_event_record(context, stream, 0);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 0);
  rank.fromDevice();
  return rank.healthy();
}

void Runner::checkSame(const Case &test, const uint8_t *recv, uint64_t bytes) {
  // FNV-1a of the result, gathered from all ranks.
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < bytes; ++i)
    hash = (hash ^ recv[i]) * 0x100000001b3u;
  mprt_collective gather{};
  gather.id = 77;
  gather.kind = MPRT_ALL_GATHER;
  gather.type = MPRT_U8;
  gather.communicator = test.collective.communicator;
  gather.peer = -1;
  gather.count = sizeof(hash);
  gather.name = "hashes";
  std::vector<uint64_t> hashes(rank.size(gather.communicator));
  rank.map(&hash, sizeof(hash));
  rank.map(hashes.data(), hashes.size() * sizeof(hash));
  if (rank.run(gather, &hash, hashes.data())) {
    rank.healthy();
    return;
  }
  for (uint64_t other : hashes)
    rank.expect(other == hash, "ranks hold different bits");
}

void Runner::run(const Case &test) {
  if (!rank.owner().error())
    runOne(test);
}

void Runner::runOne(const Case &test) {
  const mprt_collective &c = test.collective;
  unsigned size = rank.size(c.communicator), self = rank.rank(c.communicator);
  auto kind = mprt_collective_kind(c.kind);
  auto type = mprt_dtype(c.type);
  auto reduction = mprt_reduction(c.reduction);
  bool isReduction = reduces(c);
  if (!isReduction)
    reduction = MPRT_SUM;
  uint64_t width = sizeOf(type);
  uint64_t many = c.count * size;
  bool givesMany = kind == MPRT_REDUCE_SCATTER || kind == MPRT_ALL_TO_ALL ||
                   kind == MPRT_SCATTER;
  bool takesMany =
      kind == MPRT_ALL_GATHER || kind == MPRT_ALL_TO_ALL || kind == MPRT_GATHER;
  uint64_t sent = givesMany ? many : c.count;
  uint64_t received = takesMany ? many : c.count;
  ++seed;
  if (!rank.supports(c))
    return;
  rank.begin(titleOf(test));

  bool inArena = test.memory == Memory::Arena ||
                 (test.memory == Memory::Mixed && self % 2 == 0);
  uint64_t room = std::max(sent, received) * width;
  CaseBuffer input(rank, inArena, 0, room, test.shift);
  CaseBuffer output(rank, inArena, 1, room, test.shift);
  uint8_t *send = input.data(), *recv = output.data();
  if (test.inPlace) {
    recv = send;
    if (kind == MPRT_REDUCE_SCATTER)
      recv = send + self * c.count * width;
    if (kind == MPRT_ALL_GATHER)
      send = recv + self * c.count * width;
  }
  // Who sends nothing has no buffer to send, and who gets nothing gets zeros.
  bool isRoot = hasRoot(c) && unsigned(c.peer) == self;
  bool gives = (kind != MPRT_BROADCAST && kind != MPRT_SCATTER) || isRoot;
  bool gets = (kind != MPRT_REDUCE && kind != MPRT_GATHER) || isRoot;
  unsigned source = unsigned(c.peer);
  if (kind == MPRT_PERMUTE) {
    gives = c.targets[self] >= 0;
    for (source = 0; source < size; ++source)
      if (c.targets[source] == int32_t(self))
        break;
    gets = source < size;
  }
  for (uint64_t i = 0; i < sent && gives; ++i)
    writeInput(type, reduction, seed, self, i, send + i * width);

  if (!submit(test, !gives && !test.inPlace ? nullptr : send, recv))
    return;

  // Reductions of many ranks take long to compute again: of large ones each
  // rank checks a share of the elements. All ranks hold the same bits after an
  // all_reduce, which is checked as well.
  uint64_t step = isReduction && received > 10000 ? size : 1;
  std::string why;
  bool good = true;
  for (uint64_t i = step == 1 ? 0 : self; i < received && good; i += step) {
    const uint8_t *element = recv + i * width;
    if (!gets) {
      uint64_t zero = 0;
      good = memcmp(element, &zero, width) == 0;
      why = "expected zero as element " + std::to_string(i);
      continue;
    }
    switch (kind) {
    case MPRT_ALL_REDUCE:
    case MPRT_REDUCE:
      good = isReduced(type, mprt_dtype(c.accumulate), reduction, seed, size, i,
                       element, why);
      break;
    case MPRT_REDUCE_SCATTER:
      good = isReduced(type, mprt_dtype(c.accumulate), reduction, seed, size,
                       self * c.count + i, element, why);
      break;
    case MPRT_ALL_GATHER:
    case MPRT_GATHER:
      good =
          isInput(type, seed, unsigned(i / c.count), i % c.count, element, why);
      break;
    case MPRT_ALL_TO_ALL:
      good = isInput(type, seed, unsigned(i / c.count),
                     self * c.count + i % c.count, element, why);
      break;
    case MPRT_SCATTER:
      good = isInput(type, seed, source, self * c.count + i, element, why);
      break;
    default:
      good = isInput(type, seed, source, i, element, why);
      break;
    }
  }
  rank.expect(good, why);
  rank.expect(input.guardsIntact() && output.guardsIntact(),
              "wrote outside of the buffers");
  if (!test.inPlace && gives)
    for (uint64_t i = 0; i < sent && good; ++i) {
      uint64_t expected = 0;
      writeInput(type, reduction, seed, self, i, &expected);
      good = memcmp(&expected, send + i * width, width) == 0;
      rank.expect(good, "the input was changed at " + std::to_string(i));
    }
  if (kind == MPRT_ALL_REDUCE && c.count != 0)
    checkSame(test, recv, received * width);
}

static Case makeCase(mprt_collective_kind kind, mprt_dtype type,
                     uint64_t count) {
  Case test;
  mprt_collective &c = test.collective;
  memset(&c, 0, sizeof(c));
  c.id = uint32_t(kind) * 16 + type;
  c.kind = uint8_t(kind);
  c.type = uint8_t(type);
  c.accumulate =
      uint8_t(type == MPRT_F16 || type == MPRT_BF16 ? MPRT_F32 : type);
  c.peer = -1;
  c.count = count;
  c.name = "case";
  c.location = "cts";
  return test;
}

static bool hasInPlace(mprt_collective_kind kind) {
  return kind < MPRT_PERMUTE;
}

/// Gives the collective a root, or targets: to the next rank, round the end or
/// not, or in reverse. A descriptor outlives the context, and so do its
/// targets.
static void addPeers(mprt_collective &c, unsigned size) {
  static std::deque<std::vector<int32_t>> tables;
  if (hasRoot(c))
    c.peer = int32_t(c.count % size);
  if (c.kind != MPRT_PERMUTE)
    return;
  std::vector<int32_t> &targets = tables.emplace_back();
  for (unsigned r = 0; r < size; ++r)
    switch ((c.count + c.type) % 3) {
    case 0:
      targets.push_back(r + 1 < size ? int32_t(r + 1) : -1);
      break;
    case 1:
      targets.push_back(int32_t((r + 1) % size));
      break;
    default:
      targets.push_back(int32_t(size - 1 - r));
    }
  c.targets = targets.data();
  c.num_targets = size;
}

/// Messages around the ring: even ranks send first, odd ones receive first.
static void runRing(Rank &rank, mprt_dtype type, uint64_t count,
                    Memory memory) {
  unsigned size = rank.size(0), self = rank.rank(0);
  if (size == 1 || rank.owner().error())
    return;
  rank.begin(std::string("send and recv ") + mprt::nameOf(type) + " of " +
             std::to_string(count) + ", " + nameOf(memory));
  bool inArena =
      memory == Memory::Arena || (memory == Memory::Mixed && self % 2 == 0);
  uint64_t width = sizeOf(type);
  CaseBuffer input(rank, inArena, 0, count * width, 0);
  CaseBuffer output(rank, inArena, 1, count * width, 0);
  for (uint64_t i = 0; i < count; ++i)
    writeInput(type, MPRT_SUM, count, self, i, input.data() + i * width);
  Case to = makeCase(MPRT_SEND, type, count);
  Case from = makeCase(MPRT_RECV, type, count);
  to.collective.peer = int32_t((self + 1) % size);
  from.collective.peer = int32_t((self + size - 1) % size);
  mprt_context *context = rank.context();
  auto send = [&] {
    mprt_collective_run(context, 1, &to.collective, rank.at(input.data()),
                        nullptr);
  };
  rank.toDevice();
  if (self % 2 == 0)
    send();
  mprt_collective_run(context, 1, &from.collective, nullptr,
                      rank.at(output.data()));
  if (self % 2 == 1)
    send();
  mprt_event_record(context, 1, 0);
  mprt_stream_wait(context, MPRT_COMPUTE_STREAM, 0);
  rank.fromDevice();
  if (!rank.healthy())
    return;
  std::string why;
  for (uint64_t i = 0; i < count; ++i)
    if (!isInput(type, count, unsigned(from.collective.peer), i,
                 output.data() + i * width, why)) {
      rank.fail(why);
      break;
    }
  rank.expect(input.guardsIntact() && output.guardsIntact(),
              "wrote outside of the buffers");
}

void mprt::cts::runCollectiveCases(Rank &rank, bool quick) {
  Runner runner(rank);
  std::vector<uint64_t> sizes = {0, 1, 3, 17, 1000, 65537};
  if (quick)
    sizes = {0, 1, 17, 20011};
  const Memory memories[] = {Memory::Heap, Memory::Arena, Memory::Mixed};
  const mprt_collective_kind moving[] = {MPRT_ALL_GATHER, MPRT_ALL_TO_ALL,
                                         MPRT_BROADCAST,  MPRT_PERMUTE,
                                         MPRT_GATHER,     MPRT_SCATTER};

  for (unsigned t = MPRT_F32; t <= MPRT_BOOL; ++t)
    for (uint64_t count : sizes)
      for (Memory memory : memories)
        for (bool inPlace : {false, true}) {
          auto type = mprt_dtype(t);
          // Mixed memory differs from the heap in large sizes alone.
          if (memory == Memory::Mixed && count < 10000)
            continue;
          for (mprt_collective_kind kind :
               {MPRT_ALL_REDUCE, MPRT_REDUCE_SCATTER, MPRT_REDUCE})
            for (unsigned r = MPRT_SUM; r <= MPRT_MEAN; ++r) {
              Case test = makeCase(kind, type, count);
              test.collective.reduction = uint8_t(r);
              addPeers(test.collective, rank.size(0));
              test.inPlace = inPlace;
              test.memory = memory;
              if (inPlace && !hasInPlace(kind))
                continue;
              if (findReduce(type, type, mprt_reduction(r)))
                runner.run(test);
            }
          for (mprt_collective_kind kind : moving) {
            Case test = makeCase(kind, type, count);
            addPeers(test.collective, rank.size(0));
            test.inPlace = inPlace;
            test.memory = memory;
            if (!inPlace || hasInPlace(kind))
              runner.run(test);
          }
          if (!inPlace)
            runRing(rank, type, count, memory);
        }

  // Many chunks; odd addresses; sums in double.
  for (Memory memory : memories)
    for (uint64_t shift : {0, 4})
      for (bool inPlace : {false, true}) {
        Case test = makeCase(MPRT_ALL_REDUCE, MPRT_F32, 400003);
        test.collective.reduction = MPRT_MEAN;
        test.memory = memory;
        test.inPlace = inPlace;
        test.shift = shift;
        runner.run(test);
      }
  for (mprt_dtype type : {MPRT_F32, MPRT_F16, MPRT_BF16}) {
    Case test = makeCase(MPRT_ALL_REDUCE, type, 1000);
    test.collective.accumulate = MPRT_F64;
    runner.run(test);
  }

  // A part of the ranks, the other part doing the same beside them.
  for (mprt_dtype type : {MPRT_F32, MPRT_BF16, MPRT_I32})
    for (uint64_t count : {1, 1000, 65537})
      for (Memory memory : {Memory::Heap, Memory::Arena}) {
        for (mprt_collective_kind kind :
             {MPRT_ALL_REDUCE, MPRT_REDUCE_SCATTER, MPRT_ALL_GATHER,
              MPRT_ALL_TO_ALL, MPRT_BROADCAST, MPRT_PERMUTE, MPRT_REDUCE,
              MPRT_GATHER, MPRT_SCATTER}) {
          Case test = makeCase(kind, type, count);
          test.collective.communicator = 1;
          addPeers(test.collective, rank.size(1));
          test.memory = memory;
          runner.run(test);
        }
      }

  // A barrier has no buffers.
  rank.begin("barrier");
  Case barrier = makeCase(MPRT_BARRIER, MPRT_F32, 0);
  if (!rank.owner().error() && rank.run(barrier.collective, nullptr, nullptr))
    rank.healthy();
}
