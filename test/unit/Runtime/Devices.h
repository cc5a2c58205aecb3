//===- Devices.h - the devices that tests run on ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host, and the CUDA device on the fake driver, with a kernel for both.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TEST_UNIT_RUNTIME_DEVICES_H
#define MPCOMM_TEST_UNIT_RUNTIME_DEVICES_H

#include "device/Device.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace mprt {

using Values = std::vector<float>;

/// The file of FakeCudaKernels.cpp.
inline const std::string &image() {
  static const std::string bytes = [] {
    setenv("MPRT_CUDA_LIBRARY", MPCOMM_FAKE_CUDA, 1);
    std::ifstream file(MPCOMM_FAKE_CUDA_KERNELS, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return bytes;
}

inline const std::string onCuda = "cuda", onHost = "host";

inline std::unique_ptr<Device> makeDevice(uint32_t communicators,
                                          const std::string &kind = onCuda) {
  static const mprt_image images[] = {{90, 0, image().data(), image().size()},
                                      {}};
  DeviceOptions options;
  options.communicators = communicators;
  options.images = images;
  auto device = createDevice(kind, options);
  EXPECT_TRUE(device) << device.error().message();
  return device ? device.take() : nullptr;
}

inline constexpr uint32_t elements = 32;

/// c = a + b, for the host.
inline void add(void *const *args) {
  for (uint32_t i = 0; i < elements; ++i)
    static_cast<float *>(args[2])[i] =
        static_cast<float *>(args[0])[i] + static_cast<float *>(args[1])[i];
}

inline mprt_kernel kernelOf(const char *symbol, uint32_t operands,
                            uint32_t threads, uint64_t blocks) {
  mprt_kernel kernel{};
  kernel.fn = add;
  kernel.name = kernel.symbol = symbol;
  kernel.location = "test.mlir:1";
  kernel.operands = operands;
  kernel.threads = threads;
  kernel.blocks = blocks;
  return kernel;
}

inline const mprt_kernel addKernel = kernelOf("add", 3, elements, 1);

} // namespace mprt

#endif // MPCOMM_TEST_UNIT_RUNTIME_DEVICES_H
