/*===-- probe-step.c - tells what batches it is given ---------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* A program without parameters. Its loss is, over all arguments a, samples s *|
|* and elements i of a sample, the sum of value * (1 + i) * (1 + 10 s) *      *|
|* (1 + 100 a): of small integers exact in f64, and another for other batches.*|
|*                                                                            *|
|* Macros: MANIFEST (its text), SIZES (elements of a sample of each argument, *|
|* between commas), TYPES (f, i or l of each: f32, i32, i64), BATCH, WAIT     *|
|* (microseconds that a step takes).                                          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#define _DEFAULT_SOURCE
#include "mpcomm/Runtime/mprt.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#ifndef WAIT
#define WAIT 0
#endif

const uint32_t mpcomm_abi_version = MPRT_ABI_VERSION;
const char mpcomm_manifest[] = MANIFEST;

static const int sizes[] = {SIZES};
static const char types[] = TYPES;

static double load(char type, const void *data, int index) {
  if (type == 'f')
    return ((const float *)data)[index];
  if (type == 'i')
    return ((const int32_t *)data)[index];
  return (double)((const int64_t *)data)[index];
}

int32_t mpcomm_train_step(mprt_context *ctx, void *const *args, void *arena) {
  int count = (int)strlen(types);
  double loss = 0;
  (void)arena;
  for (int a = 0; a < count; ++a)
    for (int s = 0; s < BATCH; ++s)
      for (int i = 0; i < sizes[a]; ++i)
        loss += load(types[a], args[a], s * sizes[a] + i) * (1 + i) *
                (1 + 10 * s) * (1 + 100 * a);
  *(double *)args[count] = loss;
  if (WAIT)
    usleep(WAIT);
  return mprt_status_of(ctx);
}
