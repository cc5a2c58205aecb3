//===- FakeCudaKernels.cpp - an image for the fake CUDA device ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written by hand, as the compiler emulates kernels: right ones, and ones with
// the faults that the fake device is there to show.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <bit>

#define KERNEL(name, operands)                                                 \
  extern "C" const int32_t mpemu_operands_##name;                              \
  const int32_t mpemu_operands_##name = operands;                              \
  extern "C" void name(void *const *args)

/// Bytes of shared memory that a kernel declares.
#define SHARED(name, bytes)                                                    \
  extern "C" const int32_t mpemu_shared_##name;                                \
  const int32_t mpemu_shared_##name = bytes;

static constexpr int32_t mostThreads = 1024;

static int32_t thread() { return mpemu_index(0); }
static int32_t block() { return mpemu_index(1); }
static int32_t threads() { return mpemu_index(2); }
static int32_t blocks() { return mpemu_index(3); }
static int32_t globalThread() { return block() * threads() + thread(); }

template <typename T> static T &element(void *operand, int64_t index) {
  return static_cast<T *>(operand)[index];
}

static float shuffleXor(float value, uint32_t offset) {
  return std::bit_cast<float>(
      mpemu_shuffle(0, std::bit_cast<uint32_t>(value), offset, 32));
}

/// c[i] = a[i] + b[i], one element a thread.
KERNEL(add, 3) {
  int32_t i = globalThread();
  element<float>(args[2], i) =
      element<float>(args[0], i) + element<float>(args[1], i);
}

/// x[i] = scale * x[i] + shift, what operand 1 holds.
KERNEL(scale, 2) {
  float &x = element<float>(args[0], globalThread());
  x = element<float>(args[1], 0) * x + element<float>(args[1], 1);
}

/// out[block] = the sum of the block's threads' in[i].
SHARED(block_sum, 32 * sizeof(float))
KERNEL(block_sum, 2) {
  float sum = element<float>(args[0], globalThread());
  for (uint32_t offset = 16; offset; offset /= 2)
    sum += shuffleXor(sum, offset);
  auto *shared = static_cast<float *>(mpemu_shared());
  if (mpemu_index(4) == 0)
    shared[thread() / 32] = sum;
  mpemu_barrier();
  if (thread() >= 32)
    return;
  sum = thread() < threads() / 32 ? shared[thread()] : 0.0f;
  for (uint32_t offset = 16; offset; offset /= 2)
    sum += shuffleXor(sum, offset);
  if (thread() == 0)
    element<float>(args[1], block()) = sum;
}

/// out[i] = in of the neighbour, handed over in shared memory; once with the
/// barrier that this takes and once without.
static void neighbour(void *const *args, bool waits) {
  auto *shared = static_cast<int32_t *>(mpemu_shared());
  shared[thread()] = element<int32_t>(args[0], globalThread());
  if (waits)
    mpemu_barrier();
  int32_t other = (thread() + 1) % threads();
  element<int32_t>(args[1], globalThread()) = shared[other];
}
SHARED(neighbour, mostThreads * sizeof(int32_t))
KERNEL(neighbour, 2) { neighbour(args, true); }
SHARED(racy_neighbour, mostThreads * sizeof(int32_t))
KERNEL(racy_neighbour, 2) { neighbour(args, false); }

/// The number of the block that came last.
KERNEL(last_block, 1) { element<int32_t>(args[0], 0) = block(); }

/// out[5 i + m] = the lane that thread i gets in mode m, out[5 i + 4] = ballot.
KERNEL(shuffles, 2) {
  uint32_t offset = element<uint32_t>(args[1], 0);
  uint32_t width = element<uint32_t>(args[1], 1);
  auto *out = &element<uint32_t>(args[0], 5 * globalThread());
  for (uint32_t mode = 0; mode < 4; ++mode)
    out[mode] = mpemu_shuffle(mode, uint32_t(mpemu_index(4)), offset, width);
  out[4] = mpemu_ballot(thread() % 3 == 0);
}

/// Half of the threads never come to the barrier.
KERNEL(divergent, 1) {
  if (thread() % 2)
    mpemu_barrier();
  element<int32_t>(args[0], 0) = 1;
}

/// Writes one element too many.
KERNEL(overrun, 2) {
  int32_t count = element<int32_t>(args[1], 0);
  if (globalThread() <= count)
    element<int32_t>(args[0], globalThread()) = 7;
}

/// Counts the threads of the grid.
KERNEL(count_threads, 1) { element<int32_t>(args[0], 0) += blocks() > 0; }
