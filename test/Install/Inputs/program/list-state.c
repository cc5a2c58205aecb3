/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Somebody else's C program: opens a session and says what state a compiled
 * training step has. */
#include <mpcomm/Runtime/Session.h>

#include <stdio.h>

int main(int argc, char **argv) {
  mpcomm_session_options options = {.struct_size = sizeof(options),
                                    .comm = "self"};
  mpcomm_session *session = NULL;
  mpcomm_error error = {.message = "expected a program"};
  uint32_t count = 0;
  int failed = argc != 2 || mpcomm_session_open(&options, &session, &error) ||
               mpcomm_session_load(session, argv[1], NULL, &error) ||
               mpcomm_session_state_count(session, &count, &error);
  for (uint32_t i = 0; i < count && !failed; ++i) {
    mpcomm_tensor tensor = {.struct_size = sizeof(tensor)};
    failed = mpcomm_session_state_at(session, i, &tensor, &error);
    if (!failed)
      printf("%s: %llu bytes\n", tensor.name, (unsigned long long)tensor.bytes);
  }
  if (failed)
    fprintf(stderr, "error: %s\n", error.message);
  mpcomm_session_close(session, NULL);
  return failed;
}
