/*===-- toy.h - the model of the programs written by hand -----------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* Linear regression with momentum: what toy-step.c and cuda-step.c both say  *|
|* of it in their manifests, and what a processor and the threads of a GPU    *|
|* both compute.                                                              *|
|*                                                                            *|
|* Macros: RANKS (mesh size), BATCH (samples a rank), ABI (of the manifest),  *|
|* ARENA (its bytes), NO_COMM (RANKS is 1, there is no communicator),         *|
|* LOOSE_STATE (returns `b` in a buffer of its own), STAGED (two ranks, which *|
|* may have functions of their own, for all that is known), GRAPH (a member of*|
|* the manifest, and a comma), COPIED (`evaluate` takes a copy of `w`), BULK *|
|* (`train_step` takes three buffers of so many elements, and only keeps      *|
|* them).                                                                     *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TOY_H
#define TOY_H

#ifndef RANKS
#define RANKS 1
#endif
#ifndef BATCH
#define BATCH 8
#endif
#ifndef GRAPH
#define GRAPH ""
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
#define NEW_B LOOSE_B
#else
#define B_ACCESS "update"
#define B_PLACE "1"
#define NEW_B B
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

#ifdef STAGED
#define WHERE "\"coordinates\":[{\"dp\":0},{\"dp\":1}],"
#else
#define WHERE ""
#endif

/* Arguments of train_step, in order; then the results that are alone. */
enum {
  W,
  B,
  MOMENTUM,
  STEP,
  SCALE,
  LR,
  X,
  Y,
  LABEL,
#ifdef BULK
  BULK_0,
  BULK_1,
  BULK_2,
#endif
  LOSS,
  LOOSE_B
};
/* Arguments of evaluate. */
enum {
  E_W,
  E_B,
  E_SCALE,
  E_X,
  E_Y,
  E_LABEL,
#ifdef COPIED
  E_COPY,
#endif
  E_LOSS,
  E_OUTPUT
};
#ifdef COPIED
#define COPY_ARGUMENT                                                          \
  ",{\"name\":\"w.bf16\",\"role\":\"optimizer_state\",\"dtype\":\"bf16\","     \
  "\"shape\":[4],\"access\":\"read\",\"copy_of\":\"w\"}"
#else
#define COPY_ARGUMENT ""
#endif

#ifdef BULK
#define BULK_ARGUMENT(k)                                                       \
  ",{\"name\":\"bulk." #k "\",\"role\":\"buffer\",\"dtype\":\"f32\","          \
  "\"shape\":[" TEXT(BULK) "],\"access\":\"read\",\"default\":0." #k "}"
#define BULK_ARGUMENTS BULK_ARGUMENT(1) BULK_ARGUMENT(2) BULK_ARGUMENT(3)
#else
#define BULK_ARGUMENTS ""
#endif

/* clang-format off */
#define BATCH_ARGUMENTS                                                        \
  "{\"name\":\"x\",\"role\":\"batch\",\"dtype\":\"f32\",\"shape\":["           \
  TEXT(BATCH) ",4],\"access\":\"read\"},"                                      \
  "{\"name\":\"y\",\"role\":\"batch\",\"dtype\":\"f32\",\"shape\":["           \
  TEXT(BATCH) "],\"access\":\"read\"},"                                        \
  "{\"name\":\"label\",\"role\":\"batch\",\"dtype\":\"i64\",\"shape\":["       \
  TEXT(BATCH) "],\"access\":\"read\",\"range\":[0,2]}"

/* The manifest of a program for `target`. */
#define TOY_MANIFEST(target) \
    "{\"abi\":" TEXT(ABI) "," GRAPH "\"producer\":\"toy\",\"program\":\"toy\"," \
    "\"target\":{" target "}," \
    "\"mesh\":{\"name\":\"mesh\",\"axes\":[{\"name\":\"dp\",\"size\":" TEXT(RANKS) "}]}," \
    "\"communicators\":[" COMMUNICATORS "]," \
    "\"functions\":[" \
    "{\"name\":\"train_step\"," WHERE "\"entry\":\"mpcomm_train_step\"," \
    "\"arena_bytes\":" TEXT(ARENA) ",\"events\":2,\"arguments\":[" \
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"access\":\"update\"}," \
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"" B_ACCESS "\"}," \
    "{\"name\":\"w.momentum\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[5],\"access\":\"update\"}," \
    "{\"name\":\"step\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"update\"}," \
    "{\"name\":\"scale\",\"role\":\"buffer\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"}," \
    "{\"name\":\"lr\",\"role\":\"hyperparameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\",\"default\":0.05}," \
    BATCH_ARGUMENTS BULK_ARGUMENTS "],\"results\":[" \
    "{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\",\"shape\":[],\"argument\":null}," \
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"argument\":0}," \
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"argument\":" B_PLACE "}," \
    "{\"name\":\"w.momentum\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[5],\"argument\":2}," \
    "{\"name\":\"step\",\"role\":\"optimizer_state\",\"dtype\":\"f32\",\"shape\":[],\"argument\":3}]," \
    "\"collectives\":[" COLLECTIVES "]}," \
    "{\"name\":\"evaluate\",\"entry\":\"mpcomm_evaluate\",\"arena_bytes\":0,\"events\":0,\"arguments\":[" \
    "{\"name\":\"w\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[4],\"access\":\"read\"}," \
    "{\"name\":\"b\",\"role\":\"parameter\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"}," \
    "{\"name\":\"scale\",\"role\":\"buffer\",\"dtype\":\"f32\",\"shape\":[],\"access\":\"read\"}," \
    BATCH_ARGUMENTS COPY_ARGUMENT "],\"results\":[" \
    "{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\",\"shape\":[],\"argument\":null}," \
    "{\"name\":\"output\",\"role\":\"output\",\"dtype\":\"f32\",\"shape\":[" TEXT(BATCH) ",2]," \
    "\"argument\":null,\"targets\":\"label\"}],\"collectives\":[]}]}"
/* clang-format on */

static inline float predict(const float *w, const float *b, const float *scale,
                            const float *x) {
  float sum = *b;
  for (int i = 0; i < DIM; ++i)
    sum += w[i] * x[i];
  return *scale * sum;
}

/* Operands: w, b, momentum, step, lr, bucket, loss, the new b. The bucket is
 * the gradient of w, that of b, and the loss. */
static inline void descend(void *const *args) {
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

/* Arguments of evaluate. */
static inline void predictBatch(void *const *args) {
  const float *x = args[E_X], *y = args[E_Y];
  float *loss = args[E_LOSS], *output = args[E_OUTPUT];
  *loss = 0;
  for (int s = 0; s < BATCH; ++s) {
    float value = predict(args[E_W], args[E_B], args[E_SCALE], x + s * DIM);
    *loss += (value - y[s]) * (value - y[s]) / BATCH;
    output[2 * s] = -value;
    output[2 * s + 1] = value;
  }
}

#endif /* TOY_H */
