/* The kernels of tools/mpcomm-run/calibrate/CalibrateKernels.cpp, for the fake
 * CUDA driver. */

#include <stdint.h>

extern int32_t mpemu_index(int32_t which);

const int32_t mpemu_operands_mpcomm_calibrate_nothing = 0;
void mpcomm_calibrate_nothing(void *const *args) { (void)args; }

const int32_t mpemu_operands_mpcomm_calibrate_polynomial = 1;
void mpcomm_calibrate_polynomial(void *const *args) {
  float *at =
      (float *)args[0] + mpemu_index(1) * mpemu_index(2) + mpemu_index(0);
  /* Of a low degree: an emulator is slow enough. */
  *at = (0.5f * *at + 0.25f) * 1e-3f;
}
