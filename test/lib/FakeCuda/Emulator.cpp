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

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

using namespace fake;

static constexpr uint32_t warpSize = 32;
/// A tile of a warpgroup may have to be aligned to so much.
static constexpr size_t sharedAlignment = 1024;

namespace {

struct Exchange {
  uint32_t mode, value, offset, width;
  uint64_t address = 0;      // of a lane's row of a matrix
  uint32_t *words = nullptr; // operands and results of fragments
};
constexpr uint32_t ballotMode = 4, loadMode = 5, multiplyMode = 6,
                   warpgroupMode = 7;

/// Bytes on their way to shared memory.
struct Copy {
  uint64_t target, source;
  int32_t size, bytes;
  uint32_t group;

  void perform() const {
    auto *to = reinterpret_cast<char *>(target);
    std::memcpy(to, reinterpret_cast<const char *>(source), size_t(bytes));
    std::memset(to + bytes, 0, size_t(size - bytes));
  }
};

/// A product of a warpgroup, a thread's part: rows lane / 4 and that + 8 of the
/// warp's 16.
struct Product {
  uint32_t columns, slices;
  bool inRegisters, across, isBF16, isDone = false;
  std::vector<uint32_t> sums;        // f32, or those that are in flight
  std::vector<uint16_t> left;        // 2 rows, where it was in registers
  std::vector<uint64_t> tile, right; // descriptors, by slice
};

struct Thread {
  enum State { New, Ready, AtBarrier, AtExchange, Done } state = New;
  uint32_t index = 0;
  Fibre *fibre = nullptr;
  Exchange exchange = {};
  std::vector<Copy> copies; // those that have not taken place
  uint32_t group = 0;       // the one that copies join
  bool hasCopied = false;   // since the last wait for all copies
  bool isFenced = true;     // since the last wait for some
  std::vector<Product> products;
  const uint32_t *left = nullptr; // of a product, while a warp exchanges it
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
  void copy(const Copy &what);
  void waitForCopies(uint32_t others);
  void multiplyTiles(Product product, uint32_t *words);
  void waitForProducts(uint32_t others, uint32_t count, uint32_t *words);
  uint32_t size() const { return uint32_t(threads.size()); }
  char *sharedMemory();

  const uint32_t index, blocks;
  Thread *current = nullptr;

private:
  void runThreads();
  void suspend(Thread::State state);
  void answer(uint32_t first, uint32_t last);
  void loadMatrices(uint32_t first);
  void multiply(uint32_t first);
  bool isShared(uint64_t address, uint64_t size);
  uint16_t elementOf(uint64_t descriptor, uint64_t offset);
  void perform(const Thread &thread, Product &product);
  uint32_t resolve(const Thread &thread, uint32_t word);

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
    memory =
        static_cast<char *>(std::aligned_alloc(sharedAlignment, sharedBytes));
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

static float toFloat(uint32_t half, bool isBF16) {
  half &= 0xffff;
  if (isBF16)
    return std::bit_cast<float>(half << 16);
  uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  float magnitude =
      exponent == 31 ? (mantissa ? std::numeric_limits<float>::quiet_NaN()
                                 : std::numeric_limits<float>::infinity())
      : exponent     ? std::ldexp(float(mantissa + 1024), int(exponent) - 25)
                     : std::ldexp(float(mantissa), -24);
  return half & 0x8000 ? -magnitude : magnitude;
}

bool Block::isShared(uint64_t address, uint64_t size) {
  auto begin = reinterpret_cast<uint64_t>(sharedMemory());
  return address >= begin && size <= sharedBytes &&
         address - begin <= sharedBytes - size;
}

void Block::copy(const Copy &what) {
  auto size = uint64_t(what.size);
  if ((what.size != 4 && what.size != 8 && what.size != 16) || what.bytes < 0 ||
      what.bytes > what.size)
    fault = "a copy of a size that there is not";
  else if (what.target % size || what.source % size)
    fault = "a copy from or to an address that is no multiple of its size";
  else if (!isShared(what.target, size))
    fault = "a copy to what is not shared memory";
  if (fault)
    return suspend(Thread::Ready);
  Copy own = what;
  own.group = current->group;
  current->hasCopied = true;
  if (random.below(4) == 0)
    own.perform();
  else
    current->copies.push_back(own);
}

void Block::waitForCopies(uint32_t others) {
  // In any order.
  std::vector<Copy> &copies = current->copies;
  std::vector<Copy> due, rest;
  for (const Copy &one : copies)
    (one.group + others < current->group ? due : rest).push_back(one);
  random.shuffle(due);
  for (const Copy &one : due)
    one.perform();
  copies = rest;
  current->isFenced &= !current->hasCopied;
  current->hasCopied &= others != 0;
}

/// An element of a tile that a descriptor tells of, in its layout with a
/// swizzle of 128 bytes: bits 4 to 6 of an address are changed by bits 7 to 9.
uint16_t Block::elementOf(uint64_t descriptor, uint64_t offset) {
  constexpr uint64_t window = 1 << 18;
  auto begin = reinterpret_cast<uint64_t>(sharedMemory());
  uint64_t address = (descriptor & 0x3fff) << 4;
  address = begin + ((address - begin) & (window - 1)) + offset;
  address ^= (address >> 7 & 7) << 4;
  if (!isShared(address, 2)) {
    fault = "a tile of a product is not in shared memory";
    return 0;
  }
  uint16_t value;
  std::memcpy(&value, reinterpret_cast<const char *>(address), 2);
  return value;
}

/// NaNs that name a product in flight and one of its sums.
static constexpr uint32_t flightTag = 0x7fc00000, flightMask = 0xffc00000;

uint32_t Block::resolve(const Thread &thread, uint32_t word) {
  while ((word & flightMask) == flightTag) {
    uint32_t which = (word >> 8 & 0x3fff) - 1, sum = word & 0xff;
    if (which >= thread.products.size() ||
        sum >= thread.products[which].sums.size())
      return word; // a NaN that was computed
    const Product &product = thread.products[which];
    if (!product.isDone)
      fault = "sums are used before a wait for their product";
    word = product.sums[sum];
  }
  return word;
}

void Block::perform(const Thread &thread, Product &product) {
  // Eight rows are so many bytes from the next eight, and 64 columns.
  auto strideOf = [](uint64_t d) { return (d >> 32 & 0x3fff) << 4; };
  auto leadOf = [](uint64_t d) { return (d >> 16 & 0x3fff) << 4; };
  for (const auto *all : {&product.tile, &product.right})
    for (uint64_t descriptor : *all)
      if (descriptor >> 62 != 1 || (descriptor >> 49 & 7))
        fault = "a tile of a product is in a layout that is not emulated";
  auto along = [&](uint64_t d, uint64_t row, uint64_t k) {
    return elementOf(d, row % 8 * 128 + row / 8 * strideOf(d) + 2 * k);
  };
  auto across = [&](uint64_t d, uint64_t column, uint64_t k) {
    return elementOf(d, k % 8 * 128 + k / 8 * strideOf(d) +
                            column / 64 * leadOf(d) + column % 64 * 2);
  };
  uint32_t lane = thread.index % warpSize, g = lane / 4, t = lane % 4;
  uint32_t warp = thread.index / warpSize % 4, terms = 16 * product.slices;
  std::vector<float> left(size_t(2) * terms), right(size_t(terms) * 2);
  for (uint32_t k = 0; k < terms; ++k)
    for (uint32_t half = 0; half < 2; ++half)
      left[half * terms + k] =
          toFloat(product.inRegisters ? product.left[half * terms + k]
                                      : along(product.tile[k / 16],
                                              warp * 16 + g + 8 * half, k % 16),
                  product.isBF16);
  for (uint32_t tile = 0; tile < product.columns / 8; ++tile) {
    for (uint32_t side = 0; side < 2; ++side)
      for (uint32_t k = 0; k < terms; ++k) {
        uint32_t column = tile * 8 + 2 * t + side;
        uint64_t d = product.right[k / 16];
        right[side * terms + k] =
            toFloat(product.across ? across(d, column, k % 16)
                                   : along(d, column, k % 16),
                    product.isBF16);
      }
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t &word = product.sums[tile * 4 + i];
      auto sum = std::bit_cast<float>(resolve(thread, word));
      for (uint32_t k = 0; k < terms; ++k)
        sum += left[i / 2 * terms + k] * right[i % 2 * terms + k];
      word = std::bit_cast<uint32_t>(sum);
    }
  }
  product.isDone = true;
}

void Block::multiplyTiles(Product product, uint32_t *words) {
  Thread *self = current;
  uint32_t count = product.columns / 2, warp = self->index / warpSize;
  if (size() % 128)
    fault = "a product of less than a warpgroup";
  for (const Thread &thread : threads)
    if (!thread.isFenced)
      fault = "a product without a fence after a wait for copies";
  if (product.columns > 128 || self->products.size() > 0x3ff0)
    fault = "a product that is not emulated";
  // All lanes come, and those of a row find each other's parts of it.
  self->left = words + count;
  exchange({warpgroupMode, 0, count, warpSize});
  if (fault)
    return suspend(Thread::Ready);
  product.sums.assign(words, words + count);
  const uint32_t *rest = words + count;
  if (product.inRegisters) {
    uint32_t terms = 16 * product.slices, lane = self->index % warpSize;
    product.left.resize(size_t(2) * terms);
    for (uint32_t t = 0; t < 4; ++t) {
      const uint32_t *theirs = threads[warp * warpSize + lane / 4 * 4 + t].left;
      for (uint32_t k = 0; k < product.slices; ++k)
        for (uint32_t i = 0; i < 4; ++i)
          for (uint32_t side = 0; side < 2; ++side)
            product.left[i % 2 * terms + 16 * k + 2 * t + side + i / 2 * 8] =
                uint16_t(theirs[4 * k + i] >> (16 * side));
    }
    rest += 4 * product.slices;
  }
  // Nobody changes the words while others read them.
  exchange({ballotMode, 0, 0, warpSize});
  auto take = [&](std::vector<uint64_t> &descriptors) {
    for (uint32_t k = 0; k < product.slices; ++k, rest += 2)
      descriptors.push_back(rest[0] | uint64_t(rest[1]) << 32);
  };
  if (!product.inRegisters)
    take(product.tile);
  take(product.right);
  self->products.push_back(std::move(product));
  auto number = uint32_t(self->products.size());
  for (uint32_t i = 0; i < count; ++i)
    words[i] = flightTag | number << 8 | i;
  if (random.below(2) == 0)
    perform(*self, self->products.back());
}

void Block::waitForProducts(uint32_t others, uint32_t count, uint32_t *words) {
  Thread *self = current;
  std::vector<Product> &products = self->products;
  for (size_t i = 0; i + others < products.size(); ++i)
    if (!products[i].isDone)
      perform(*self, products[i]);
  // What was performed early is not known before its wait.
  size_t known = products.size() > others ? products.size() - others : 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t word = words[i];
    if ((word & flightMask) == flightTag && (word >> 8 & 0x3fff) > known &&
        (word >> 8 & 0x3fff) <= products.size())
      fault = "a wait for a product that may be in flight after it";
    words[i] = resolve(*self, word);
  }
  if (fault)
    suspend(Thread::Ready);
}

/// Matrix i has its rows where lanes 8 i to 8 i + 7 say; a lane gets row
/// lane / 4, elements 2 (lane % 4) and the next, of each, or of its transpose.
void Block::loadMatrices(uint32_t first) {
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const Exchange &e = threads[first + lane].exchange;
    if (e.address % 16 || !isShared(e.address, 16)) {
      fault = "a row of a matrix is not at 16 bytes of shared memory";
      return;
    }
  }
  auto element = [&](uint32_t matrix, uint32_t row, uint32_t column) {
    uint16_t value;
    uint64_t from = threads[first + 8 * matrix + row].exchange.address;
    std::memcpy(&value, reinterpret_cast<char *>(from) + 2 * column, 2);
    return uint32_t(value);
  };
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const Exchange &e = threads[first + lane].exchange;
    uint32_t row = lane / 4, column = lane % 4 * 2;
    for (uint32_t i = 0; i < 4; ++i)
      e.words[i] =
          e.offset
              ? element(i, column, row) | element(i, column + 1, row) << 16
              : element(i, row, column) | element(i, row, column + 1) << 16;
  }
}

/// Fragments as PTX lays them out, with g = lane / 4 and t = lane % 4.
void Block::multiply(uint32_t first) {
  bool isBF16 = threads[first].exchange.offset;
  float a[16][16], b[16][8];
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    const uint32_t *words = threads[first + lane].exchange.words;
    uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t side = 0; side < 2; ++side) {
      for (uint32_t i = 0; i < 4; ++i)
        a[g + i % 2 * 8][2 * t + side + i / 2 * 8] =
            toFloat(words[i] >> (16 * side), isBF16);
      for (uint32_t i = 0; i < 2; ++i)
        b[2 * t + side + i * 8][g] =
            toFloat(words[4 + i] >> (16 * side), isBF16);
    }
  }
  for (uint32_t lane = 0; lane < warpSize; ++lane) {
    uint32_t *sums = threads[first + lane].exchange.words + 6;
    for (uint32_t i = 0; i < 4; ++i) {
      auto sum = std::bit_cast<float>(sums[i]);
      for (uint32_t k = 0; k < 16; ++k)
        sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
      sums[i] = std::bit_cast<uint32_t>(sum);
    }
  }
}

/// Hands out the values of the warp of threads `first` to `last` - 1.
void Block::answer(uint32_t first, uint32_t last) {
  const Exchange &shape = threads[first].exchange;
  uint32_t values[warpSize] = {}, ballot = 0;
  for (uint32_t i = first; i < last; ++i) {
    const Exchange &e = threads[i].exchange;
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
    Thread &thread = threads[i];
    uint32_t from = thread.exchange.mode >= ballotMode
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
  bool good = mine.mode <= warpgroupMode && mine.width >= 1 &&
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
  Product product = {};
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
