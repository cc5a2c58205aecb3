//===- Emulator.cpp - kernels, thread by thread, on the host --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator.h"

#include "Block.h"
#include "FakeCuda.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

using namespace fake;

/// A tile of a warpgroup may have to be aligned to so much.
static constexpr size_t sharedAlignment = 1024;

/// Kernels run on the worker's thread alone.
static Block *block = nullptr;
/// Never destroyed: the worker's thread may outlive static objects.
static std::vector<Fibre *> &idle = *new std::vector<Fibre *>;

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
    if (current->state == EmulatedThread::New) {
      if (idle.empty())
        idle.push_back(new Fibre);
      current->fibre = idle.back();
      idle.pop_back();
      used.push_back(current->fibre);
      current->fibre->begin(
          [](void *self) { static_cast<Block *>(self)->runThreads(); }, this);
    }
    current->state = EmulatedThread::Ready;
    current->fibre->resume();
  }
  idle.insert(idle.end(), used.begin(), used.end());
  if (!fault && done == size())
    return CUDA_SUCCESS;
  uint32_t atExchange = 0;
  for (const EmulatedThread &thread : threads)
    atExchange += thread.state == EmulatedThread::AtExchange;
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
    current->state = EmulatedThread::Done;
    ++done;
    if (runnable.empty())
      return;
    size_t at = random.below(runnable.size());
    EmulatedThread *next = runnable[at];
    if (next->state != EmulatedThread::New)
      return;
    runnable[at] = runnable.back();
    runnable.pop_back();
    next->state = EmulatedThread::Ready;
    next->fibre = current->fibre;
    current = next;
  }
}

/// Found as a block finds it: with anything in it, here NaNs.
char *Block::sharedMemory() {
  static char *memory = nullptr;
  static size_t room = 0;
  if (!memory || room < sharedBytes) {
    std::free(memory);
    // Kernels without any ask where it is, too; a multiple of the alignment.
    room = (std::max<size_t>(sharedBytes, 1) + sharedAlignment - 1) /
           sharedAlignment * sharedAlignment;
    memory = static_cast<char *>(std::aligned_alloc(sharedAlignment, room));
  }
  if (!shared) {
    shared = memory;
    std::memset(shared, 0xff, sharedBytes);
  }
  return shared;
}

void Block::suspend(EmulatedThread::State state) {
  current->state = state;
  current->fibre->suspend();
}

void Block::barrier() {
  if (++atBarrier < size())
    return suspend(EmulatedThread::AtBarrier);
  atBarrier = 0;
  for (EmulatedThread &thread : threads) {
    thread.state = EmulatedThread::Ready;
    runnable.push_back(&thread);
  }
  current->fibre->suspend();
}

/// What the lane gets, as PTX defines shfl.sync with the clamp that CUDA's
/// intrinsics make of a width.
static uint32_t sourceLane(uint32_t lane, const LaneExchange &e) {
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

bool Block::isShared(uint64_t address, uint64_t size) {
  auto begin = reinterpret_cast<uint64_t>(sharedMemory());
  return address >= begin && size <= sharedBytes &&
         address - begin <= sharedBytes - size;
}

void Block::copy(const AsyncCopy &what) {
  auto size = uint64_t(what.size);
  if ((what.size != 4 && what.size != 8 && what.size != 16) || what.bytes < 0 ||
      what.bytes > what.size)
    fault = "a copy of a size that there is not";
  else if (what.target % size || what.source % size)
    fault = "a copy from or to an address that is no multiple of its size";
  else if (!isShared(what.target, size))
    fault = "a copy to what is not shared memory";
  if (fault)
    return suspend(EmulatedThread::Ready);
  AsyncCopy own = what;
  own.group = current->group;
  current->hasCopied = true;
  if (random.below(4) == 0)
    own.perform();
  else
    current->copies.push_back(own);
}

void Block::waitForCopies(uint32_t others) {
  // In any order.
  std::vector<AsyncCopy> &copies = current->copies;
  std::vector<AsyncCopy> due, rest;
  for (const AsyncCopy &one : copies)
    (one.group + others < current->group ? due : rest).push_back(one);
  random.shuffle(due);
  for (const AsyncCopy &one : due)
    one.perform();
  copies = rest;
  current->isFenced &= !current->hasCopied;
  current->hasCopied &= others != 0;
}

/// Hands out the values of the warp of threads `first` to `last` - 1.
void Block::answer(uint32_t first, uint32_t last) {
  const LaneExchange &shape = threads[first].exchange;
  uint32_t values[warpSize] = {}, ballot = 0;
  for (uint32_t i = first; i < last; ++i) {
    const LaneExchange &e = threads[i].exchange;
    if (e.mode != shape.mode || e.width != shape.width ||
        (e.mode >= loadMode && e.offset != shape.offset))
      fault = "lanes of a warp are at different shuffles";
    values[i - first] = e.value;
    ballot |= uint32_t(e.value != 0) << (i - first);
  }
  if (shape.mode >= loadMode && last - first != warpSize)
    fault = "a product of less than a warp";
  if (shape.mode == loadMode && !fault)
    loadMatrices(first);
  if (shape.mode == multiplyMode && !fault)
    multiply(first);
  for (uint32_t i = first; i < last; ++i) {
    EmulatedThread &thread = threads[i];
    uint32_t from = thread.exchange.mode >= ballotMode
                        ? 0
                        : sourceLane(i - first, thread.exchange);
    thread.exchange.value =
        thread.exchange.mode == ballotMode ? ballot : values[from];
    thread.state = EmulatedThread::Ready;
    runnable.push_back(&thread);
  }
}

uint32_t Block::exchange(const LaneExchange &mine) {
  EmulatedThread *self = current;
  self->exchange = mine;
  bool good = mine.mode <= warpgroupMode && mine.width >= 1 &&
              mine.width <= warpSize && (mine.width & (mine.width - 1)) == 0;
  if (!good)
    fault = "a shuffle of an unknown mode or width";
  uint32_t warp = self->index / warpSize, first = warp * warpSize;
  uint32_t last = std::min(first + warpSize, size());
  if (++waiting[warp] < last - first) {
    suspend(EmulatedThread::AtExchange);
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

void mpemu_load_matrix(int32_t transposed, uint64_t address, uint32_t *words) {
  running().exchange(
      {loadMode, 0, uint32_t(transposed), warpSize, address, words});
}

void mpemu_multiply(int32_t isBF16, uint32_t *words) {
  running().exchange({multiplyMode, 0, uint32_t(isBF16), warpSize, 0, words});
}

void mpemu_copy(uint64_t target, uint64_t source, int32_t size, int32_t bytes) {
  running().copy({target, source, size, bytes, 0});
}

void mpemu_copy_commit(void) { ++running().current->group; }

void mpemu_copy_wait(int32_t others) {
  running().waitForCopies(uint32_t(others));
}

void mpemu_warpgroup_multiply(int32_t columns, int32_t slices,
                              int32_t inRegisters, int32_t across,
                              int32_t accumulates, int32_t isBF16,
                              uint32_t *words) {
  TileProduct product = {};
  product.columns = uint32_t(columns), product.slices = uint32_t(slices);
  product.inRegisters = inRegisters, product.across = across;
  product.isBF16 = isBF16;
  if (!accumulates)
    std::memset(words, 0, size_t(columns) / 2 * 4);
  running().multiplyTiles(std::move(product), words);
}

void mpemu_warpgroup_wait(int32_t others, int32_t count, uint32_t *words) {
  running().waitForProducts(uint32_t(others), uint32_t(count), words);
}

void mpemu_fence_tiles(void) { running().current->isFenced = true; }

static float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x;
}

float mpemu_exp2(float x) { return flush(std::exp2(flush(x))); }

float mpemu_log2(float x) { return std::log2(flush(x)); }

void *mpemu_shared(void) { return running().sharedMemory(); }

CUresult fake::runKernel(const char *name, EmulatedKernel kernel,
                         void *const *operands, uint32_t blocks,
                         uint32_t threads, uint32_t staticShared,
                         uint32_t dynamicShared) {
  Random random;
  {
    Lock lock(state().mutex);
    random.seed(state().random.next());
  }
  // What launches ask for does not begin at a large power of two.
  size_t sharedBytes = staticShared + 16 + dynamicShared;
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
