/*===-- check.h - what the C programs on Session.h share ------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* Macros that end the program at what is not as expected, and the batch of   *|
|* the toy program (test/Runtime/run/Inputs/toy.h). *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef CHECK_H
#define CHECK_H

#include "mpcomm/Runtime/Session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);  \
      abort();                                                                 \
    }                                                                          \
  } while (0)

/* A call, without its last argument, that succeeds. */
#define OK(call, ...)                                                          \
  do {                                                                         \
    mpcomm_error error_;                                                       \
    memset(&error_, 0, sizeof(error_));                                        \
    if (call(__VA_ARGS__, &error_) != MPRT_OK) {                               \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,        \
              mpcomm_status_name(error_.code), error_.message);                \
      abort();                                                                 \
    }                                                                          \
  } while (0)

/* One that fails with `status`, and a message that has `text` in it. */
#define FAILS(status, text, call, ...)                                         \
  do {                                                                         \
    mpcomm_error error_;                                                       \
    memset(&error_, 0, sizeof(error_));                                        \
    mprt_status found_ = call(__VA_ARGS__, &error_);                           \
    if (found_ != (status) || error_.code != (int32_t)found_ ||                \
        !strstr(error_.message, text)) {                                       \
      fprintf(stderr, "%s:%d: %s: expected %s with '%s', found %s: %s\n",      \
              __FILE__, __LINE__, #call, mpcomm_status_name(status), text,     \
              mpcomm_status_name(found_), error_.message);                     \
      abort();                                                                 \
    }                                                                          \
  } while (0)

#define DIM 4
#define MAX_BATCH 32

/* `count` samples of y = 2a - b + c/2 + 3d + 1/4, from sample `first` on. */
typedef struct {
  _Alignas(64) float x[MAX_BATCH * DIM];
  _Alignas(64) float y[MAX_BATCH];
  _Alignas(64) int64_t label[MAX_BATCH];
  int64_t shape_x[2], shape_y[1];
  mpcomm_array arrays[3];
} Samples;

static inline void makeSamples(Samples *samples, int64_t count, int first) {
  for (int s = 0; s < count; ++s) {
    float *x = samples->x + s * DIM;
    for (int i = 0; i < DIM; ++i)
      x[i] = (float)((((first + s) * 7 + i * 13) * 29) % 41 - 20) / 20;
    samples->y[s] = 2 * x[0] - x[1] + x[2] / 2 + 3 * x[3] + 0.25f;
    samples->label[s] = samples->y[s] > 0;
  }
  samples->shape_x[0] = samples->shape_y[0] = count;
  samples->shape_x[1] = DIM;
  mpcomm_array x = {"x", samples->x, MPRT_F32, 2, samples->shape_x, NULL};
  mpcomm_array y = {"y", samples->y, MPRT_F32, 1, samples->shape_y, NULL};
  mpcomm_array label = {"label", samples->label,   MPRT_I64,
                        1,       samples->shape_y, NULL};
  samples->arrays[0] = x;
  samples->arrays[1] = y;
  samples->arrays[2] = label;
}

static inline void writeFloats(mpcomm_session *session, const char *name,
                               uint32_t ndim, int64_t count,
                               const float *values) {
  mpcomm_array array = {name, values, MPRT_F32, ndim, &count, NULL};
  OK(mpcomm_session_write, session, &array);
}

/* Gives the toy program its weights. */
static inline void writeWeights(mpcomm_session *session) {
  const float w[DIM] = {0.5f, -0.25f, 0.125f, 1}, b = 0.75f, scale = 1;
  writeFloats(session, "w", 1, DIM, w);
  writeFloats(session, "b", 0, 1, &b);
  writeFloats(session, "scale", 0, 1, &scale);
}

static inline mpcomm_session *openAlone(void) {
  mpcomm_session_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.comm = "self";
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  return session;
}

/* All state of the toy program. */
typedef struct {
  float w[DIM], momentum[DIM + 1], step, scale, b;
} ToyState;

static inline ToyState readToy(mpcomm_session *session) {
  ToyState state;
  OK(mpcomm_session_read, session, "w", state.w, sizeof(state.w));
  OK(mpcomm_session_read, session, "w.momentum", state.momentum,
     sizeof(state.momentum));
  OK(mpcomm_session_read, session, "step", &state.step, 4);
  OK(mpcomm_session_read, session, "scale", &state.scale, 4);
  OK(mpcomm_session_read, session, "b", &state.b, 4);
  return state;
}

#endif /* CHECK_H */
