//===- Cuda.h - makes the CUDA device -------------------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUDA_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUDA_H

#include "device/Device.h"

namespace mprt {

struct CudaOptions {
  /// Which of the ranks of this machine this is; the device is that one, modulo
  /// the devices that the driver shows. Several ranks may share a device.
  unsigned localRank = 0;
  /// Communicators of the program, each with a stream.
  uint32_t communicators = 0;
  /// The program's `mpcomm_images`, or null where it has none.
  const mprt_image *images = nullptr;
  /// The greatest scratch_bytes of its kernels.
  uint64_t scratchBytes = 0;
};

/// Takes a device and loads the program's kernels. Not before a fork. Fails
/// with MPRT_UNSUPPORTED where there is no driver, no device, or no image for
/// the device.
Expected<std::unique_ptr<Device>> createCudaDevice(const CudaOptions &options);

} // namespace mprt

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUDA_H
