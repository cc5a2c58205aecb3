/*===-- toy-step.c - a program file written by hand -----------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* Linear regression with momentum, data parallel over RANKS ranks, in the    *|
|* form that the compiler gives to a program: kernels, one fused all-reduce   *|
|* on a communication stream, events, a manifest. It lets the runner be       *|
|* tested without the compiler.                                               *|
|*                                                                            *|
|* Macros: RANKS (mesh size), BATCH (samples a rank), ABI, FEATURE, MANIFEST  *|
|* (a whole other manifest), COLLECTIVE_ID, COLLECTIVE_COUNT, ARENA,          *|
|* LOOSE_STATE (returns `b` in a buffer of its own), UNDEFINED (calls what no *|
|* runtime has), NO_ENTRY.                                                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "mpcomm/Runtime/mprt.h"

#ifndef RANKS
#define RANKS 1
#endif
#ifndef BATCH
#define BATCH 8
#endif
#ifndef ABI
#error "expected ABI, the number of MPRT_ABI_VERSION: the manifest has it as text"
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
#ifdef MANIFEST
const char mpcomm_manifest[] = MANIFEST;
#else
const char mpcomm_manifest[] =
    "{\"abi\":" TEXT(ABI) ",\"producer\":\"toy\",\"program\":\"toy\","
    "\"target\":{\"device\":\"host\",\"cpu\":\"generic\","
    "\"features\":[\"" FEATURE "\"]},"
    "\"mesh\":{\"name\":\"mesh\",\"axes\":[{\"name\":\"dp\",\"size\":"
    TEXT(RANKS) "}]},"
    "\"communicators\":[{\"axes\":[\"dp\"]}],"
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
    "\"collectives\":[{\"id\":0,\"kind\":\"all_reduce\",\"reduction\":\"mean\",\"dtype\":\"f32\","
    "\"count\":6,\"bytes\":24,\"communicator\":0,\"name\":\"gradients\",\"location\":\"toy.mlir:7:3\"}]},"
    "{\"name\":\"evaluate\",\"entry\":\"mpcomm_evaluate\",\"arena_bytes\":0,\"events\":0,\"arguments\":["
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"access\":\"read\"},"
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"},"
    "{\"name\":\"scale\",\"role\":\"buffer\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"},"
    BATCH_ARGUMENTS "],\"results\":["
    "{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\",\"shape\":[],\"argument\":null},"
    "{\"name\":\"output\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[" TEXT(BATCH) ",2],"
    "\"argument\":null,\"targets\":\"label\"}],\"collectives\":[]}]}";
#endif
/* clang-format on */

static float predict(const float *w, const float *b, const float *scale,
                     const float *x) {
  float sum = *b;
  for (int i = 0; i < DIM; ++i)
    sum += w[i] * x[i];
  return *scale * sum;
}

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
}

/* Operands: w, b, momentum, step, lr, bucket, loss, the new b. */
static void update(void *const *args) {
  float *w = args[0], *momentum = args[2], *step = args[3];
  const float *b = args[1], *lr = args[4], *bucket = args[5];
  float *loss = args[6], *newB = args[7];
  *step += 1;
  for (int i = 0; i <= DIM; ++i)
    momentum[i] = 0.9f * momentum[i] + bucket[i];
  for (int i = 0; i < DIM; ++i)
    w[i] -= *lr * momentum[i];
  *newB = *b - *lr * momentum[DIM];
  *loss = bucket[DIM + 1];
}

static const mprt_kernel backwardKernel = {
    0, backward, "backward", "toy.mlir:5:3", 4096, 256};
static const mprt_kernel updateKernel = {1,   update, "update", "toy.mlir:9:3",
                                         128, 32};

static const mprt_collective gradients = {
    COLLECTIVE_ID,    MPRT_ALL_REDUCE, MPRT_MEAN,     MPRT_F32, MPRT_F32, 0, -1,
    COLLECTIVE_COUNT, "gradients",     "toy.mlir:7:3"};

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
#ifdef LOOSE_STATE
  void *newB = args[LOOSE_B];
#else
  void *newB = args[B];
#endif
  void *step[] = {args[W],  args[B], args[MOMENTUM], args[STEP],
                  args[LR], bucket,  args[LOSS],     newB};
  mprt_launch(ctx, MPRT_COMPUTE_STREAM, &updateKernel, step);
  return mprt_status_of(ctx);
}
#endif

int32_t mpcomm_evaluate(mprt_context *ctx, void *const *args, void *arena) {
  const float *x = args[E_X], *y = args[E_Y];
  float *loss = args[E_LOSS], *output = args[E_OUTPUT];
  (void)arena;
  *loss = 0;
  for (int s = 0; s < BATCH; ++s) {
    float value = predict(args[E_W], args[E_B], args[E_SCALE], x + s * DIM);
    *loss += (value - y[s]) * (value - y[s]) / BATCH;
    output[2 * s] = -value;
    output[2 * s + 1] = value;
  }
  return mprt_status_of(ctx);
}
