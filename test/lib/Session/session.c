/*===-- session.c - each call of Session.h, from C ------------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* session <case> <program> [<second program>], in a folder of its own.       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program, *second;

static double loss(const mpcomm_result *result) {
  CHECK(result->has_loss);
  return result->loss;
}

static mpcomm_result step(mpcomm_session *session, Samples *samples) {
  mpcomm_result result = {.struct_size = sizeof(result)};
  OK(mpcomm_session_step, session, samples->arrays, 3, NULL, &result);
  return result;
}

static mpcomm_session *openLoaded(void) {
  mpcomm_session *session = openAlone();
  OK(mpcomm_session_load, session, program, NULL);
  return session;
}

/* One step, by hand, in double precision. */
static double expectedLoss(const ToyState *state, const Samples *samples) {
  double sum = 0;
  int64_t count = samples->shape_y[0];
  for (int64_t s = 0; s < count; ++s) {
    double value = state->b;
    for (int i = 0; i < DIM; ++i)
      value += (double)state->w[i] * samples->x[s * DIM + i];
    double error = state->scale * value - samples->y[s];
    sum += error * error / (double)count;
  }
  return sum;
}

static void testState(void) {
  mpcomm_session *session = openAlone();
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, session, &info);
  CHECK(info.size == 1 && info.rank == 0 && info.programs == 0 &&
        !strcmp(info.backend, "self") && !strcmp(info.device, ""));
  uint32_t number = 9, count = 9;
  FAILS(MPRT_NOT_READY, "no program", mpcomm_session_step, session, NULL, 0,
        NULL, NULL);
  OK(mpcomm_session_state_count, session, &count);
  CHECK(count == 0);
  OK(mpcomm_session_load, session, program, &number);
  OK(mpcomm_session_describe, session, &info);
  CHECK(number == 0 && info.programs == 1 && info.data_ranks == 1 &&
        !strcmp(info.device, "host"));
  const char *json = NULL;
  OK(mpcomm_session_manifest, session, 0, &json);
  CHECK(strstr(json, "\"program\":\"toy\""));

  const char *names[] = {"w", "b", "w.momentum", "step", "scale"};
  OK(mpcomm_session_state_count, session, &count);
  CHECK(count == 5);
  mpcomm_tensor tensor;
  for (uint32_t i = 0; i < count; ++i) {
    tensor.struct_size = sizeof(tensor);
    OK(mpcomm_session_state_at, session, i, &tensor);
    CHECK(!strcmp(tensor.name, names[i]) && tensor.is_local &&
          tensor.is_replicated && tensor.owner == 0 &&
          tensor.dtype == MPRT_F32 && tensor.data);
    /* Parameters and buffers without a default have to be given. */
    CHECK(tensor.needs_value == (i < 2 || i == 4));
    CHECK(tensor.is_updated == (i < 4));
  }
  FAILS(MPRT_NOT_FOUND, "tensor 5 of 5", mpcomm_session_state_at, session, 5,
        &tensor);

  Samples samples;
  makeSamples(&samples, 8, 0);
  FAILS(MPRT_NOT_READY, "'w' has no value", mpcomm_session_step, session,
        samples.arrays, 3, NULL, NULL);
  FAILS(MPRT_NOT_READY, "'w' has no value", mpcomm_session_save, session,
        "none", NULL);
  writeWeights(session);
  tensor.struct_size = sizeof(tensor);
  OK(mpcomm_session_tensor, session, "w", &tensor);
  CHECK(!tensor.needs_value && tensor.bytes == 16 && tensor.ndim == 1 &&
        tensor.shape[0] == 4 && tensor.role == MPCOMM_PARAMETER);
  /* Without a copy: what is written there is what the program reads. */
  float *w = tensor.data;
  CHECK(w[3] == 1);
  w[3] = 2;
  ToyState before = readToy(session);
  CHECK(before.w[3] == 2 && before.b == 0.75f);

  mpcomm_result result = step(session, &samples);
  /* Sums of 8 squares of at most 5 terms in f32: 40 * 2^-24 relative. */
  CHECK(fabs(loss(&result) - expectedLoss(&before, &samples)) <
        40 * 6e-8 * loss(&result));
  CHECK(result.step == 1 && !result.has_loss_scale && !result.is_skipped &&
        result.milliseconds > 0 && result.exposed_milliseconds >= 0);
  ToyState after = readToy(session);
  CHECK(after.step == 1 && after.w[0] != before.w[0]);

  /* Doubles, strides, and another integer type become what the program has. */
  double wide[2 * DIM];
  for (int i = 0; i < DIM; ++i)
    wide[2 * i] = before.w[i];
  int64_t shape[1] = {DIM}, strides[1] = {2};
  mpcomm_array array = {"w", wide, MPRT_F64, 1, shape, strides};
  OK(mpcomm_session_write, session, &array);
  CHECK(!memcmp(readToy(session).w, before.w, sizeof(before.w)));
  int32_t label[8];
  for (int i = 0; i < 8; ++i)
    label[i] = (int32_t)samples.label[i];
  samples.arrays[2].data = label;
  samples.arrays[2].dtype = MPRT_I32;
  step(session, &samples);

  mpcomm_tensor argument = {.struct_size = sizeof(argument)};
  OK(mpcomm_session_argument, session, "train_step", 8, &argument);
  CHECK(!strcmp(argument.name, "label") && argument.role == MPCOMM_BATCH &&
        argument.range_begin == 0 && argument.range_end == 2 && argument.data);
  FAILS(MPRT_NOT_FOUND, "argument 9 of 9", mpcomm_session_argument, session,
        "train_step", 9, &argument);
  FAILS(MPRT_NOT_FOUND, "no function 'fly'", mpcomm_session_argument, session,
        "fly", 0, &argument);

  OK(mpcomm_session_evaluate, session, NULL, samples.arrays, 3, &result);
  CHECK(result.has_loss && result.step == 2);
  float output[16];
  OK(mpcomm_session_read, session, "output", output, sizeof(output));
  CHECK(output[0] == -output[1]);
  OK(mpcomm_session_read_global, session, "w", after.w, sizeof(after.w));
  OK(mpcomm_session_close, session);
}

/* What is a copy of a parameter follows it, until it is written itself. */
static void testCopies(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  uint16_t copy[DIM];
  OK(mpcomm_session_read, session, "w.bf16", copy, sizeof(copy));
  /* 0.5, -0.25, 0.125 and 1. */
  const uint16_t expected[DIM] = {0x3f00, 0xbe80, 0x3e00, 0x3f80};
  CHECK(!memcmp(copy, expected, sizeof(copy)));
  int64_t shape = DIM;
  const float other[DIM] = {2, 2, 2, 2};
  mpcomm_array array = {"w.bf16", other, MPRT_F32, 1, &shape, NULL};
  OK(mpcomm_session_write, session, &array);
  OK(mpcomm_session_read, session, "w.bf16", copy, sizeof(copy));
  CHECK(copy[0] == 0x4000 && readToy(session).w[0] == 0.5f);
  OK(mpcomm_session_close, session);
}

static void testBatch(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, 0);
  mpcomm_array *a = samples.arrays;
#define STEP_FAILS(status, text, count)                                        \
  FAILS(status, text, mpcomm_session_step, session, a, count, NULL, NULL)
  STEP_FAILS(MPRT_INVALID_ARGUMENT,
             "'label' of function 'train_step' is missing", 2);
  mpcomm_array kept = a[1];
  a[1] = a[0];
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "'x' is given twice", 3);
  a[1] = kept;
  a[1].name = "w";
  STEP_FAILS(MPRT_NOT_FOUND, "no batch tensor 'w'", 3);
  a[1].name = NULL;
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "no name", 3);
  a[1] = kept;
  a[1].ndim = 2;
  a[1].shape = samples.shape_x;
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "'y' is f32 [8, 4], expected f32 [8]", 3);
  a[1] = kept;
  a[1].dtype = MPRT_I64;
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "'y' is i64 [8], expected f32 [8]", 3);
  a[1].dtype = 77;
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "77 is no mprt_dtype", 3);
  a[1] = kept;
  a[1].data = NULL;
  STEP_FAILS(MPRT_INVALID_ARGUMENT,
             "array 'y': its data is null, expected 8 values", 3);
  a[1] = kept;
  a[1].shape = NULL;
  STEP_FAILS(MPRT_INVALID_ARGUMENT,
             "array 'y': its shape is null, expected 1 size", 3);
  a[1] = kept;
  a[1].ndim = 1000;
  STEP_FAILS(MPRT_INVALID_ARGUMENT, "1000 dimensions", 3);
  a[1] = kept;
  samples.label[5] = 2;
  STEP_FAILS(MPRT_INVALID_ARGUMENT,
             "'label', element 5: 2, expected a value in [0, 2)", 3);
  samples.label[5] = 0;
  FAILS(MPRT_INVALID_ARGUMENT, "batch is null, but count is 3",
        mpcomm_session_step, session, NULL, 3, NULL, NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "batch is null, but count is 3",
        mpcomm_session_evaluate, session, NULL, NULL, 3, NULL);
  mpcomm_step_options none = {.struct_size = sizeof(none), .next_count = 3};
  FAILS(MPRT_INVALID_ARGUMENT,
        "options.next is null, but options.next_count is 3",
        mpcomm_session_step, session, a, 3, &none, NULL);
  /* None of it was a step, and the session goes on. */
  mpcomm_result result = step(session, &samples);
  CHECK(result.step == 1);

  /* Unaligned, and in the session's own memory: the same numbers. */
  ToyState first = readToy(session);
  mpcomm_session *other = openLoaded();
  writeWeights(other);
  char memory[sizeof(samples.x) + 64];
  char *odd = memory + 4;
  memcpy(odd, samples.x, 8 * DIM * 4);
  mpcomm_tensor own = {.struct_size = sizeof(own)};
  OK(mpcomm_session_argument, other, "train_step", 7, &own);
  CHECK(!strcmp(own.name, "y"));
  memcpy(own.data, samples.y, 8 * 4);
  a[0].data = odd;
  a[1].data = own.data;
  step(other, &samples);
  ToyState same = readToy(other);
  CHECK(!memcmp(&first, &same, sizeof(first)));

  /* The next batch may be given ahead. */
  Samples next;
  makeSamples(&next, 8, 100);
  makeSamples(&samples, 8, 50);
  mpcomm_step_options ahead = {sizeof(ahead), 3, next.arrays};
  OK(mpcomm_session_step, session, samples.arrays, 3, &ahead, NULL);
  OK(mpcomm_session_step, session, NULL, 0, NULL, NULL);
  step(other, &samples);
  step(other, &next);
  first = readToy(session), same = readToy(other);
  CHECK(!memcmp(&first, &same, sizeof(first)));
  FAILS(MPRT_INVALID_ARGUMENT, "is missing", mpcomm_session_step, session, NULL,
        0, NULL, NULL);
  /* What is wrong with its form is found at once, with its values later. */
  next.arrays[0].ndim = 1;
  FAILS(MPRT_INVALID_ARGUMENT, "'x' is f32 [8], expected f32 [8, 4]",
        mpcomm_session_step, session, samples.arrays, 3, &ahead, NULL);
  next.arrays[0].ndim = 2;
  next.label[0] = -1;
  OK(mpcomm_session_step, session, samples.arrays, 3, &ahead, NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "'label', element 0: -1", mpcomm_session_step,
        session, NULL, 0, NULL, NULL);
  step(session, &samples);
  OK(mpcomm_session_close, session);
  OK(mpcomm_session_close, other);
}

static void testHyperparameters(void) {
  mpcomm_session *session = openLoaded();
  double value = 0;
  OK(mpcomm_session_get, session, "lr", &value);
  CHECK(value == 0.05);
  OK(mpcomm_session_set, session, "lr", 0.25);
  OK(mpcomm_session_get, session, "lr", &value);
  CHECK(value == 0.25);
  FAILS(MPRT_NOT_FOUND, "no hyperparameter 'momentum'; there are: lr",
        mpcomm_session_set, session, "momentum", 1);
  FAILS(MPRT_INVALID_ARGUMENT, "is inf", mpcomm_session_set, session, "lr",
        1e300);
  FAILS(MPRT_INVALID_ARGUMENT, "'lr': nan", mpcomm_session_set, session, "lr",
        NAN);
  mpcomm_schedule schedule = {sizeof(schedule), MPCOMM_LINEAR, 1, 2, 6};
  OK(mpcomm_session_set_schedule, session, &schedule);
  const double expected[] = {0.5, 1, 1, 0.75, 0.5, 0.25, 0};
  for (uint64_t at = 0; at < 7; ++at) {
    OK(mpcomm_session_set_step, session, at);
    OK(mpcomm_session_get, session, "lr", &value);
    CHECK(value == expected[at]);
  }
  schedule.decay = 5;
  FAILS(MPRT_INVALID_ARGUMENT, "5 is no mpcomm_decay",
        mpcomm_session_set_schedule, session, &schedule);
  schedule.struct_size = 400;
  FAILS(MPRT_INVALID_ARGUMENT, "newer library", mpcomm_session_set_schedule,
        session, &schedule);
  OK(mpcomm_session_close, session);
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static void testFiles(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  Samples samples;
  mpcomm_schedule schedule = {sizeof(schedule), MPCOMM_COSINE, 0.1, 2, 12};
  OK(mpcomm_session_set_schedule, session, &schedule);
  OK(mpcomm_session_set_seed, session, 42);
  mpcomm_text extra = {"loader", "state of a loader"};
  mpcomm_save_options options = {.struct_size = sizeof(options),
                                 .keep = 3,
                                 .metadata_count = 1,
                                 .metadata = &extra};
  for (int k = 0; k < 6; ++k) {
    makeSamples(&samples, 8, k * 8);
    step(session, &samples);
    options.background = k % 2;
    OK(mpcomm_session_save, session, "c", &options);
  }
  OK(mpcomm_session_wait, session);
  CHECK(exists("c") && exists("c.step-5") && exists("c.step-4") &&
        !exists("c.step-3") && !exists("c.step-6"));

  /* From the step before: the same bits as without an interruption. */
  mpcomm_session *other = openLoaded();
  OK(mpcomm_session_resume, other, "c.step-5", NULL);
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, other, &info);
  CHECK(info.step == 5 && info.seed == 42);
  const char *value = NULL;
  OK(mpcomm_session_metadata, other, "loader", &value);
  CHECK(!strcmp(value, "state of a loader"));
  FAILS(MPRT_NOT_FOUND, "no metadata 'x'", mpcomm_session_metadata, other, "x",
        &value);
  double mine = 0, its = 0;
  step(other, &samples);
  OK(mpcomm_session_get, session, "lr", &mine);
  OK(mpcomm_session_get, other, "lr", &its);
  CHECK(mine == its && mine > 0 && mine < 0.1);
  ToyState one = readToy(session), two = readToy(other);
  CHECK(!memcmp(&one, &two, sizeof(one)));

  /* Weights alone, and bad files: nothing changes. */
  mpcomm_save_options weights = {.struct_size = sizeof(weights),
                                 .weights_only = 1};
  OK(mpcomm_session_save, session, "w", &weights);
  mpcomm_session *third = openLoaded();
  FAILS(MPRT_NOT_FOUND, "cannot open", mpcomm_session_read_state, third,
        "not there");
  FAILS(MPRT_INVALID_ARGUMENT, "", mpcomm_session_resume, third, "w", NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "", mpcomm_session_read_state, third, program);
  FAILS(MPRT_NOT_READY, "has no value", mpcomm_session_step, third,
        samples.arrays, 3, NULL, NULL);
  OK(mpcomm_session_read_state, third, "w");
  OK(mpcomm_session_describe, third, &info);
  CHECK(info.step == 0 && readToy(third).w[0] == one.w[0] &&
        readToy(third).momentum[0] == 0);

  FAILS(MPRT_INVALID_ARGUMENT, "'mpcomm.step' is a key of the session's",
        mpcomm_session_save, session, "c",
        (extra.key = "mpcomm.step", &options));
  FAILS(MPRT_UNSUPPORTED, "background", mpcomm_session_save, session, "w",
        (weights.background = 1, &weights));
  FAILS(MPRT_IO_ERROR, "", mpcomm_session_save, session, "no/folder/c", NULL);
  mpcomm_save_options later = {.struct_size = sizeof(later), .background = 1};
  CHECK(!mkdir("folder", 0777));
  OK(mpcomm_session_save, session, "folder/c", &later);
  OK(mpcomm_session_wait, session);
  /* Nobody else writes there, under whatever name. */
  FAILS(MPRT_INVALID_ARGUMENT, "another run writes to it", mpcomm_session_save,
        other, "./folder/../folder/c", NULL);
  CHECK(!rename("folder", "away"));
  OK(mpcomm_session_save, session, "folder/c", &later);
  FAILS(MPRT_IO_ERROR, "folder/c", mpcomm_session_wait, session);
  OK(mpcomm_session_wait, session);
  OK(mpcomm_session_save, session, "folder/c", &later);
  /* The error of the last one, whoever asks first. */
  FAILS(MPRT_IO_ERROR, "folder/c", mpcomm_session_close, session);
  /* NaN is kept out, unless it is asked for. */
  float bad[DIM] = {0, NAN, 0, 0};
  writeFloats(third, "w", 1, DIM, bad);
  FAILS(MPRT_INVALID_ARGUMENT, "1 of 4 elements is not finite",
        mpcomm_session_save, third, "nan", NULL);
  CHECK(!exists("nan"));
  mpcomm_save_options any = {.struct_size = sizeof(any), .allow_nonfinite = 1};
  OK(mpcomm_session_save, third, "nan", &any);
  CHECK(exists("nan"));
  OK(mpcomm_session_close, other);
  OK(mpcomm_session_close, third);
}

static uint64_t stepOf(const char *path) {
  mpcomm_session *session = openLoaded();
  OK(mpcomm_session_resume, session, path, NULL);
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, session, &info);
  OK(mpcomm_session_close, session);
  return info.step;
}

/* Checkpoints at one path are kept whatever happens in between: another
 * number, another spelling, another program, a resumption. */
static void testKept(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  mpcomm_save_options options = {.struct_size = sizeof(options), .keep = 3};
  for (uint64_t k = 1; k <= 9; ++k) {
    OK(mpcomm_session_set_step, session, k);
    if (k == 4)
      OK(mpcomm_session_load, session, program, NULL);
    if (k == 9)
      OK(mpcomm_session_resume, session, "c.step-6", NULL);
    if (k == 9)
      OK(mpcomm_session_set_step, session, 9);
    options.keep = k < 6 ? 3 : 2 + (k > 6);
    OK(mpcomm_session_save, session, k % 2 ? "c" : "./c", &options);
    if (k == 4)
      CHECK(stepOf("c.step-2") == 2 && stepOf("c.step-3") == 3);
    if (k == 6)
      CHECK(stepOf("c.step-5") == 5 && !exists("c.step-4"));
  }
  /* That of step 8 is of the way that was left. */
  CHECK(stepOf("c") == 9 && stepOf("c.step-6") == 6 && !exists("c.step-8"));
  OK(mpcomm_session_close, session);
}

typedef struct {
  mpcomm_session *session;
  int kinds[16], inner;
} Heard;

static void hear(void *user, const mpcomm_event *event) {
  Heard *heard = user;
  ++heard->kinds[event->kind];
  heard->inner = mpcomm_session_set_seed(heard->session, 1, NULL);
}

static void testEvents(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, 0);
  step(session, &samples);
  mpcomm_event events[4];
  uint32_t taken = 0;
  uint64_t dropped = 7;
  OK(mpcomm_session_events, session, events, 4, &taken, &dropped);
  CHECK(taken == 2 && dropped == 0 && events[0].kind == MPCOMM_EVENT_LOADED &&
        !strcmp(events[0].text, program));
  CHECK(events[1].kind == MPCOMM_EVENT_STEP && events[1].step == 1 &&
        events[1].value > 0 && events[1].milliseconds > 0 &&
        events[1].time_nanoseconds > events[0].time_nanoseconds);
  Heard heard = {.session = session};
  OK(mpcomm_session_on_event, session, hear, &heard);
  step(session, &samples);
  mpcomm_save_options background = {.struct_size = sizeof(background),
                                    .background = 1};
  OK(mpcomm_session_save, session, "e", &background);
  OK(mpcomm_session_wait, session);
  CHECK(heard.kinds[MPCOMM_EVENT_STEP] == 1 &&
        heard.kinds[MPCOMM_EVENT_SNAPSHOT] == 1 &&
        heard.kinds[MPCOMM_EVENT_SAVED] == 1);
  CHECK(heard.inner == MPRT_NOT_READY);
  OK(mpcomm_session_on_event, session, NULL, NULL);
  for (int i = 0; i < 1030; ++i)
    step(session, &samples);
  OK(mpcomm_session_events, session, events, 1, &taken, &dropped);
  CHECK(taken == 1 && dropped == 6 && events[0].step == 9);
  OK(mpcomm_session_close, session);
}

static void testSwitch(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  Samples small, large;
  makeSamples(&small, 8, 0);
  makeSamples(&large, 16, 0);
  step(session, &small);
  uint32_t number = 0;
  OK(mpcomm_session_load, session, second, &number);
  CHECK(number == 1);
  ToyState before = readToy(session);
  FAILS(MPRT_INVALID_ARGUMENT, "[16, 4], expected f32 [8, 4]",
        mpcomm_session_step, session, large.arrays, 3, NULL, NULL);
  OK(mpcomm_session_switch, session, 1);
  ToyState after = readToy(session);
  CHECK(!memcmp(&before, &after, sizeof(before)));
  mpcomm_result result = step(session, &large);
  CHECK(result.step == 2 && readToy(session).step == 2);
  OK(mpcomm_session_switch, session, 0);
  step(session, &small);
  FAILS(MPRT_INVALID_ARGUMENT, "program 2, expected one of 2",
        mpcomm_session_switch, session, 2);
  OK(mpcomm_session_save, session, "s", NULL);
  OK(mpcomm_session_close, session);
}

static void testAdapt(void) {
  mpcomm_session *session = openLoaded();
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, 0);
  const char *json = NULL;
  FAILS(MPRT_NOT_READY, "does not adapt", mpcomm_session_network, session,
        &json);
  mpcomm_adapt_options options = {.struct_size = sizeof(options), .every = 2};
  OK(mpcomm_session_adapt, session, &options);
  step(session, &samples);
  FAILS(MPRT_NOT_READY, "no review yet", mpcomm_session_network, session,
        &json);
  FAILS(MPRT_INVALID_ARGUMENT, "json is null", mpcomm_session_network, session,
        NULL);
  step(session, &samples);
  OK(mpcomm_session_network, session, &json);
  CHECK(strstr(json, "\"step\":2") && strstr(json, "\"ranks\":[{\"rank\":0,"));
  /* A program that was written by hand has no forecast. */
  CHECK(strstr(json, "\"plans\":[]") && strstr(json, "\"bandwidth\":null"));
  options.numerics = "f32";
  FAILS(MPRT_INVALID_ARGUMENT, "numerics 'f32', expected one of exact",
        mpcomm_session_adapt, session, &options);
  options.numerics = "i8";
  options.gain = 1;
  FAILS(MPRT_INVALID_ARGUMENT, "a gain of 1", mpcomm_session_adapt, session,
        &options);
  options.gain = 0;
  options.reserved[1] = 1;
  FAILS(MPRT_UNSUPPORTED, "a reserved field is not 0", mpcomm_session_adapt,
        session, &options);
  OK(mpcomm_session_adapt, session, NULL);
  FAILS(MPRT_NOT_READY, "does not adapt", mpcomm_session_network, session,
        &json);
  OK(mpcomm_session_close, session);
}

/* What has elements is somewhere; what has none need not be. */
static void testNullRanges(mpcomm_session *session) {
#define NULL_FAILS(text, ...) FAILS(MPRT_INVALID_ARGUMENT, text, __VA_ARGS__)
  uint32_t count = 9;
  char byte = 0;
  NULL_FAILS("all is null", mpcomm_session_gather, session, &byte, NULL, 1);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  NULL_FAILS("data is null, expected room for the 16 bytes of tensor 'w'",
             mpcomm_session_read, session, "w", NULL, 16);
  NULL_FAILS("data is null, expected room for the 16 bytes of tensor 'w'",
             mpcomm_session_read_global, session, "w", NULL, 16);
  mpcomm_array array = {.name = "w", .dtype = MPRT_F32, .ndim = 1};
  NULL_FAILS("array 'w': its shape is null, expected 1 size",
             mpcomm_session_write, session, &array);
  const int64_t shape = DIM;
  array.shape = &shape;
  NULL_FAILS("array 'w': its data is null, expected 4 values",
             mpcomm_session_write, session, &array);
  NULL_FAILS("events is null, but capacity is 2", mpcomm_session_events,
             session, NULL, 2, &count, NULL);
  NULL_FAILS("taken is null", mpcomm_session_events, session, NULL, 0, NULL,
             NULL);
  OK(mpcomm_session_events, session, NULL, 0, &count, NULL);
  NULL_FAILS("events is null, but capacity is 2", mpcomm_session_trace, session,
             NULL, 2, &count, NULL);
  NULL_FAILS("entries is null, but capacity is 2", mpcomm_session_flight,
             session, NULL, 2, &count);
  mpcomm_save_options options = {.struct_size = sizeof(options),
                                 .metadata_count = 1};
  NULL_FAILS("options.metadata is null, but options.metadata_count is 1",
             mpcomm_session_save, session, "none", &options);
  mpcomm_text text = {"key", NULL};
  options.metadata = &text;
  NULL_FAILS("metadata, entry 0: its key or its value is null",
             mpcomm_session_save, session, "none", &options);
  CHECK(!exists("none"));
}

static void testErrors(void) {
  mpcomm_session *session = NULL;
  mpcomm_session_options options = {.struct_size = sizeof(options)};
  FAILS(MPRT_INVALID_ARGUMENT, "session is null", mpcomm_session_open, &options,
        NULL);
#define OPEN_FAILS(text)                                                       \
  FAILS(MPRT_INVALID_ARGUMENT, text, mpcomm_session_open, &options, &session); \
  CHECK(!session)
  options.comm = "pigeon";
  OPEN_FAILS("comm 'pigeon'");
  options.comm = "shm";
  OPEN_FAILS("without mpcomm_ranks");
  options.comm = NULL;
  options.device = "abacus";
  OPEN_FAILS("device 'abacus'");
  options.device = NULL;
  options.timeout_seconds = -1;
  OPEN_FAILS("a timeout of -1");
  options.timeout_seconds = 0;
  options.size = 2;
  OPEN_FAILS("needs an address");
  options.rank = 2;
  options.address = "127.0.0.1:1";
  OPEN_FAILS("rank 2 of 2");
  options.rank = 0;
  options.address = "here";
  OPEN_FAILS("expected an address host:port");
  options.struct_size = 0;
  OPEN_FAILS("struct_size of 0");
  mpcomm_ranks *ranks = NULL;
  FAILS(MPRT_INVALID_ARGUMENT, "1 to 1024", mpcomm_ranks_create, 0, &ranks);
  FAILS(MPRT_INVALID_ARGUMENT, "ranks is null", mpcomm_ranks_create, 1, NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "session is null", mpcomm_session_load, NULL,
        program, NULL);
  CHECK(mpcomm_session_close(NULL, NULL) == MPRT_OK);
  CHECK(mpcomm_session_abi() == MPCOMM_SESSION_ABI);
  CHECK(!strcmp(mpcomm_status_name(MPRT_NOT_FOUND), "MPRT_NOT_FOUND"));
  CHECK(mpcomm_status_name(-5) && mpcomm_session_version());

  session = openAlone();
  FAILS(MPRT_NOT_FOUND, "cannot open", mpcomm_session_load, session, "nothing",
        NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "", mpcomm_session_load, session, "/dev/null",
        NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "path is null", mpcomm_session_load, session,
        NULL, NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "compiled for 2 ranks", mpcomm_session_load,
        session, second, NULL);
  OK(mpcomm_session_load, session, program, NULL);
  char byte = 0, all = 0;
  OK(mpcomm_session_gather, session, &byte, &all, 1);
  FAILS(MPRT_INVALID_ARGUMENT, "mine is null", mpcomm_session_gather, session,
        NULL, &all, 1);
  FAILS(MPRT_INVALID_ARGUMENT, "16 bytes, found room for 3",
        (writeWeights(session), mpcomm_session_read), session, "w", &all, 3);
  FAILS(MPRT_NOT_FOUND, "no tensor 'v'", mpcomm_session_read, session, "v",
        &all, 1);
  testNullRanges(session);
  OK(mpcomm_session_abort, session, "enough");
  FAILS(MPRT_PEER_FAILED, "enough", mpcomm_session_step, session, NULL, 0, NULL,
        NULL);
  float w[DIM];
  OK(mpcomm_session_read, session, "w", w, sizeof(w));
  OK(mpcomm_session_close, session);
}

/* Ranks, each in a thread or a process. */
typedef struct {
  mpcomm_ranks *ranks;
  const char *address;
  uint32_t rank, size;
  ToyState state;
} Place;

static void liveAsRank(Place *place) {
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .rank = place->rank,
                                    .size = place->size,
                                    .ranks = place->ranks,
                                    .address = place->address,
                                    .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  OK(mpcomm_session_load, session, program, NULL);
  writeWeights(session);
  Samples samples;
  for (int k = 0; k < 10; ++k) {
    makeSamples(&samples, 8, (int)(k * 8 * place->size + place->rank * 8));
    step(session, &samples);
  }
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, session, &info);
  CHECK(info.rank == place->rank && info.size == place->size &&
        info.data_ranks == place->size && info.data_rank == place->rank);
  uint32_t all[8];
  OK(mpcomm_session_gather, session, &place->rank, all, 4);
  CHECK(all[0] == 0 && all[place->size - 1] == place->size - 1);
  mpcomm_save_options options2 = {.struct_size = sizeof(options2),
                                  .background = 1};
  OK(mpcomm_session_save, session, "ranks", &options2);
  OK(mpcomm_session_wait, session);
  OK(mpcomm_session_gather, session, &place->rank, all, 4);
  /* A mistake of one rank is an error of all, and of none for good. */
  mpcomm_error error;
  mprt_status status = mpcomm_session_resume(
      session, place->rank == 0 ? "nothing" : "ranks", NULL, &error);
  CHECK(status != MPRT_OK &&
        strstr(error.message,
               place->rank == 0 ? "cannot open" : "rank 0 has an error"));
  CHECK(error.rank == 0);
  OK(mpcomm_session_resume, session, "ranks", NULL);
  place->state = readToy(session);
  /* What ranks should have equal is compared. */
  if (place->rank == 1) {
    float b = 5;
    writeFloats(session, "b", 0, 1, &b);
  }
  status = mpcomm_session_save(session, "ranks", NULL, &error);
  CHECK(status != MPRT_OK || place->size == 1);
  CHECK(place->rank || place->size == 1 ||
        strstr(error.message, "'b' is not the same on ranks 0 and 1"));
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_close, session);
}

static void *threadMain(void *place) {
  liveAsRank(place);
  return NULL;
}

static void testThreads(void) {
  mpcomm_ranks *ranks = NULL;
  OK(mpcomm_ranks_create, 2, &ranks);
  Place places[2];
  pthread_t threads[2];
  for (uint32_t r = 0; r < 2; ++r) {
    places[r] = (Place){.ranks = ranks, .rank = r, .size = 2};
    CHECK(!pthread_create(&threads[r], NULL, threadMain, &places[r]));
  }
  for (int r = 0; r < 2; ++r)
    pthread_join(threads[r], NULL);
  CHECK(!memcmp(&places[0].state, &places[1].state, sizeof(ToyState)));
  CHECK(places[0].state.step == 10);
  mpcomm_ranks_destroy(ranks);
}

static void testProcesses(void) {
  mpcomm_ranks *ranks = NULL;
  if (!second)
    OK(mpcomm_ranks_create, 2, &ranks);
  pid_t children[2];
  for (uint32_t r = 0; r < 2; ++r)
    if ((children[r] = fork()) == 0) {
      Place place = {.ranks = ranks, .address = second, .rank = r, .size = 2};
      liveAsRank(&place);
      _exit(0);
    }
  for (int r = 0; r < 2; ++r) {
    int status = 1;
    waitpid(children[r], &status, 0);
    CHECK(status == 0);
  }
  mpcomm_ranks_destroy(ranks);
}

/* As a launcher's environment says; `second` may name what carries messages. */
static void testLaunched(void) {
  mpcomm_session *session = NULL;
  mpcomm_session_options options = {
      .struct_size = sizeof(options), .comm = second, .timeout_seconds = 60};
  OK(mpcomm_session_open, second ? &options : NULL, &session);
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, session, &info);
  OK(mpcomm_session_load, session, program, NULL);
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, (int)(info.rank * 8));
  mpcomm_result result = step(session, &samples);
  OK(mpcomm_session_describe, session, &info);
  printf("rank %u of %u over %s on %s: loss %.6f\n", info.rank, info.size,
         info.backend, info.device, result.loss);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_close, session);
}

/* A rank that dies or goes wrong is told to the other. */
static void testDeathOf(uint32_t dead) {
  mpcomm_ranks *ranks = NULL;
  if (!second)
    OK(mpcomm_ranks_create, 2, &ranks);
  int stepped[2];
  CHECK(!pipe(stepped));
  pid_t child = fork();
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .rank = child == 0 ? dead : 1 - dead,
                                    .size = 2,
                                    .ranks = ranks,
                                    .address = second,
                                    .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  OK(mpcomm_session_load, session, program, NULL);
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, 0);
  step(session, &samples);
  char byte = 0;
  if (child == 0) {
    /* That it is gone may be known before what it has sent, and the other's
     * first step is to succeed. */
    close(stepped[1]);
    _exit(read(stepped[0], &byte, 1) != 1);
  }
  CHECK(write(stepped[1], &byte, 1) == 1);
  close(stepped[0]);
  close(stepped[1]);
  mpcomm_error error = {0};
  CHECK(mpcomm_session_step(session, samples.arrays, 3, NULL, NULL, &error) ==
        MPRT_PEER_FAILED);
  CHECK(error.rank == (int32_t)dead && strstr(error.message, "gradients"));
  CHECK(!strcmp(error.location, "toy.mlir:7:3"));
  FAILS(MPRT_PEER_FAILED, "gradients", mpcomm_session_save, session, "p", NULL);
  CHECK(!exists("p"));
  CHECK(readToy(session).step == 1);
  OK(mpcomm_session_close, session);
  waitpid(child, NULL, 0);
  mpcomm_ranks_destroy(ranks);
}

/* A device fails on one of two ranks, as the environment says, in whatever call
 * of the session: both ranks fail, if not in that call then in the next. Prints
 * which call it was. */
static void testDeviceFails(void) {
  mpcomm_session_options options = {
      .struct_size = sizeof(options), .comm = "gloo", .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  mpcomm_error error = {0};
  OK(mpcomm_session_open, &options, &session);
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_describe, session, &info);
  const char *call = "load";
  mprt_status status = mpcomm_session_load(session, program, NULL, &error);
  int isLoaded = status == MPRT_OK;
  Samples samples;
  makeSamples(&samples, 8, (int)(info.rank * 8));
  float w[DIM] = {0}, b = 0, scale = 1;
  int64_t dim = DIM;
  mpcomm_array arrays[] = {{"w", w, MPRT_F32, 1, &dim, NULL},
                           {"b", &b, MPRT_F32, 0, NULL, NULL},
                           {"scale", &scale, MPRT_F32, 0, NULL, NULL}};
  for (int i = 0; i < 3 && !status; ++i) {
    call = "write";
    status = mpcomm_session_write(session, &arrays[i], &error);
  }
  mpcomm_step_options ahead = {
      .struct_size = sizeof(ahead), .next = samples.arrays, .next_count = 3};
  for (int i = 0; i < 3 && !status; ++i) {
    call = "step";
    status =
        mpcomm_session_step(session, i == 1 ? NULL : samples.arrays,
                            i == 1 ? 0 : 3, i ? NULL : &ahead, NULL, &error);
  }
  if (!status) {
    call = "read_global";
    status = mpcomm_session_read_global(session, "w", w, sizeof(w), &error);
  }
  if (!status) {
    call = "save";
    status = mpcomm_session_save(session, "d", NULL, &error);
  }
  if (!status) {
    call = "resume";
    status = mpcomm_session_resume(session, "d", NULL, &error);
  }
  printf("%s %s %d\n", status ? call : "none", mpcomm_status_name(status),
         status ? error.rank : 1);
  /* It does not become well again. */
  if (status && isLoaded) {
    mpcomm_error again = {0};
    CHECK(mpcomm_session_save(session, "d", NULL, &again) == status);
    CHECK(!strcmp(error.message, again.message) && error.rank == again.rank);
    /* The other is not to learn of it because this one leaves. */
    fflush(stdout);
    getchar();
  }
  mpcomm_session_close(session, NULL);
}

static void testPeerFails(void) {
  testDeathOf(1);
  testDeathOf(0);
}

/* Eight threads, each with a world of its own. */
static void *ownWorld(void *argument) {
  Place *place = argument;
  for (int round = 0; round < 5; ++round) {
    mpcomm_session *session = openLoaded();
    writeWeights(session);
    Samples samples;
    for (int k = 0; k < 200; ++k) {
      makeSamples(&samples, 8, k * 8);
      step(session, &samples);
    }
    char path[32];
    snprintf(path, sizeof(path), "world-%u", place->rank);
    mpcomm_save_options background = {.struct_size = sizeof(background),
                                      .background = 1};
    OK(mpcomm_session_save, session, path, &background);
    place->state = readToy(session);
    OK(mpcomm_session_close, session);
  }
  return NULL;
}

static void testWorlds(void) {
  Place places[8] = {{0}};
  pthread_t threads[8];
  for (uint32_t t = 0; t < 8; ++t) {
    places[t].rank = t;
    CHECK(!pthread_create(&threads[t], NULL, ownWorld, &places[t]));
  }
  for (int t = 0; t < 8; ++t)
    pthread_join(threads[t], NULL);
  for (int t = 1; t < 8; ++t)
    CHECK(!memcmp(&places[0].state, &places[t].state, sizeof(ToyState)));
}

/* Goes on from the checkpoint "c", if there is one, to step `last`, with a
 * checkpoint in the background after each second step. Tells each that is
 * complete. */
static void trainTo(mpcomm_session *session, uint64_t last) {
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_session_load, session, program, NULL);
  if (exists("c"))
    OK(mpcomm_session_resume, session, "c", NULL);
  else
    writeWeights(session);
  OK(mpcomm_session_describe, session, &info);
  Samples samples;
  mpcomm_save_options options = {
      .struct_size = sizeof(options), .background = 1, .keep = 2};
  for (uint64_t at = info.step; at < last; ++at) {
    makeSamples(&samples, 8, (int)(at * 8 % 5000 + info.rank * 7));
    step(session, &samples);
    if (at % 2)
      OK(mpcomm_session_save, session, "c", &options);
    mpcomm_event events[8];
    uint32_t taken = 0;
    OK(mpcomm_session_events, session, events, 8, &taken, NULL);
    for (uint32_t i = 0; i < taken; ++i)
      if (events[i].kind == MPCOMM_EVENT_SAVED) {
        /* A save tells what was written before it. */
        printf("saved before step %d\n", (int)at + 1);
        fflush(stdout);
      }
  }
}

static void printToy(mpcomm_session *session) {
  ToyState state = readToy(session);
  printf("step %d:", (int)state.step);
  for (size_t i = 0; i < sizeof(state); ++i)
    printf("%02x", ((unsigned char *)&state)[i]);
  puts("");
}

static void testUntil(void) {
  mpcomm_session *session = openAlone();
  trainTo(session, strtoull(second, NULL, 10));
  printToy(session);
  OK(mpcomm_session_close, session);
}

/* Two ranks and their files: what is resumed is the checkpoint that was being
 * written, and one file. */
static void testFilesOfTwo(void) {
  mpcomm_ranks *ranks = NULL;
  OK(mpcomm_ranks_create, 2, &ranks);
  uint32_t rank = fork() == 0;
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .rank = rank,
                                    .ranks = ranks,
                                    .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  OK(mpcomm_session_load, session, program, NULL);
  writeWeights(session);
  mpcomm_save_options later = {.struct_size = sizeof(later), .background = 1};
  mpcomm_session_info info = {.struct_size = sizeof(info)};
  for (uint64_t k = 1; k <= 8; ++k) {
    OK(mpcomm_session_set_step, session, k);
    OK(mpcomm_session_save, session, "c", k % 2 ? NULL : &later);
    OK(mpcomm_session_resume, session, "c", NULL);
    OK(mpcomm_session_describe, session, &info);
    CHECK(info.step == k);
  }
  OK(mpcomm_session_set_step, session, 9);
  OK(mpcomm_session_save, session, "d", NULL);
  FAILS(MPRT_INVALID_ARGUMENT, "rank 1 reads another file than rank 0",
        mpcomm_session_resume, session, rank ? "c" : "d", NULL);
  OK(mpcomm_session_set_step, session, 10 + rank);
  FAILS(MPRT_INVALID_ARGUMENT,
        "rank 1 saves after step 11, rank 0 after step 10", mpcomm_session_save,
        session, "c", NULL);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  /* What rank 1 cannot write, rank 0 does not wait for. */
  if (rank == 0)
    CHECK(!mkdir("folder", 0777));
  OK(mpcomm_session_set_step, session, 12);
  OK(mpcomm_session_save, session, "folder/c", NULL);
  if (rank == 0)
    CHECK(!rename("folder", "away"));
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_save, session, "folder/c", &later);
  /* A rank that has nothing to write has nothing to wait for. */
  if (rank == 0 || second)
    FAILS(MPRT_IO_ERROR, "folder/c", mpcomm_session_wait, session);
  else
    OK(mpcomm_session_wait, session);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_close, session);
  mpcomm_ranks_destroy(ranks);
  if (rank)
    _exit(0);
  int status = 1;
  wait(&status);
  CHECK(status == 0);
}

/* The same on two ranks. */
static void testUntilByTwo(void) {
  mpcomm_ranks *ranks = NULL;
  OK(mpcomm_ranks_create, 2, &ranks);
  uint32_t rank = fork() == 0;
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .rank = rank,
                                    .ranks = ranks,
                                    .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  trainTo(session, strtoull(second, NULL, 10));
  if (rank == 0)
    printToy(session);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_close, session);
  mpcomm_ranks_destroy(ranks);
  if (rank)
    _exit(0);
  int status = 1;
  wait(&status);
  CHECK(status == 0);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"state", testState},
               {"batch", testBatch},
               {"copies", testCopies},
               {"hyperparameters", testHyperparameters},
               {"files", testFiles},
               {"files-of-two", testFilesOfTwo},
               {"kept", testKept},
               {"events", testEvents},
               {"switch", testSwitch},
               {"adapt", testAdapt},
               {"errors", testErrors},
               {"threads", testThreads},
               {"processes", testProcesses},
               {"launched", testLaunched},
               {"peer-fails", testPeerFails},
               {"device-fails", testDeviceFails},
               {"worlds", testWorlds},
               {"until", testUntil},
               {"until-by-two", testUntilByTwo}};
  CHECK(argc >= 3);
  program = argv[2];
  second = argc > 3 ? argv[3] : NULL;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (!strcmp(argv[1], cases[i].name)) {
      cases[i].run();
      return 0;
    }
  fprintf(stderr, "no case %s\n", argv[1]);
  return 2;
}
