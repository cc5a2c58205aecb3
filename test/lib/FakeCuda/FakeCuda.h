//===- FakeCuda.h - what tests ask of the fake CUDA driver ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// libcuda.so.1 of this folder is a test double of the CUDA driver: the names
// and signatures of the real one, no GPU. README.md says what it does and which
// environment variables it reads. Besides the driver's API it exports what is
// declared here: hooks for tests and for the doubles of cuBLASLt and cuDNN, and
// what emulated kernels call.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_LIB_FAKECUDA_FAKECUDA_H
#define MPCOMM_TEST_LIB_FAKECUDA_FAKECUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#pragma GCC visibility push(default)
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

/// Starts the random choices anew, as MPFAKE_SEED does.
void mpfake_seed(uint64_t seed);
/// Calls of the function so far.
uint64_t mpfake_count(const char *name);
/// As MPFAKE_FAIL: "name[:n[:code]]", several separated by commas. Calls are
/// counted from here on. An empty text takes back what is pending.
void mpfake_fail(const char *text);

//===----------------------------------------------------------------------===//
// Doubles of libraries
//===----------------------------------------------------------------------===//

/// Counts a call of an emulated function; the code that it is to end with, 0
/// for none, where MPFAKE_FAIL or mpfake_fail asked for one.
int mpfake_note(const char *name);
/// Enqueues a call of `run` on a stream (a CUstream) as a kernel would be, into
/// a graph where the stream is being captured. A result of `run` that is not 0
/// becomes the context's error. `release`, if any, frees `data` once nothing
/// can run it any more. Returns a CUresult.
int mpfake_enqueue(void *stream, const char *name, int (*run)(void *),
                   void *data, void (*release)(void *));
/// Where enqueued code finds what a device pointer points to. Pointers that
/// are not into device memory stay as they are.
void *mpfake_device(const void *pointer);
/// For enqueued code: the device's clock, which events tell, goes on by so
/// much.
void mpfake_elapse(uint64_t microseconds);
/// 1 if all bytes belong to one live allocation of a device, or to pinned host
/// memory.
int mpfake_covers(const void *pointer, size_t bytes);
/// 0 where MPFAKE_EMPTY asks that enqueued computations do nothing.
int mpfake_computes(void);

//===----------------------------------------------------------------------===//
// Emulated kernels
//===----------------------------------------------------------------------===//

/// 0: thread of the block, 1: block, 2: threads of a block, 3: blocks of the
/// grid, 4: lane of the warp.
int32_t mpemu_index(int32_t which);
/// Waits for all threads of the block.
void mpemu_barrier(void);
/// What lanes hand to each other, as shfl.sync does in segments of `width`
/// lanes. 0: lane ^ offset, 1: lane - offset, 2: lane + offset, 3: lane
/// `offset` of the segment. All lanes of the warp take part.
uint32_t mpemu_shuffle(uint32_t mode, uint32_t value, uint32_t offset,
                       uint32_t width);
/// One bit a lane: whether its predicate is not 0.
uint32_t mpemu_ballot(uint32_t predicate);
/// ldmatrix.x4 of 8 x 8 elements of 16 bits, transposed or not: `address` is
/// where the lane's row lies in shared memory. All lanes take part.
void mpemu_load_matrix(int32_t transposed, uint64_t address, uint32_t *words);
/// mma.sync.m16n8k16 of bf16 or f16: `words` are four of the left operand, two
/// of the right one, and four f32 of the sum, which the result replaces. Adds
/// the products in order, each rounded to f32. All lanes take part.
void mpemu_multiply(int32_t isBF16, uint32_t *words);
/// cp.async of `size` bytes, those from `bytes` on zeros; cp.async.commit_group
/// and cp.async.wait_group. A copy takes place at once or when it is waited
/// for.
void mpemu_copy(uint64_t target, uint64_t source, int32_t size, int32_t bytes);
void mpemu_copy_commit(void);
void mpemu_copy_wait(int32_t others);

/* A product of a warpgroup of sm_90a (wgmma.mma_async), 64 rows by `columns`,
   by `slices` of 16 terms, committed as a group. Words: f32 sums of the thread,
   columns / 2; the left operand, in registers (4 words a slice) or as
   descriptors (2 words); descriptors of the right one. The sums become
   NaNs until a wait gives what they are. */
void mpemu_warpgroup_multiply(int32_t columns, int32_t slices,
                              int32_t inRegisters, int32_t across,
                              int32_t accumulates, int32_t isBF16,
                              uint32_t *words);
/* Waits until at most `others` later groups of the thread are in flight, and
   replaces `count` words that were sums by what they are. */
void mpemu_warpgroup_wait(int32_t others, int32_t count, uint32_t *words);
/* fence.proxy.async */
void mpemu_fence_tiles(void);
/// ex2.approx.ftz.f32 and lg2.approx.ftz.f32, rounded to nearest.
float mpemu_exp2(float x);
float mpemu_log2(float x);
/// The block's shared memory: the dynamic bytes of the launch and 227 KiB more.
void *mpemu_shared(void);

#ifdef __cplusplus
} // extern "C"
#pragma GCC visibility pop
#endif

#endif // MPCOMM_TEST_LIB_FAKECUDA_FAKECUDA_H
