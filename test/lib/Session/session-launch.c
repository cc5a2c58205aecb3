/*===-- session-launch.c - what who starts ranks needs of Session.h -------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* session-launch <case> <program>, in a folder of its own. The program is    *|
|* compiled for two ranks, or for "alone" for one.                            *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

static mpcomm_result step(mpcomm_session *session, int first) {
  Samples samples;
  mpcomm_result result = {.struct_size = sizeof(result)};
  makeSamples(&samples, 8, first);
  OK(mpcomm_session_step, session, samples.arrays, 3, NULL, &result);
  return result;
}

/* Checks before there is any session, and what a program that is open gives. */
static void testAlone(void) {
  mpcomm_program *program = (mpcomm_program *)1;
  FAILS(MPRT_NOT_FOUND, "nothing.so", mpcomm_program_open, "nothing.so",
        &program);
  CHECK(!program);
  OK(mpcomm_program_open, path, &program);
  mpcomm_program_info info = {.struct_size = sizeof(info)};
  OK(mpcomm_program_describe, program, &info);
  CHECK(!strcmp(info.path, path) && info.checksum &&
        strstr(info.manifest, "\"program\":\"toy\""));
  FAILS(MPRT_NOT_READY, "has parameters", mpcomm_program_check_state, program,
        NULL, 0);
  FAILS(MPRT_NOT_FOUND, "cannot open", mpcomm_program_check_state, program,
        "nothing", 0);
  const char *names[] = {"fly"};
  FAILS(MPRT_NOT_FOUND, "no function 'fly'", mpcomm_program_select, program,
        names, 1);
  FAILS(MPRT_INVALID_ARGUMENT, "functions is null, but count is 1",
        mpcomm_program_select, program, NULL, 1);
  names[0] = NULL;
  FAILS(MPRT_INVALID_ARGUMENT, "name of a function is null",
        mpcomm_program_select, program, names, 1);
  names[0] = "train_step";
  OK(mpcomm_program_select, program, names, 1);

  mpcomm_session *session = openAlone();
  mpcomm_totals totals = {.struct_size = sizeof(totals)};
  uint32_t number = 9, count = 9;
  uint64_t dropped = 9;
  FAILS(MPRT_NOT_READY, "no program", mpcomm_session_totals, session, &totals);
  mpcomm_load_options options = {.struct_size = sizeof(options),
                                 .trace_capacity = 4};
  FAILS(MPRT_INVALID_ARGUMENT, "program is null", mpcomm_session_load_program,
        session, NULL, &options, &number);
  OK(mpcomm_session_load_program, session, program, &options, &number);
  CHECK(number == 0);
  /* The session keeps what it needs of it. */
  mpcomm_program_close(program);
  writeWeights(session);
  Samples samples;
  makeSamples(&samples, 8, 0);
  FAILS(MPRT_NOT_FOUND, "no function 'evaluate'", mpcomm_session_evaluate,
        session, NULL, samples.arrays, 3, NULL);
  for (int k = 0; k < 8; ++k)
    step(session, 8 * k);
  OK(mpcomm_session_totals, session, &totals);
  CHECK(totals.parameter_bytes == 4 * (DIM + 2) && !totals.is_asynchronous &&
        totals.optimizer_bytes == 4 * (DIM + 2) && !totals.device_bytes &&
        totals.exposed_milliseconds >= 0 && !*totals.graph_note &&
        *totals.device_name);
  mpcomm_trace_event events[4];
  OK(mpcomm_session_trace, session, NULL, 0, &count, &dropped);
  CHECK(count == 4 && dropped > 0);
  OK(mpcomm_session_trace, session, events, 4, &count, NULL);
  for (int i = 0; i < 4; ++i)
    CHECK(events[i].name && events[i].location &&
          events[i].begin <= events[i].end);

  /* The file stays as it is where what would replace it is not finite. */
  OK(mpcomm_session_save, session, "c", NULL);
  const float bad[DIM] = {0, NAN, 0, 0};
  writeFloats(session, "w", 1, DIM, bad);
  FAILS(MPRT_INVALID_ARGUMENT, "not finite", mpcomm_session_save, session, "c",
        NULL);
  mpcomm_event event;
  do
    OK(mpcomm_session_events, session, &event, 1, &count, NULL);
  while (count);
  mpcomm_save_options skip = {.struct_size = sizeof(skip), .skip_nonfinite = 1};
  OK(mpcomm_session_save, session, "c", &skip);
  OK(mpcomm_session_events, session, &event, 1, &count, NULL);
  CHECK(count == 1 && event.kind == MPCOMM_EVENT_WARNING &&
        strstr(event.text, "is not written"));
  skip.weights_only = 1;
  FAILS(MPRT_UNSUPPORTED, "weights", mpcomm_session_save, session, "w", &skip);
  OK(mpcomm_session_resume, session, "c", NULL);
  CHECK(readToy(session).step == 8);
  OK(mpcomm_session_close, session);

  OK(mpcomm_program_open, path, &program);
  OK(mpcomm_program_check_state, program, "c", 0);
  OK(mpcomm_program_check_state, program, "c", 1);
  mpcomm_program_close(program);
}

/* A plan finds what is in its way before anything is trained. */
static void testPlan(void) {
  mpcomm_session *session = openAlone(), *other = openAlone();
  mpcomm_save_plan plan = {
      .struct_size = sizeof(plan), .keep = 2, .every = 2, .last = 6};
  FAILS(MPRT_NOT_READY, "no program", mpcomm_session_plan_saves, session, "p",
        &plan);
  OK(mpcomm_session_load, session, path, NULL);
  OK(mpcomm_session_load, other, path, NULL);
  fclose(fopen("p.step-4", "w"));
  FAILS(MPRT_INVALID_ARGUMENT, "p.step-4", mpcomm_session_plan_saves, session,
        "p", &plan);
  remove("p.step-4");
  OK(mpcomm_session_plan_saves, session, "p", &plan);
  pid_t child = fork();
  if (child == 0) {
    FAILS(MPRT_INVALID_ARGUMENT, "another run", mpcomm_session_plan_saves,
          other, "./p", &plan);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  writeWeights(session);
  OK(mpcomm_session_save, session, "p", NULL);
  /* A link to what is not there yet, and then is, leads to one file. */
  CHECK(!symlink("q", "link"));
  OK(mpcomm_session_plan_saves, session, "link", &plan);
  OK(mpcomm_session_save, session, "link", NULL);
  OK(mpcomm_session_save, session, "link", NULL);
  OK(mpcomm_session_save, session, "q", NULL);
  OK(mpcomm_session_close, session);
  OK(mpcomm_session_plan_saves, other, "p", &plan);
  OK(mpcomm_session_close, other);
}

static void liveAsRank(mpcomm_ranks *ranks, const mpcomm_program *program,
                       uint32_t rank, const char *comm) {
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .rank = rank,
                                    .ranks = ranks,
                                    .comm = comm,
                                    .timeout_seconds = 60};
  mpcomm_session *session = NULL;
  OK(mpcomm_session_open, &options, &session);
  /* Of a mistake that both make, one is to be printed. */
  mpcomm_error error;
  CHECK(mpcomm_session_load(session, "nothing.so", NULL, &error) &&
        strstr(error.message, "nothing.so") && error.is_elsewhere == rank);
  /* Of one that rank 1 makes, its. */
  CHECK(mpcomm_session_load_program(session, rank ? NULL : program, NULL, NULL,
                                    &error) &&
        error.is_elsewhere == !rank);
  CHECK(strstr(error.message,
               rank ? "is null" : "rank 1 has an error, which it reports"));
  OK(mpcomm_session_load_program, session, program, NULL, NULL);
  writeWeights(session);
  for (int k = 0; k < 3; ++k)
    step(session, 16 * k + 8 * (int)rank);
  OK(mpcomm_session_compare, session);

  mpcomm_flight_entry flights[64];
  uint32_t count = 0;
  OK(mpcomm_session_flight, session, flights, 64, &count);
  CHECK(count == 3);
  for (uint32_t i = 0; i < count; ++i)
    CHECK(flights[i].number == i + 1 && flights[i].peer == -1 &&
          flights[i].enqueued <= flights[i].done &&
          flights[i].collective.kind == MPRT_ALL_REDUCE);

  /* What differs is told by rank 0, and the session goes on. */
  ToyState state = readToy(session);
  if (rank == 1)
    writeFloats(session, "b", 0, 1, (float[]){5});
  CHECK(mpcomm_session_compare(session, &error) && error.is_elsewhere == rank);
  CHECK(rank ||
        (error.code == MPRT_MISMATCH &&
         strstr(error.message, "'b' is not the same on ranks 0 and 1")));
  mpcomm_save_options any = {.struct_size = sizeof(any), .allow_difference = 1};
  CHECK(mpcomm_session_save(session, "d", NULL, &error) &&
        error.is_elsewhere == rank);
  OK(mpcomm_session_save, session, "d", &any);
  writeFloats(session, "b", 0, 1, &state.b);
  OK(mpcomm_session_compare, session);
  OK(mpcomm_session_gather, session, NULL, NULL, 0);
  OK(mpcomm_session_close, session);
}

/* A program that is opened and checked before its ranks are forked. */
static void forkRanks(const char *comm) {
  mpcomm_ranks *ranks = NULL;
  FAILS(MPRT_INVALID_ARGUMENT, "expected shm or gloo", mpcomm_ranks_create_over,
        "mpi", 2, 60, &ranks);
  FAILS(MPRT_INVALID_ARGUMENT, "found 0", mpcomm_ranks_create_over, comm, 0, 60,
        &ranks);
  mpcomm_program *program = NULL;
  OK(mpcomm_program_open, path, &program);
  OK(mpcomm_ranks_create_over, comm, 2, 60, &ranks);
  pid_t children[2];
  for (uint32_t r = 0; r < 2; ++r)
    if ((children[r] = fork()) == 0) {
      liveAsRank(ranks, program, r, comm);
      _exit(0);
    }
  OK(mpcomm_ranks_started, ranks);
  for (int r = 0; r < 2; ++r) {
    int status = 1;
    waitpid(children[r], &status, 0);
    CHECK(status == 0);
  }
  mpcomm_ranks_destroy(ranks);
  mpcomm_program_close(program);
}

static void testLauncher(void) {
  mpcomm_launcher launcher = {.struct_size = sizeof(launcher)};
  FAILS(MPRT_NOT_FOUND, "nobody", mpcomm_launched_by, &launcher);
  setenv("RANK", "2", 1);
  setenv("WORLD_SIZE", "3", 1);
  OK(mpcomm_launched_by, &launcher);
  CHECK(launcher.rank == 2 && launcher.size == 3 &&
        !strcmp(launcher.name, "torchrun"));
  setenv("RANK", "3", 1);
  FAILS(MPRT_INVALID_ARGUMENT, "RANK='3'", mpcomm_launched_by, &launcher);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  path = argv[2];
  if (!strcmp(argv[1], "alone"))
    testAlone();
  else if (!strcmp(argv[1], "plan"))
    testPlan();
  else if (!strcmp(argv[1], "launcher"))
    testLauncher();
  else
    forkRanks(argv[1]);
  return 0;
}
