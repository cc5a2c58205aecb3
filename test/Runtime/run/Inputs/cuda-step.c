/*===-- cuda-step.c - a program file for a GPU, written by hand -----------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* The linear regression of toy-step.c in the form of a program for a GPU:    *|
|* kernels in images, all buffers on the device. The images are shared        *|
|* objects for the fake CUDA driver (cuda-kernels.c).                         *|
|*                                                                            *|
|* Macros: RANKS (mesh size), BATCH (samples a rank), ABI, IMAGE (file of the *|
|* kernels), CHIP (of the image), NO_COMM (RANKS is 1, there is no            *|
|* communicator), LOOSE_STATE (returns `b` in a buffer of its own), SYMBOL    *|
|* (of the first kernel), STRAY (writes where nothing is), SCRATCH (bytes in  *|
|* the manifest), ARENA, PTX_CUT (bytes that the PTX lacks), CODE (the image),
*|
|* NO_END (of the table of images).                                           *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "mpcomm/Runtime/mprt.h"

#ifndef RANKS
#define RANKS 1
#endif
#ifndef BATCH
#define BATCH 8
#endif
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
#ifndef ARENA
#define ARENA 128
#endif
#define DIM 4

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

#ifdef LOOSE_STATE
#define B_ACCESS "read"
#define B_PLACE "null"
#else
#define B_ACCESS "update"
#define B_PLACE "1"
#endif
#ifdef NO_COMM
#define COMMUNICATORS ""
#define COLLECTIVES ""
#else
#define COMMUNICATORS "{\"axes\":[\"dp\"]}"
#define COLLECTIVES                                                            \
  "{\"id\":0,\"kind\":\"all_reduce\",\"reduction\":\"mean\","                  \
  "\"dtype\":\"f32\",\"count\":6,\"bytes\":24,\"communicator\":0,"             \
  "\"name\":\"gradients\",\"location\":\"toy.mlir:7:3\"}"
#endif

/* Arguments of train_step, in order; then the results that stand alone. */
enum { W, B, MOMENTUM, STEP, SCALE, LR, X, Y, LABEL, LOSS, LOOSE_B };
/* Arguments of evaluate. */
enum { E_W, E_B, E_SCALE, E_X, E_Y, E_LABEL, E_LOSS, E_OUTPUT };

/* clang-format off */
#define BATCH_ARGUMENTS                                                        \
  "{\"name\":\"x\",\"role\":\"batch\",\"dtype\":\"f32\",\"shape\":["           \
  TEXT(BATCH) ",4],\"access\":\"read\"},"                                      \
  "{\"name\":\"y\",\"role\":\"batch\",\"dtype\":\"f32\",\"shape\":["           \
  TEXT(BATCH) "],\"access\":\"read\"},"                                        \
  "{\"name\":\"label\",\"role\":\"batch\",\"dtype\":\"i64\",\"shape\":["       \
  TEXT(BATCH) "],\"access\":\"read\",\"range\":[0,2]}"

const uint32_t mpcomm_abi_version = ABI;
const char mpcomm_manifest[] =
    "{\"abi\":" TEXT(ABI) ",\"producer\":\"toy\",\"program\":\"toy\","
    "\"target\":{\"device\":\"cuda\",\"scratch_bytes\":" TEXT(SCRATCH) "},"
    "\"mesh\":{\"name\":\"mesh\",\"axes\":[{\"name\":\"dp\",\"size\":"
    TEXT(RANKS) "}]},"
    "\"communicators\":[" COMMUNICATORS "],"
    "\"functions\":["
    "{\"name\":\"train_step\",\"entry\":\"mpcomm_train_step\","
    "\"arena_bytes\":" TEXT(ARENA) ",\"events\":2,\"arguments\":["
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"access\":\"update\"},"
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"" B_ACCESS "\"},"
    "{\"name\":\"w.momentum\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[5],\"access\":\"update\"},"
    "{\"name\":\"step\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"update\"},"
    "{\"name\":\"scale\",\"role\":\"buffer\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"},"
    "{\"name\":\"lr\",\"role\":\"hyperparameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\",\"default\":0.05},"
    BATCH_ARGUMENTS "],\"results\":["
    "{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\",\"shape\":[],\"argument\":null},"
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"argument\":0},"
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"argument\":" B_PLACE "},"
    "{\"name\":\"w.momentum\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[5],\"argument\":2},"
    "{\"name\":\"step\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[],\"argument\":3}],"
    "\"collectives\":[" COLLECTIVES "]},"
    "{\"name\":\"evaluate\",\"entry\":\"mpcomm_evaluate\",\"arena_bytes\":0,\"events\":0,\"arguments\":["
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"access\":\"read\"},"
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"},"
    "{\"name\":\"scale\",\"role\":\"buffer\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"},"
    BATCH_ARGUMENTS "],\"results\":["
    "{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\",\"shape\":[],\"argument\":null},"
    "{\"name\":\"output\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[" TEXT(BATCH) ",2],"
    "\"argument\":null,\"targets\":\"label\"}],\"collectives\":[]}]}";
/* clang-format on */

__asm__(".section .rodata\n"
        ".balign 16\n"
        "image_begin: .incbin \"" IMAGE "\"\n"
        "image_end: .byte 0\n"
        ".text\n");
extern const char image_begin[] __attribute__((visibility("hidden")));
static const char ptx[] = ".version 7.0 .target sm_80 and so on";

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
    2, 0, "evaluate", "toy.mlir:20:3", 128, 32, "evaluate", 7, 32, 1, 0, 0, 0};
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
#endif
#ifdef NO_COMM
  mprt_copy(ctx, MPRT_COMPUTE_STREAM, copy, bucket, 6 * sizeof(float));
#else
  /* The result is copied on the communicator's stream, behind the collective,
   * and what is sent is cleared as soon as it has left. */
  mprt_event_record(ctx, MPRT_COMPUTE_STREAM, 0);
  mprt_stream_wait(ctx, MPRT_COMM_STREAM(0), 0);
  mprt_collective_run(ctx, MPRT_COMM_STREAM(0), &gradients, bucket, bucket);
  mprt_copy(ctx, MPRT_COMM_STREAM(0), copy, bucket, 6 * sizeof(float));
  mprt_zero(ctx, MPRT_COMM_STREAM(0), bucket, 6 * sizeof(float));
  mprt_event_record(ctx, MPRT_COMM_STREAM(0), 1);
  mprt_stream_wait(ctx, MPRT_COMPUTE_STREAM, 1);
#endif
#ifdef LOOSE_STATE
  void *newB = args[LOOSE_B];
#else
  void *newB = args[B];
#endif
  void *step[] = {args[W],  args[B], args[MOMENTUM], args[STEP],
                  args[LR], copy,    args[LOSS],     newB};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &updateKernel, step);
  return mprt_status_of(ctx);
}

int32_t mpcomm_evaluate(mprt_context *ctx, void *const *args, void *arena) {
  void *operands[] = {args[E_W], args[E_B],    args[E_SCALE], args[E_X],
                      args[E_Y], args[E_LOSS], args[E_OUTPUT]};
  (void)arena;
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &evaluateKernel, operands);
  return mprt_status_of(ctx);
}
