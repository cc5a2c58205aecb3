/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Somebody else's C program: loads a compiled training step, which finds the
 * functions that it calls in the runtime that this program is linked with. */
#include <mpcomm/Runtime/mprt.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

/* Linked even where the linker leaves out libraries that nothing names. */
const void *runtime = (const void *)&mprt_status_of;

int main(int argc, char **argv) {
  void *program = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!program) {
    fprintf(stderr, "error: %s\n",
            argc == 2 ? dlerror() : "expected a program");
    return 1;
  }
  const uint32_t *abi = dlsym(program, "mpcomm_abi_version");
  if (!abi || *abi != MPRT_ABI_VERSION) {
    fprintf(stderr, "error: expected a program of ABI %u\n", MPRT_ABI_VERSION);
    return 1;
  }
  printf("a program of ABI %u\n", *abi);
  return dlsym(program, "mpcomm_train_step") ? 0 : 1;
}
