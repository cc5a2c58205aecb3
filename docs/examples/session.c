/* Trains the linear layer of linear.mlir from C; see docs/Runtime/Session.md.
 */
#include "mpcomm/Runtime/Session.h"

#include <stdio.h>
#include <stdlib.h>

static mpcomm_error error;

static void check(mprt_status status) {
  if (status == MPRT_OK)
    return;
  fprintf(stderr, "%s: %s\n", mpcomm_status_name(error.code), error.message);
  exit(1);
}

int main(int argc, char **argv) {
  mpcomm_session *session;
  check(mpcomm_session_open(NULL, &session, &error));
  check(mpcomm_session_load(session, argc > 1 ? argv[1] : "step.so", NULL,
                            &error));

  static float weight[4 * 2], bias[2], x[8 * 4], y[8 * 2];
  int64_t of_weight[] = {4, 2}, of_bias[] = {2}, of_x[] = {8, 4},
          of_y[] = {8, 2};
  mpcomm_array state[] = {{"weight", weight, MPRT_F32, 2, of_weight, NULL},
                          {"bias", bias, MPRT_F32, 1, of_bias, NULL}};
  for (int i = 0; i < 2; ++i)
    check(mpcomm_session_write(session, &state[i], &error));

  mpcomm_array batch[] = {{"x", x, MPRT_F32, 2, of_x, NULL},
                          {"y", y, MPRT_F32, 2, of_y, NULL}};
  mpcomm_save_options background = {
      .struct_size = sizeof(background), .background = 1, .keep = 2};
  /* Before training: checkpoints of another run would be in the way of these. */
  mpcomm_save_plan plan = {
      .struct_size = sizeof(plan), .keep = 2, .every = 250, .last = 1000};
  check(mpcomm_session_plan_saves(session, "linear.ckpt", &plan, &error));
  for (int step = 0; step < 1000; ++step) {
    for (int i = 0; i < 8 * 4; ++i)
      x[i] = (float)((i * 37 + step * 11) % 19 - 9) / 9;
    for (int s = 0; s < 8; ++s) {
      y[2 * s] = x[4 * s] - 2 * x[4 * s + 1] + 0.5f;
      y[2 * s + 1] = x[4 * s + 2] + 3 * x[4 * s + 3];
    }
    mpcomm_result result = {.struct_size = sizeof(result)};
    check(mpcomm_session_step(session, batch, 2, NULL, &result, &error));
    if (result.step % 250 == 0) {
      printf("step %d, loss %.5f\n", (int)result.step, result.loss);
      check(mpcomm_session_save(session, "linear.ckpt", &background, &error));
    }
  }
  mpcomm_tensor learned = {.struct_size = sizeof(learned)};
  check(mpcomm_session_tensor(session, "weight", &learned, &error));
  printf("weight[1][0] = %.2f\n", ((float *)learned.data)[2]);
  check(mpcomm_session_close(session, &error));
  return 0;
}
