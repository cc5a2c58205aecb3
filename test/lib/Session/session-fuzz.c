/*===-- session-fuzz.c - random sequences of calls ------------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* session-fuzz <sequences> <first seed> <program> <another program>, in a    *|
|* folder of its own. Each sequence opens a session, calls what comes, with   *|
|* arguments that are right, wrong, null and damaged, and closes it. Whatever *|
|* is called: nothing crashes, a failure has a code and a message, a success  *|
|* leaves the error alone, and at the end no file and no memory is left open. *|
|* A sequence is a function of its seed, which a failure names.               *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

static uint64_t state, seed;
static const char *programs[2];
static uint64_t successes, failures;

static uint64_t next(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint32_t below(uint32_t limit) { return (uint32_t)(next() % limit); }

static int oneIn(uint32_t n) { return below(n) == 0; }

#define PICK(array) ((array)[below(sizeof(array) / sizeof((array)[0]))])

static const char *anyName(void) {
  static const char *const names[] = {
      "w", "b",     "w",    "b",      "w.momentum", "step",   "scale",   "lr",
      "x", "label", "loss", "output", "",           "nobody", "w\xff\n", NULL};
  return PICK(names);
}

static const char *anyPath(void) {
  static const char *const paths[] = {
      "a",           "a",         "a.step-1", "b",  "c", "",
      "no/folder/x", "/dev/null", "text",     NULL, "."};
  return oneIn(12) ? programs[0] : PICK(paths);
}

static uint32_t anySize(size_t size) {
  const uint32_t sizes[] = {0, 1, 4, 8, (uint32_t)size + 8, ~0u};
  return oneIn(10) ? PICK(sizes) : (uint32_t)size;
}

static double anyNumber(void) {
  static const double numbers[] = {0,   0.05, 1e-3, 1,        -1,   1e300,
                                   NAN, 0.01, 0.02, INFINITY, 1e-40};
  return PICK(numbers);
}

/* Makes an array wrong in some way. */
static void damage(mpcomm_array *array) {
  static const int64_t shape[] = {8, 4, -1, 0, INT64_MAX};
  switch (below(7)) {
  case 0:
    array->name = anyName();
    break;
  case 1:
    array->dtype = (int32_t)below(20) - 4;
    break;
  case 2:
    array->ndim = oneIn(2) ? below(4) : (uint32_t)next();
    if (array->ndim > 5 && array->ndim <= 32)
      array->ndim = 33;
    array->shape = shape;
    break;
  case 3:
    array->shape = NULL;
    break;
  case 4:
    array->data = NULL;
    break;
  case 5:
    array->data = (const char *)array->data + 4;
    break;
  default:
    array->shape = shape + below(3);
  }
}

static Samples *anySamples(void) {
  static Samples samples;
  makeSamples(&samples, oneIn(6) ? 16 : 8, (int)below(1000));
  if (oneIn(8))
    samples.label[below(8)] = (int64_t)below(5) - 1;
  if (oneIn(8))
    samples.x[below(8)] = (float)anyNumber();
  if (oneIn(5))
    damage(&samples.arrays[below(3)]);
  return &samples;
}

static mprt_status callOne(mpcomm_session *session, mpcomm_error *error);

static void onEvent(void *user, const mpcomm_event *event) {
  CHECK(event->kind >= 0 && event->kind <= MPCOMM_EVENT_NETWORK);
  CHECK(memchr(event->text, 0, sizeof(event->text)));
  if (oneIn(4) && mpcomm_session_wait(user, NULL) != MPRT_NOT_READY)
    abort();
}

static mprt_status stepOrEvaluate(mpcomm_session *session,
                                  mpcomm_error *error) {
  Samples *samples = anySamples();
  mpcomm_result result = {.struct_size = anySize(sizeof(result))};
  static Samples nextSamples;
  makeSamples(&nextSamples, 8, 3);
  mpcomm_step_options options = {anySize(sizeof(options)), 3,
                                 nextSamples.arrays};
  if (oneIn(10))
    damage(&nextSamples.arrays[0]);
  static const char *const functions[] = {NULL, "evaluate", "train_step",
                                          "nothing"};
  uint32_t count = oneIn(10) ? below(3) : 3;
  const mpcomm_array *batch = oneIn(12) ? NULL : samples->arrays;
  mpcomm_result *where = oneIn(5) ? NULL : &result;
  if (oneIn(4))
    return mpcomm_session_evaluate(session, PICK(functions), batch, count,
                                   where, error);
  return mpcomm_session_step(session, batch, batch ? count : 0,
                             oneIn(4) ? &options : NULL, where, error);
}

static mprt_status tensors(mpcomm_session *session, mpcomm_error *error) {
  mpcomm_tensor tensor = {.struct_size = anySize(sizeof(tensor))};
  mpcomm_tensor *where = oneIn(20) ? NULL : &tensor;
  static const char *const functions[] = {"train_step", "evaluate", "x", NULL};
  mprt_status status;
  switch (below(3)) {
  case 0:
    status = mpcomm_session_state_at(session, below(7), where, error);
    break;
  case 1:
    status = mpcomm_session_tensor(session, anyName(), where, error);
    break;
  default:
    status = mpcomm_session_argument(session, PICK(functions), below(12), where,
                                     error);
  }
  if (status == MPRT_OK && tensor.struct_size == sizeof(tensor)) {
    CHECK(tensor.name && tensor.ndim < 8 && tensor.role >= 0 &&
          tensor.role <= MPCOMM_OUTPUT);
    for (uint32_t d = 0; d < tensor.ndim; ++d)
      CHECK(tensor.shape[d] == tensor.global_shape[d]);
    volatile char sum = 0;
    for (uint64_t i = 0; tensor.data && i < tensor.bytes; ++i)
      sum = (char)(sum ^ ((char *)tensor.data)[i]);
  }
  return status;
}

static mprt_status saveOrRead(mpcomm_session *session, mpcomm_error *error) {
  mpcomm_text texts[] = {{"key", "value"}, {"mpcomm.step", "3"}, {NULL, "x"}};
  mpcomm_save_options options = {.struct_size = anySize(sizeof(options)),
                                 .background = (uint8_t)oneIn(2),
                                 .weights_only = (uint8_t)oneIn(6),
                                 .allow_nonfinite = (uint8_t)oneIn(3),
                                 .keep = below(4),
                                 .metadata_count = oneIn(5) ? below(4) : 0,
                                 .metadata = oneIn(9) ? NULL : texts};
  mpcomm_resume_options resume = {.struct_size = anySize(sizeof(resume)),
                                  .anyway = (uint8_t)oneIn(2)};
  switch (below(4)) {
  case 0:
    return mpcomm_session_read_state(session, anyPath(), error);
  case 1:
    return mpcomm_session_resume(session, anyPath(), oneIn(2) ? NULL : &resume,
                                 error);
  default:
    /* A file that is a program of the others is not to be replaced. */
    return mpcomm_session_save(session, oneIn(3) ? "b" : "a",
                               oneIn(4) ? NULL : &options, error);
  }
}

static mprt_status adapt(mpcomm_session *session, mpcomm_error *error) {
  static const char *const numerics[] = {NULL, "exact", "bf16", "i8",
                                         "i1", "low-rank", "", "f64"};
  mpcomm_adapt_options options = {.struct_size = anySize(sizeof(options)),
                                  .every = below(4),
                                  .numerics = PICK(numerics),
                                  .gain = oneIn(2) ? 0 : anyNumber(),
                                  .budget = below(3),
                                  .only_watch = (uint8_t)oneIn(3),
                                  .reserved = {0, 0, (uint8_t)oneIn(9)},
                                  .plan_command = oneIn(3) ? "exit 1" : NULL};
  return mpcomm_session_adapt(session, oneIn(5) ? NULL : &options, error);
}

static mprt_status callOne(mpcomm_session *session, mpcomm_error *error) {
  static char memory[256];
  uint32_t number = 0;
  uint64_t dropped;
  double value;
  const char *text = NULL;
  mpcomm_event events[4];
  mpcomm_session_info info = {.struct_size = anySize(sizeof(info))};
  mpcomm_schedule schedule = {anySize(sizeof(schedule)), (int32_t)below(6) - 1,
                              anyNumber(), below(5), below(9)};
  switch (below(24)) {
  case 0:
    return mpcomm_session_describe(session, oneIn(9) ? NULL : &info, error);
  case 1:
    return mpcomm_session_load(session,
                               oneIn(3) ? anyPath() : programs[below(2)],
                               oneIn(2) ? NULL : &number, error);
  case 2:
    if (oneIn(3))
      return adapt(session, error);
    if (oneIn(3))
      return mpcomm_session_network(session, oneIn(9) ? NULL : &text, error);
    return mpcomm_session_switch(session, below(3), error);
  case 3:
    if (oneIn(2))
      return mpcomm_session_variant(session, below(3), oneIn(9) ? NULL : &text,
                                    error);
    return mpcomm_session_manifest(session, below(3), oneIn(9) ? NULL : &text,
                                   error);
  case 4:
    return mpcomm_session_state_count(session, oneIn(9) ? NULL : &number,
                                      error);
  case 5:
    return mpcomm_session_set(session, anyName(), anyNumber(), error);
  case 6:
    return mpcomm_session_get(session, anyName(), oneIn(9) ? NULL : &value,
                              error);
  case 7:
    return mpcomm_session_set_schedule(session, oneIn(9) ? NULL : &schedule,
                                       error);
  case 8:
    return mpcomm_session_set_seed(session, next(), error);
  case 9:
    return mpcomm_session_set_step(session, oneIn(9) ? next() : below(9),
                                   error);
  case 10:
    return mpcomm_session_read(session, anyName(), oneIn(9) ? NULL : memory,
                               oneIn(3) ? below(99) : 16, error);
  case 11:
    return mpcomm_session_read_global(session, anyName(),
                                      oneIn(9) ? NULL : memory,
                                      oneIn(3) ? below(99) : 4, error);
  case 12:
    return mpcomm_session_wait(session, error);
  case 13:
    return mpcomm_session_metadata(session, oneIn(2) ? "key" : anyName(),
                                   oneIn(9) ? NULL : &text, error);
  case 14:
    return mpcomm_session_gather(session, oneIn(9) ? NULL : memory,
                                 oneIn(9) ? NULL : memory + 128, below(99),
                                 error);
  case 15:
    if (oneIn(12))
      return mpcomm_session_abort(session, oneIn(3) ? NULL : "enough", error);
    return mpcomm_session_on_event(session, oneIn(2) ? onEvent : NULL, session,
                                   error);
  case 16:
    return mpcomm_session_events(session, oneIn(9) ? NULL : events, below(5),
                                 oneIn(9) ? NULL : &number,
                                 oneIn(2) ? NULL : &dropped, error);
  case 17: {
    Samples *samples = anySamples();
    mpcomm_array array = samples->arrays[0];
    const int64_t four = 4, stride = (int64_t)below(3);
    array.name = anyName();
    array.ndim = oneIn(2);
    array.shape = &four;
    if (oneIn(3))
      array.strides = &stride;
    return mpcomm_session_write(session, oneIn(20) ? NULL : &array, error);
  }
  case 18:
    return tensors(session, error);
  case 19:
  case 20:
    return saveOrRead(session, error);
  default:
    return stepOrEvaluate(session, error);
  }
}

static mpcomm_session *open(void) {
  mpcomm_session_options options = {.struct_size = anySize(sizeof(options)),
                                    .comm = "self"};
  mpcomm_session *session = (mpcomm_session *)&options;
  mpcomm_error error = {0};
  mpcomm_ranks *ranks = NULL;
  if (oneIn(6)) {
    static const char *const comms[] = {"self", "auto", "pigeon", "shm", NULL};
    options.comm = PICK(comms);
    options.size = below(3);
    options.rank = below(3);
    options.device = oneIn(3) ? "abacus" : "host";
    options.timeout_seconds = oneIn(4) ? -1 : 30;
    /* No address: there is nobody to wait for. */
  } else if (oneIn(8)) {
    OK(mpcomm_ranks_create, 2, &ranks);
    options.ranks = ranks;
    options.rank = 2;
    options.comm = NULL;
  }
  mprt_status status = mpcomm_session_open(&options, &session, &error);
  CHECK((status == MPRT_OK) == (session != NULL));
  CHECK(status == MPRT_OK ||
        (error.code == (int32_t)status && error.message[0]));
  mpcomm_ranks_destroy(ranks);
  return session;
}

static void runSequence(void) {
  mpcomm_session *session = open();
  if (!session)
    session = openAlone();
  /* Most get to where there is something to do. */
  if (!oneIn(4)) {
    OK(mpcomm_session_load, session, programs[0], NULL);
    if (!oneIn(4))
      writeWeights(session);
  }
  uint32_t calls = below(24);
  for (uint32_t i = 0; i < calls; ++i) {
    mpcomm_error error;
    memset(&error, 0x5a, sizeof(error));
    mprt_status status = callOne(oneIn(200) ? NULL : session, &error);
    if (status == MPRT_OK) {
      ++successes;
      CHECK(error.code == 0x5a5a5a5a && error.message[0] == 0x5a);
      continue;
    }
    ++failures;
    CHECK(status > MPRT_OK && status <= MPRT_NOT_READY);
    CHECK(error.code == (int32_t)status && error.rank >= -1 && error.rank < 2);
    CHECK(error.message[0] && memchr(error.message, 0, sizeof(error.message)));
    CHECK(memchr(error.location, 0, sizeof(error.location)));
    CHECK(status != MPRT_INTERNAL);
  }
  mpcomm_error error = {0};
  mprt_status status = mpcomm_session_close(session, &error);
  CHECK(status == MPRT_OK || error.message[0]);
}

static int openFiles(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  CHECK(folder);
  while (readdir(folder))
    ++count;
  closedir(folder);
  return count;
}

static void tellSeed(int number) {
  char text[64];
  int length = snprintf(text, sizeof(text), "signal %d in the sequence %llu\n",
                        number, (unsigned long long)seed);
  if (write(2, text, (size_t)length) < 0)
    _exit(3);
  signal(number, SIG_DFL);
  raise(number);
}

int main(int argc, char **argv) {
  CHECK(argc == 5);
  uint64_t sequences = strtoull(argv[1], NULL, 10);
  uint64_t first = strtoull(argv[2], NULL, 10);
  programs[0] = argv[3];
  programs[1] = argv[4];
  FILE *text = fopen("text", "w");
  CHECK(text && fputs("no checkpoint\n", text) > 0 && fclose(text) == 0);
  signal(SIGABRT, tellSeed);
  signal(SIGSEGV, tellSeed);
  int filesBefore = 0;
  for (uint64_t i = 0; i < sequences; ++i) {
    seed = first + i;
    state = seed * 0x9e3779b97f4a7c15u;
    runSequence();
    /* What is loaded once for the process is there by then. */
    if (i == 20)
      filesBefore = openFiles();
  }
  CHECK(sequences <= 20 || openFiles() == filesBefore);
  printf("%llu sequences, %llu calls that succeed and %llu that fail\n",
         (unsigned long long)sequences, (unsigned long long)successes,
         (unsigned long long)failures);
  return 0;
}
