/*===-- stage-step.c - a pipeline of two stages, written by hand ----------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* The model of toy-step.c, cut in two: stage 0 has `w` and computes w.x,     *|
|* stage 1 has `b` and computes the loss. Both have `scale`, which they read, *|
|* and `step`, which they count. Micro-batches travel forward on channel 1    *|
|* and backward on channel 2; the loss goes to stage 0 on channel 0. Each     *|
|* stage reduces its gradients over dp. With SINGLE the same model and state  *|
|* are one function for all ranks. stages.py writes the manifest.             *|
|*                                                                            *|
|* Macros: ABI, MANIFEST_FILE, BATCH (samples of a data rank), MICRO          *|
|* (micro-batches), SINGLE, LOOSE_STEP (stage 1 counts steps differently),    *|
|* BALLAST (1: stage 1 has a large buffer, after y; else 0),                  *|
|* FLAGS (both say which gradients are not finite: that of b in step 2),      *|
|* FORWARD_COUNT (what stage 1 expects to receive), SWAPPED (stage 1 receives *|
|* on the channel of the way back).                                           *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "mpcomm/Runtime/mprt.h"

#define DIM 4
#define PART (BATCH / MICRO)
#ifndef FORWARD_COUNT
#define FORWARD_COUNT PART
#endif
#ifndef BALLAST
#define BALLAST 0
#endif
#ifdef SWAPPED
#define RECEIVE_ON 1
#else
#define RECEIVE_ON 0
#endif

const uint32_t mpcomm_abi_version = ABI;
const char mpcomm_manifest[] =
#include MANIFEST_FILE
    ;

enum { FORWARD, BACKWARD, WHOLE, DATA }; /* communicators */

/* Gradients and loss; then what travels. */
struct arena {
  float bucket[DIM + 2];
  float z[MICRO][PART], dz[MICRO][PART];
};

static void start(mprt_context *ctx, const mprt_collective *call,
                  uint32_t event, const void *send, void *recv) {
  uint32_t stream = MPRT_COMM_STREAM(call->communicator);
  mprt_event_record(ctx, MPRT_COMPUTE_STREAM, 2 * event);
  mprt_stream_wait(ctx, stream, 2 * event);
  mprt_collective_run(ctx, stream, call, send, recv);
  mprt_event_record(ctx, stream, 2 * event + 1);
}

static void await(mprt_context *ctx, uint32_t event) {
  mprt_stream_wait(ctx, MPRT_COMPUTE_STREAM, 2 * event + 1);
}

/* id, kind, reduction, type, accumulate, communicator, peer, count, name */
static const mprt_collective
    sendForward = {1,       MPRT_SEND, 0,    MPRT_F32, MPRT_F32,
                   FORWARD, 1,         PART, "F0",     "stages.mlir:10:3"},
    receiveForward = {1,        MPRT_RECV,         0, MPRT_F32,
                      MPRT_F32, RECEIVE_ON,        0, FORWARD_COUNT,
                      "F0",     "stages.mlir:20:3"},
    sendBackward = {2,        MPRT_SEND, 0,    MPRT_F32, MPRT_F32,
                    BACKWARD, 0,         PART, "B0",     "stages.mlir:21:3"},
    receiveBackward = {2,        MPRT_RECV, 0,    MPRT_F32, MPRT_F32,
                       BACKWARD, 1,         PART, "B0",     "stages.mlir:11:3"},
    shareLoss = {3,      MPRT_BROADCAST,    0, MPRT_F32, MPRT_F32, WHOLE, 1, 1,
                 "loss", "stages.mlir:30:3"},
    reduceFirst =
        {4,   MPRT_ALL_REDUCE, MPRT_MEAN,         MPRT_F32, MPRT_F32, DATA, -1,
         DIM, "gradients 0",   "stages.mlir:12:3"},
    reduceSecond =
        {5, MPRT_ALL_REDUCE, MPRT_MEAN,         MPRT_F32, MPRT_F32, DATA, -1,
         2, "gradients 1",   "stages.mlir:22:3"},
    reduceAll = {
        6,  MPRT_ALL_REDUCE, MPRT_MEAN,   MPRT_F32,          MPRT_F32, 0,
        -1, DIM + 2,         "gradients", "stages.mlir:40:3"};

static void product(const float *w, const float *x, float *z, int count) {
  for (int s = 0; s < count; ++s) {
    z[s] = 0;
    for (int i = 0; i < DIM; ++i)
      z[s] += w[i] * x[s * DIM + i];
  }
}

/* Adds to the gradient of b and to the loss; leaves that of z in dz. */
static void loss(const float *b, const float *scale, const float *z,
                 const float *y, float *dz, float *bucket) {
  for (int s = 0; s < PART; ++s) {
    float error = *scale * (z[s] + *b) - y[s];
    dz[s] = 2 * error * *scale / BATCH;
    bucket[0] += dz[s];
    bucket[1] += error * error / BATCH;
  }
}

static void gradient(const float *x, const float *dz, float *bucket) {
  for (int s = 0; s < PART; ++s)
    for (int i = 0; i < DIM; ++i)
      bucket[i] += dz[s] * x[s * DIM + i];
}

static void update(float *p, float *momentum, const float *gradient, float lr,
                   int count) {
  for (int i = 0; i < count; ++i) {
    momentum[i] = 0.9f * momentum[i] + gradient[i];
    p[i] -= lr * momentum[i];
  }
}

#ifdef SINGLE

/* w, b, w.momentum, b.momentum, step, scale, lr, x, y; loss */
int32_t whole(mprt_context *ctx, void *const *args, void *memory) {
  struct arena *arena = memory;
  float *bucket = arena->bucket;
  for (int i = 0; i < DIM + 2; ++i)
    bucket[i] = 0;
  for (int m = 0; m < MICRO; ++m) {
    const float *x = (const float *)args[7] + m * PART * DIM;
    product(args[0], x, arena->z[m], PART);
    loss(args[1], args[5], arena->z[m], (const float *)args[8] + m * PART,
         arena->dz[m], bucket + DIM);
    gradient(x, arena->dz[m], bucket);
  }
  start(ctx, &reduceAll, 0, bucket, bucket);
  await(ctx, 0);
  if (mprt_status_of(ctx))
    return mprt_status_of(ctx);
  update(args[0], args[2], bucket, *(float *)args[6], DIM);
  update(args[1], args[3], bucket + DIM, *(float *)args[6], 1);
  *(float *)args[4] += 1;
  *(float *)args[9] = bucket[DIM + 1];
  return mprt_status_of(ctx);
}

#else

/* w, w.momentum, step, scale, lr, x; loss */
int32_t first(mprt_context *ctx, void *const *args, void *memory) {
  struct arena *arena = memory;
  float *bucket = arena->bucket;
  for (int i = 0; i < DIM; ++i)
    bucket[i] = 0;
  for (uint32_t m = 0; m < MICRO; ++m) {
    product(args[0], (const float *)args[5] + m * PART * DIM, arena->z[m],
            PART);
    start(ctx, &sendForward, m, arena->z[m], 0);
    start(ctx, &receiveBackward, MICRO + m, 0, arena->dz[m]);
  }
  for (uint32_t m = 0; m < MICRO; ++m) {
    await(ctx, MICRO + m);
    gradient((const float *)args[5] + m * PART * DIM, arena->dz[m], bucket);
    await(ctx, m);
  }
  start(ctx, &reduceFirst, 2 * MICRO, bucket, bucket);
  start(ctx, &shareLoss, 2 * MICRO + 1, args[6], args[6]);
  await(ctx, 2 * MICRO);
  await(ctx, 2 * MICRO + 1);
  if (mprt_status_of(ctx))
    return mprt_status_of(ctx);
  update(args[0], args[1], bucket, *(float *)args[4], DIM);
  *(float *)args[2] += 1;
#ifdef FLAGS
  *(float *)args[7] = 0;
#endif
  return mprt_status_of(ctx);
}

/* b, b.momentum, step, scale, lr, y, perhaps ballast; loss */
int32_t second(mprt_context *ctx, void *const *args, void *memory) {
  struct arena *arena = memory;
  float *bucket = arena->bucket;
  bucket[0] = bucket[1] = 0;
  for (uint32_t m = 0; m < MICRO; ++m)
    start(ctx, &receiveForward, m, 0, arena->z[m]);
  for (uint32_t m = 0; m < MICRO; ++m) {
    await(ctx, m);
    loss(args[0], args[3], arena->z[m], (const float *)args[5] + m * PART,
         arena->dz[m], bucket);
    start(ctx, &sendBackward, MICRO + m, arena->dz[m], 0);
  }
  start(ctx, &reduceSecond, 2 * MICRO, bucket, bucket);
  await(ctx, 2 * MICRO);
  *(float *)args[6 + BALLAST] = bucket[1];
  start(ctx, &shareLoss, 2 * MICRO + 1, args[6 + BALLAST], args[6 + BALLAST]);
  for (uint32_t m = 0; m < MICRO; ++m)
    await(ctx, MICRO + m);
  await(ctx, 2 * MICRO + 1);
  if (mprt_status_of(ctx))
    return mprt_status_of(ctx);
  update(args[0], args[1], bucket, *(float *)args[4], 1);
#ifdef LOOSE_STEP
  *(float *)args[2] += 1;
#endif
  *(float *)args[2] += 1;
#ifdef FLAGS
  *(float *)args[7 + BALLAST] = *(float *)args[2] == 2;
#endif
  return mprt_status_of(ctx);
}

/* w, x; loss */
int32_t evaluate_first(mprt_context *ctx, void *const *args, void *memory) {
  struct arena *arena = memory;
  for (uint32_t m = 0; m < MICRO; ++m) {
    product(args[0], (const float *)args[1] + m * PART * DIM, arena->z[m],
            PART);
    start(ctx, &sendForward, m, arena->z[m], 0);
    await(ctx, m);
  }
  start(ctx, &shareLoss, MICRO, args[2], args[2]);
  await(ctx, MICRO);
  return mprt_status_of(ctx);
}

/* b, scale, y, label; loss, output */
int32_t evaluate_second(mprt_context *ctx, void *const *args, void *memory) {
  struct arena *arena = memory;
  float *output = args[5], sums[2] = {0, 0};
  for (uint32_t m = 0; m < MICRO; ++m) {
    start(ctx, &receiveForward, m, 0, arena->z[m]);
    await(ctx, m);
    loss(args[0], args[1], arena->z[m], (const float *)args[2] + m * PART,
         arena->dz[m], sums);
    for (int s = 0; s < PART; ++s) {
      float value = *(float *)args[1] * (arena->z[m][s] + *(float *)args[0]);
      output[2 * (m * PART + s)] = -value;
      output[2 * (m * PART + s) + 1] = value;
    }
  }
  *(float *)args[4] = sums[1];
  start(ctx, &shareLoss, MICRO, args[4], args[4]);
  await(ctx, MICRO);
  return mprt_status_of(ctx);
}

#endif
