/*===-- overlap-step.c - a step that computes beside a collective ---------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* Enqueues an all_reduce of 4 MB, computes for MILLISECONDS in KERNELS       *|
|* kernels, and waits for it only then.                                       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _POSIX_C_SOURCE 200809L
#include "mpcomm/Runtime/mprt.h"

#include <time.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define COUNT 1048576

#define ABI 10
_Static_assert(ABI == MPRT_ABI_VERSION, "ABI is what the manifest says");

const uint32_t mpcomm_abi_version = ABI;
/* clang-format off */
const char mpcomm_manifest[] =
  "{\"abi\":" TEXT(ABI) ",\"producer\":\"hand\",\"program\":\"overlap\",\"device\":\"host\","
  "\"cpu\":\"x86-64\",\"features\":\"\","
  "\"mesh\":{\"axes\":[{\"name\":\"dp\",\"size\":" TEXT(RANKS) "}]},"
  "\"communicators\":[{\"axes\":[\"dp\"]}],"
  "\"functions\":[{\"name\":\"train_step\",\"entry\":\"mpcomm_train_step\","
  "\"arena_bytes\":4194304,\"events\":1,\"arguments\":[],"
  "\"results\":[{\"name\":\"loss\",\"role\":\"loss\",\"dtype\":\"f32\","
  "\"shape\":[],\"argument\":null}],"
  "\"collectives\":[{\"id\":0,\"kind\":\"all_reduce\",\"name\":\"gradients\","
  "\"location\":\"overlap.mlir:1\",\"bytes\":4194304}]}]}";
/* clang-format on */

static void spin(void *const *args) {
  struct timespec begin, now;
  (void)args;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1e3 +
               (now.tv_nsec - begin.tv_nsec) * 1e-6 <
           (double)MILLISECONDS / KERNELS);
}

static const mprt_kernel kernel = {0, spin, "spin", "overlap.mlir:2", 0, 0};
static const mprt_collective gradients = {
    0, MPRT_ALL_REDUCE, MPRT_SUM, MPRT_F32, MPRT_F32,
    0, -1,              COUNT,    "gradients", "overlap.mlir:1"};

int32_t mpcomm_train_step(mprt_context *ctx, void *const *args, void *arena) {
  int i;
  mprt_collective_run(ctx, MPRT_COMM_STREAM(0), &gradients, arena, arena);
  mprt_event_record(ctx, MPRT_COMM_STREAM(0), 0);
  for (i = 0; i < KERNELS; ++i)
    mprt_launch(ctx, MPRT_COMPUTE_STREAM, &kernel, args);
  mprt_stream_wait(ctx, MPRT_COMPUTE_STREAM, 0);
  *(float *)args[0] = 1;
  return mprt_status_of(ctx);
}
