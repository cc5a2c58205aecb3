/*===-- cuda-kernels.c - the kernels of cuda-step.c -----------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* An image for the fake CUDA driver (test/lib/FakeCuda): each kernel is      *|
|* called once for each thread of its grid.                                   *|
|*                                                                            *|
|* Macros: BATCH (samples a rank), EVALUATE_MS (time of an evaluation).       *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "toy.h"
#include <stdint.h>
#include <time.h>

#define KERNEL(name, operands)                                                 \
  const int32_t mpemu_operands_##name = operands;                              \
  void name(void *const *args)

/* 0: thread of the block, 1: block, 2: threads of a block, 3: blocks. */
int32_t mpemu_index(int32_t which);

static int32_t first(void) {
  return mpemu_index(1) * mpemu_index(2) + mpemu_index(0);
}

static int32_t stride(void) { return mpemu_index(3) * mpemu_index(2); }

/* w, b, scale, x, y, bucket: the gradient of w, that of b, and the loss. */
KERNEL(backward, 6) {
  const float *w = args[0], *b = args[1], *scale = args[2];
  const float *x = args[3], *y = args[4];
  float *bucket = args[5];
  for (int32_t i = first(); i < DIM + 2; i += stride()) {
    float sum = 0;
    for (int s = 0; s < BATCH; ++s) {
      float error = predict(w, b, scale, x + s * DIM) - y[s];
      float factor =
          i == DIM + 1 ? error : 2 * *scale * (i < DIM ? x[s * DIM + i] : 1);
      sum += error * factor / BATCH;
    }
    bucket[i] += sum;
  }
}

/* As descend(), then scratch: the steps that were done, which the program's own
 * count is compared with. */
KERNEL(update, 9) {
  const float *step = args[3];
  float *loss = args[6], *count = args[8];
  if (first() != 0)
    return;
  descend(args);
  *count += 1;
  if (*count > *step)
    *loss = -1;
}

/* The arguments of evaluate. */
KERNEL(evaluate, 8) {
  if (first() != 0)
    return;
  predictBatch(args);
#ifdef EVALUATE_MS
  const struct timespec pause = {0, EVALUATE_MS * 1000000L};
  nanosleep(&pause, 0);
#endif
}

/* The arena: after its ARENA bytes nothing is. */
KERNEL(stray, 1) { ((float *)args[0])[40] = 1; }
