/*===-- cuda-step.c - a program file for a GPU, written by hand -----------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* The model of toy.h in the form of a program for a GPU: kernels in images,  *|
|* all buffers on the device. The images are shared objects for the fake CUDA *|
|* driver (cuda-kernels.c).                                                   *|
|*                                                                            *|
|* Macros, with those of toy.h: IMAGE (file of the kernels), IMAGE_BYTES,     *|
|* CHIP (of the image), SYMBOL (of the first kernel), STRAY (writes where     *|
|* nothing is, and lets so many ms pass before the next call), SCRATCH (bytes *|
|* in the manifest), PTX_CUT (bytes that the PTX lacks), PTX_TARGET (of it),  *|
|* CODE (the image), NO_END (of the table of images).                         *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "mpcomm/Runtime/mprt.h"
#include "toy.h"

#include <time.h>

#ifndef CHIP
#define CHIP 90
#endif
#ifndef SYMBOL
#define SYMBOL "backward"
#endif
#ifndef SCRATCH
#define SCRATCH 4
#endif
#ifndef CODE
#define CODE image_begin
#endif
#ifndef PTX_CUT
#define PTX_CUT 0
#endif

const uint32_t mpcomm_abi_version = ABI;
const char mpcomm_manifest[] =
    TOY_MANIFEST("\"device\":\"cuda\",\"scratch_bytes\":" TEXT(SCRATCH));

__asm__(".section .rodata\n"
        ".balign 16\n"
        "image_begin: .incbin \"" IMAGE "\"\n"
        "image_end: .byte 0\n"
        ".text\n");
extern const char image_begin[] __attribute__((visibility("hidden")));
#ifndef PTX_TARGET
#define PTX_TARGET "sm_100"
#endif
static const char ptx[] = ".version 7.0\n.target " PTX_TARGET "\nand so on";

const mprt_image mpcomm_images[] = {{CHIP, 0, CODE, IMAGE_BYTES},
                                    {100, 1, ptx, sizeof(ptx) - PTX_CUT},
#ifndef NO_END
                                    {0}
#endif
};

/* Of six gradients, in blocks as many as the device runs, but at most two. */
static const mprt_kernel backwardKernel = {
    0, 0, "backward", "toy.mlir:5:3", 4096, 256, SYMBOL, 6, 32, 2, 1, 0, 0};
static const mprt_kernel updateKernel = {
    1, 0, "update", "toy.mlir:9:3", 128, 32, "update", 8, 64, 1, 0, 0, 4};
static const mprt_kernel evaluateKernel = {
    2, 0, "evaluate", "toy.mlir:20:3", 128, 32, "evaluate", 8, 32, 1, 0, 0, 0};
#ifdef STRAY
static const mprt_kernel strayKernel = {
    3, 0, "stray", "toy.mlir:30:3", 4, 0, "stray", 1, 32, 1, 0, 0, 0};
#endif

#ifndef NO_COMM
static const mprt_collective gradients = {
    0, MPRT_ALL_REDUCE, MPRT_MEAN,     MPRT_F32, MPRT_F32, 0, -1,
    6, "gradients",     "toy.mlir:7:3"};
#endif

int32_t mpcomm_train_step(mprt_context *ctx, void *const *args, void *arena) {
  char *bucket = arena, *copy = bucket + 64;
  void *forward[] = {args[W], args[B], args[SCALE], args[X], args[Y], bucket};
  mprt_zero(ctx, MPRT_COMPUTE_STREAM, bucket, 6 * sizeof(float));
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &backwardKernel, forward);
#ifdef STRAY
  void *operand[] = {bucket};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &strayKernel, operand);
  const struct timespec pause = {0, STRAY * 1000000L};
  nanosleep(&pause, 0);
#endif
#ifdef NO_COMM
  mprt_copy(ctx, MPRT_COMPUTE_STREAM, copy, bucket, 6 * sizeof(float));
#else
  /* The result is copied on the communicator's stream, after the collective,
   * and what is sent is cleared as soon as it has left. */
  mprt_event_record(ctx, MPRT_COMPUTE_STREAM, 0);
  mprt_stream_wait(ctx, MPRT_COMM_STREAM(0), 0);
  mprt_collective_run(ctx, MPRT_COMM_STREAM(0), &gradients, bucket, bucket);
  mprt_copy(ctx, MPRT_COMM_STREAM(0), copy, bucket, 6 * sizeof(float));
  mprt_zero(ctx, MPRT_COMM_STREAM(0), bucket, 6 * sizeof(float));
  mprt_event_record(ctx, MPRT_COMM_STREAM(0), 1);
  mprt_stream_wait(ctx, MPRT_COMPUTE_STREAM, 1);
#endif
  void *step[] = {args[W],  args[B], args[MOMENTUM], args[STEP],
                  args[LR], copy,    args[LOSS],     args[NEW_B]};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &updateKernel, step);
  return mprt_status_of(ctx);
}

int32_t mpcomm_evaluate(mprt_context *ctx, void *const *args, void *arena) {
  (void)arena;
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &evaluateKernel, args);
  return mprt_status_of(ctx);
}
