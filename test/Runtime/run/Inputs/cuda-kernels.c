/*===-- cuda-kernels.c - the kernels of cuda-step.c -----------------------===*\
|*                                                                            *|
|* Part of the mpcomm project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception        *|
|*                                                                            *|
|* An image for the fake CUDA driver (test/lib/FakeCuda): each kernel is      *|
|* called once for each thread of its grid.                                   *|
|*                                                                            *|
|* Macros: BATCH (samples a rank).                                            *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include <stdint.h>

#define DIM 4
#define KERNEL(name, operands)                                                 \
  const int32_t mpemu_operands_##name = operands;                              \
  void name(void *const *args)

/* 0: thread of the block, 1: block, 2: threads of a block, 3: blocks. */
int32_t mpemu_index(int32_t which);

static int32_t first(void) {
  return mpemu_index(1) * mpemu_index(2) + mpemu_index(0);
}

static int32_t stride(void) { return mpemu_index(3) * mpemu_index(2); }

static float predict(const float *w, const float *b, const float *scale,
                     const float *x) {
  float sum = *b;
  for (int i = 0; i < DIM; ++i)
    sum += w[i] * x[i];
  return *scale * sum;
}

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

/* w, b, momentum, step, lr, bucket, loss, the new b, scratch: the steps that
 * were done, which the program's own count is compared with. */
KERNEL(update, 9) {
  float *w = args[0], *momentum = args[2], *step = args[3];
  const float *b = args[1], *lr = args[4], *bucket = args[5];
  float *loss = args[6], *newB = args[7], *count = args[8];
  if (first() != 0)
    return;
  *step += 1;
  *count += 1;
  for (int i = 0; i <= DIM; ++i)
    momentum[i] = 0.9f * momentum[i] + bucket[i];
  for (int i = 0; i < DIM; ++i)
    w[i] -= *lr * momentum[i];
  *newB = *b - *lr * momentum[DIM];
  *loss = *count > *step ? -1 : bucket[DIM + 1];
}

/* w, b, scale, x, y, loss, output */
KERNEL(evaluate, 7) {
  const float *x = args[3], *y = args[4];
  float *loss = args[5], *output = args[6];
  if (first() != 0)
    return;
  *loss = 0;
  for (int s = 0; s < BATCH; ++s) {
    float value = predict(args[0], args[1], args[2], x + s * DIM);
    *loss += (value - y[s]) * (value - y[s]) / BATCH;
    output[2 * s] = -value;
    output[2 * s + 1] = value;
  }
}

/* The arena: behind its ARENA bytes nothing is. */
KERNEL(stray, 1) { ((float *)args[0])[40] = 1; }
