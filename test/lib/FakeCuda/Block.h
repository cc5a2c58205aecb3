//===- Block.h - a block of threads that is emulated ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads, what they exchange and what they copy are in Emulator.cpp, products
// of tensor cores in BlockProducts.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_BLOCK_H
#define MPCOMM_TEST_LIB_FAKECUDA_BLOCK_H

#include "Emulator.h"
#include "Fibre.h"
#include "State.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace fake {

inline constexpr uint32_t warpSize = 32;
struct LaneExchange {
  uint32_t mode, value, offset, width;
  uint64_t address = 0;      // of a lane's row of a matrix
  uint32_t *words = nullptr; // operands and results of fragments
};
inline constexpr uint32_t ballotMode = 4, loadMode = 5, multiplyMode = 6,
                          warpgroupMode = 7;

/// Bytes on their way to shared memory.
struct AsyncCopy {
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
struct TileProduct {
  uint32_t columns, slices;
  bool inRegisters, across, isBF16, isDone = false;
  std::vector<uint32_t> sums;        // f32, or those that are in flight
  std::vector<uint16_t> left;        // 2 rows, where it was in registers
  std::vector<uint64_t> tile, right; // descriptors, by slice
};

struct EmulatedThread {
  enum State { New, Ready, AtBarrier, AtExchange, Done } state = New;
  uint32_t index = 0;
  Fibre *fibre = nullptr;
  LaneExchange exchange = {};
  std::vector<AsyncCopy> copies; // those that have not taken place
  uint32_t group = 0;            // the one that copies join
  bool hasCopied = false;        // since the last wait for all copies
  bool isFenced = true;          // since the last wait for some
  std::vector<TileProduct> products;
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
  uint32_t exchange(const LaneExchange &mine);
  void copy(const AsyncCopy &what);
  void waitForCopies(uint32_t others);
  void multiplyTiles(TileProduct product, uint32_t *words);
  void waitForProducts(uint32_t others, uint32_t count, uint32_t *words);
  uint32_t size() const { return uint32_t(threads.size()); }
  char *sharedMemory();

  const uint32_t index, blocks;
  EmulatedThread *current = nullptr;

private:
  void runThreads();
  void suspend(EmulatedThread::State state);
  void answer(uint32_t first, uint32_t last);
  void loadMatrices(uint32_t first);
  void multiply(uint32_t first);
  bool isShared(uint64_t address, uint64_t size);
  uint16_t elementOf(uint64_t descriptor, uint64_t offset);
  void perform(const EmulatedThread &thread, TileProduct &product);
  uint32_t resolve(const EmulatedThread &thread, uint32_t word);

  size_t sharedBytes;
  char *shared = nullptr;
  EmulatedKernel kernel;
  void *const *operands;
  Random &random;
  std::vector<EmulatedThread> threads;
  std::vector<EmulatedThread *> runnable;
  uint32_t atBarrier = 0, done = 0;
  std::vector<uint32_t> waiting; // lanes of each warp at an exchange
  const char *fault = nullptr;
};

} // namespace fake

#endif // MPCOMM_TEST_LIB_FAKECUDA_BLOCK_H
