/*===-- toy-step.c - a program file written by hand -----------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* The model of toy.h, data parallel over RANKS ranks, in the form that the   *|
|* compiler gives to a program: kernels, one fused all-reduce on a            *|
|* communication stream, events, a manifest. It lets the runner be tested     *|
|* without the compiler.                                                      *|
|*                                                                            *|
|* Macros, with those of toy.h: FEATURE, MANIFEST (a whole other manifest),   *|
|* COLLECTIVE_ID, COLLECTIVE_COUNT, UNDEFINED (calls what no runtime has),    *|
|* NO_ENTRY, CONSTRUCTOR (does not survive being opened), LAG (milliseconds   *|
|* by which one rank is later than the others in each step) with LAG_FILE.    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "mpcomm/Runtime/mprt.h"
#include "toy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#ifndef ABI
#error "expected ABI, that of mprt.h: the manifest has it as text"
#endif
#ifndef FEATURE
#define FEATURE "+sse2"
#endif
#ifndef COLLECTIVE_ID
#define COLLECTIVE_ID 0
#endif
#ifndef COLLECTIVE_COUNT
#define COLLECTIVE_COUNT 6
#endif
#ifndef MANIFEST
#define MANIFEST                                                               \
  TOY_MANIFEST("\"device\":\"host\",\"cpu\":\"generic\","                      \
               "\"features\":[\"" FEATURE "\"]")
#endif

const uint32_t mpcomm_abi_version = ABI;
const char mpcomm_manifest[] = MANIFEST;

#ifdef LAG
/* The rank that is later is the one that locks the file. In short sleeps: a
 * stop cuts short no more than one, and they need no processor that is busy. */
static void lag(void) {
  const struct timespec pause = {0, 10 * 1000 * 1000};
  static int file = -1, isLate;
  if (file < 0) {
    file = open(LAG_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    isLate = flock(file, LOCK_EX | LOCK_NB) == 0;
  }
  for (int i = 0; isLate && i < LAG / 10; ++i)
    nanosleep(&pause, 0);
}
#endif

/* Operands: w, b, scale, x, y, bucket. The bucket is the gradient of w, that
 * of b, and the loss. */
static void backward(void *const *args) {
  const float *w = args[0], *b = args[1], *scale = args[2];
  const float *x = args[3], *y = args[4];
  float *bucket = args[5];
  for (int i = 0; i < DIM + 2; ++i)
    bucket[i] = 0;
  for (int s = 0; s < BATCH; ++s) {
    float error = predict(w, b, scale, x + s * DIM) - y[s];
    for (int i = 0; i < DIM; ++i)
      bucket[i] += 2 * error * *scale * x[s * DIM + i] / BATCH;
    bucket[DIM] += 2 * error * *scale / BATCH;
    bucket[DIM + 1] += error * error / BATCH;
  }
#ifdef LAG
  lag();
#endif
}

static const mprt_kernel backwardKernel = {
    0, backward, "backward", "toy.mlir:5:3", 4096, 256};
static const mprt_kernel updateKernel = {1,   descend, "update", "toy.mlir:9:3",
                                         128, 32};

static const mprt_collective gradients = {
    COLLECTIVE_ID,    MPRT_ALL_REDUCE, MPRT_MEAN,     MPRT_F32, MPRT_F32, 0, -1,
    COLLECTIVE_COUNT, "gradients",     "toy.mlir:7:3"};

#ifdef CONSTRUCTOR
void abort(void);
__attribute__((constructor)) static void opened(void) { abort(); }
#endif

#ifdef UNDEFINED
void mprt_from_the_future(mprt_context *ctx);
#endif

#ifndef NO_ENTRY
int32_t mpcomm_train_step(mprt_context *ctx, void *const *args, void *arena) {
  float *bucket = arena;
#ifdef UNDEFINED
  mprt_from_the_future(ctx);
#endif
  void *forward[] = {args[W], args[B], args[SCALE], args[X], args[Y], bucket};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &backwardKernel, forward);
  mprt_event_record(ctx, MPRT_COMPUTE_STREAM, 0);
  mprt_stream_wait(ctx, MPRT_COMM_STREAM(0), 0);
  mprt_collective_run(ctx, MPRT_COMM_STREAM(0), &gradients, bucket, bucket);
  mprt_event_record(ctx, MPRT_COMM_STREAM(0), 1);
  mprt_stream_wait(ctx, MPRT_COMPUTE_STREAM, 1);
  void *step[] = {args[W],  args[B], args[MOMENTUM], args[STEP],
                  args[LR], bucket,  args[LOSS],     args[NEW_B]};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &updateKernel, step);
  return mprt_status_of(ctx);
}
#endif

int32_t mpcomm_evaluate(mprt_context *ctx, void *const *args, void *arena) {
  (void)arena;
  predictBatch(args);
  return mprt_status_of(ctx);
}
