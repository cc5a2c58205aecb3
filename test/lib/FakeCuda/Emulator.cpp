//===- Emulator.cpp - kernels, thread by thread, on the host --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator.h"

#include "FakeCuda.h"
#include "Fibre.h"
#include "State.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

using namespace fake;

static constexpr uint32_t warpSize = 32;
static constexpr size_t staticSharedBytes = 227 << 10;

namespace {

struct Exchange {
  uint32_t mode, value, offset, width;
};
constexpr uint32_t ballotMode = 4;

struct Thread {
  enum State { New, Ready, AtBarrier, AtExchange, Done } state = New;
  uint32_t index = 0;
  Fibre *fibre = nullptr;
  Exchange exchange = {};
};

/// A block that runs. There is one at a time.
class Block {
public:
  Block(EmulatedKernel kernel, void *const *operands, uint32_t index,
        uint32_t threads, uint32_t blocks, size_t sharedBytes, Random &random)
      : index(index), blocks(blocks), sharedBytes(sharedBytes), kernel(kernel),
        operands(operands), random(random), threads(threads),
        waiting((threads + warpSize - 1) / warpSize) {}

  CUresult run(const char *name);

  void barrier();
  uint32_t exchange(const Exchange &mine);
  uint32_t size() const { return uint32_t(threads.size()); }
  char *sharedMemory();

  const uint32_t index, blocks;
  Thread *current = nullptr;

private:
  void runThreads();
  void suspend(Thread::State state);
  void answer(uint32_t first, uint32_t last);

  size_t sharedBytes;
  char *shared = nullptr;
  EmulatedKernel kernel;
  void *const *operands;
  Random &random;
  std::vector<Thread> threads;
  std::vector<Thread *> runnable;
  uint32_t atBarrier = 0, done = 0;
  std::vector<uint32_t> waiting; // lanes of each warp at an exchange
  const char *fault = nullptr;
};

} // namespace

/// Kernels run on the worker's thread alone.
static Block *block = nullptr;
static std::vector<Fibre *> idle;

CUresult Block::run(const char *name) {
  for (uint32_t i = 0; i < size(); ++i) {
    threads[i].index = i;
    runnable.push_back(&threads[i]);
  }
  std::vector<Fibre *> used;
  while (!runnable.empty() && !fault) {
    size_t at = random.below(runnable.size());
    current = runnable[at];
    runnable[at] = runnable.back();
    runnable.pop_back();
    if (current->state == Thread::New) {
      if (idle.empty())
        idle.push_back(new Fibre);
      current->fibre = idle.back();
      idle.pop_back();
      used.push_back(current->fibre);
      current->fibre->begin(
          [](void *self) { static_cast<Block *>(self)->runThreads(); }, this);
    }
    current->state = Thread::Ready;
    current->fibre->resume();
  }
  idle.insert(idle.end(), used.begin(), used.end());
  if (!fault && done == size())
    return CUDA_SUCCESS;
  uint32_t atExchange = 0;
  for (const Thread &thread : threads)
    atExchange += thread.state == Thread::AtExchange;
  explain("block %u of %s: %s: %u threads ended, %u are at a barrier, %u at a "
          "shuffle",
          index, name, fault ? fault : "threads wait for others for ever", done,
          atBarrier, atExchange);
  return CUDA_ERROR_LAUNCH_FAILED;
}

/// The life of a fibre: a thread, and others that have not begun while it is
/// those that are chosen.
void Block::runThreads() {
  while (true) {
    kernel(operands);
    current->state = Thread::Done;
    ++done;
    if (runnable.empty())
      return;
    size_t at = random.below(runnable.size());
    Thread *next = runnable[at];
    if (next->state != Thread::New)
      return;
    runnable[at] = runnable.back();
    runnable.pop_back();
    next->state = Thread::Ready;
    next->fibre = current->fibre;
    current = next;
  }
}

/// Found as a block finds it: with anything in it, here NaNs.
char *Block::sharedMemory() {
  static char *memory = nullptr;
  static size_t room = 0;
  if (room < sharedBytes) {
    std::free(memory);
    memory = static_cast<char *>(std::aligned_alloc(256, sharedBytes));
    room = sharedBytes;
  }
  if (!shared) {
    shared = memory;
    std::memset(shared, 0xff, sharedBytes);
  }
  return shared;
}

void Block::suspend(Thread::State state) {
  current->state = state;
  current->fibre->suspend();
}

void Block::barrier() {
  if (++atBarrier < size())
    return suspend(Thread::AtBarrier);
  atBarrier = 0;
  for (Thread &thread : threads) {
    thread.state = Thread::Ready;
    runnable.push_back(&thread);
  }
  current->fibre->suspend();
}

/// What the lane gets, as PTX defines shfl.sync with the clamp that CUDA's
/// intrinsics make of a width.
static uint32_t sourceLane(uint32_t lane, const Exchange &e) {
  uint32_t segment = lane & ~(e.width - 1);
  uint32_t last = segment | (e.width - 1);
  uint32_t offset = e.offset & (warpSize - 1);
  switch (e.mode) {
  case 0:
    return (lane ^ offset) <= last ? lane ^ offset : lane;
  case 1:
    return lane >= segment + offset ? lane - offset : lane;
  case 2:
    return lane + offset <= last ? lane + offset : lane;
  default:
    return segment | (offset & (e.width - 1));
  }
}

/// Hands out the values of the warp of threads `first` to `last` - 1.
void Block::answer(uint32_t first, uint32_t last) {
  const Exchange &shape = threads[first].exchange;
  uint32_t values[warpSize] = {}, ballot = 0;
  for (uint32_t i = first; i < last; ++i) {
    const Exchange &e = threads[i].exchange;
    if (e.mode != shape.mode || e.width != shape.width)
      fault = "lanes of a warp are at different shuffles";
    values[i - first] = e.value;
    ballot |= uint32_t(e.value != 0) << (i - first);
  }
  for (uint32_t i = first; i < last; ++i) {
    Thread &thread = threads[i];
    uint32_t from = thread.exchange.mode == ballotMode
                        ? 0
                        : sourceLane(i - first, thread.exchange);
    thread.exchange.value =
        thread.exchange.mode == ballotMode ? ballot : values[from];
    thread.state = Thread::Ready;
    runnable.push_back(&thread);
  }
}

uint32_t Block::exchange(const Exchange &mine) {
  Thread *self = current;
  self->exchange = mine;
  bool good = mine.mode <= ballotMode && mine.width >= 1 &&
              mine.width <= warpSize && (mine.width & (mine.width - 1)) == 0;
  if (!good)
    fault = "a shuffle of an unknown mode or width";
  uint32_t warp = self->index / warpSize, first = warp * warpSize;
  uint32_t last = std::min(first + warpSize, size());
  if (++waiting[warp] < last - first) {
    suspend(Thread::AtExchange);
  } else {
    waiting[warp] = 0;
    answer(first, last);
    self->fibre->suspend();
  }
  return self->exchange.value;
}

//===----------------------------------------------------------------------===//
// What kernels call
//===----------------------------------------------------------------------===//

static Block &running() {
  if (!block) {
    explain("a kernel's function is called outside of a kernel");
    std::abort();
  }
  return *block;
}

int32_t mpemu_index(int32_t which) {
  Block &b = running();
  switch (which) {
  case 0:
    return int32_t(b.current->index);
  case 1:
    return int32_t(b.index);
  case 2:
    return int32_t(b.size());
  case 3:
    return int32_t(b.blocks);
  case 4:
    return int32_t(b.current->index % warpSize);
  default:
    explain("mpemu_index(%d)", which);
    std::abort();
  }
}

void mpemu_barrier(void) { running().barrier(); }

uint32_t mpemu_shuffle(uint32_t mode, uint32_t value, uint32_t offset,
                       uint32_t width) {
  return running().exchange(
      {mode < ballotMode ? mode : ~0u, value, offset, width});
}

uint32_t mpemu_ballot(uint32_t predicate) {
  return running().exchange({ballotMode, predicate, 0, warpSize});
}

void *mpemu_shared(void) { return running().sharedMemory(); }

CUresult fake::runKernel(const char *name, EmulatedKernel kernel,
                         void *const *operands, uint32_t blocks,
                         uint32_t threads, uint32_t dynamicShared) {
  Random random;
  {
    Lock lock(state().mutex);
    random.seed(state().random.next());
  }
  size_t sharedBytes = (dynamicShared + staticSharedBytes + 255) & ~size_t(255);
  std::vector<uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(order);
  for (uint32_t index : order) {
    Block one(kernel, operands, index, threads, blocks, sharedBytes, random);
    block = &one;
    CUresult result = one.run(name);
    block = nullptr;
    if (result)
      return result;
  }
  return CUDA_SUCCESS;
}
