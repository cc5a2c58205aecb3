//===- Kernels.h - a program's kernels on a CUDA device -------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program carries its kernels as machine code for several chips and as PTX.
// Machine code runs on its chip and on later ones of the same major number;
// where there is none that fits, the driver compiles the PTX.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_KERNELS_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_KERNELS_H

#include "device/cuda/Driver.h"

#include <unordered_map>
#include <vector>

namespace mprt::cuda {

/// What of a device is asked for when kernels are chosen and launched.
struct Chip {
  /// 90 for sm_90.
  unsigned number = 0;
  unsigned multiprocessors = 1;
};

/// The image for `chip`: the machine code of the same major number with the
/// greatest minor number that is not beyond the chip's, else the PTX of the
/// greatest chip that is not beyond it. `images` ends with a chip 0.
Expected<const mprt_image *> chooseImage(const mprt_image *images,
                                         unsigned chip);

class Kernels {
public:
  Kernels(const Driver &driver, const Chip &chip)
      : driver(driver), chip(chip) {}
  ~Kernels();
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;

  Error load(const mprt_image *images);

  /// Enqueues the kernel. `scratch` is what it gets where it wants any.
  Error launch(CUstream stream, const mprt_kernel &kernel, void *const *args,
               CUdeviceptr scratch, uint64_t scratchBytes);

private:
  struct Function {
    CUfunction handle = nullptr;
    unsigned grid = 0;
  };
  Expected<Function> resolve(const mprt_kernel &kernel) const;

  const Driver &driver;
  Chip chip;
  CUmodule module = nullptr;
  /// By the address of the descriptor, which is the program's.
  std::unordered_map<const mprt_kernel *, Function> functions;
  std::vector<void *> parameters;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_KERNELS_H
