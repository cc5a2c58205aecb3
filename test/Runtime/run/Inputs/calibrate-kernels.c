/* The kernels of tools/mpcomm-run/CalibrateKernels.cpp, for the fake CUDA driver. */

#include <stdint.h>

extern int32_t mpemu_index(int32_t which);

const int32_t mpemu_operands_mpcomm_calibrate_nothing = 0;
void mpcomm_calibrate_nothing(void *const *args) { (void)args; }

const int32_t mpemu_operands_mpcomm_calibrate_polynomial = 1;
void mpcomm_calibrate_polynomial(void *const *args) {
  float *at = (float *)args[0] + mpemu_index(1) * mpemu_index(2) + mpemu_index(0);
  float x = *at, y = 0.5f;
  for (int i = 0; i < 1024; ++i)
    y = y * x + 0.25f;
  *at = y * 1e-3f;
}
