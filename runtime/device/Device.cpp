//===- Device.cpp - what computes for a context ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/Device.h"

#include "device/Descriptors.h"
#include "device/cuda/CudaDevice.h"
#include "device/host/HostDevice.h"

using namespace mprt;

Expected<std::unique_ptr<Device>>
mprt::createDevice(std::string_view kind, const DeviceOptions &options) {
  if (kind == "host")
    return std::unique_ptr<Device>(new HostDevice(options.communicators));
  if (kind == "cuda")
    return cuda::CudaDevice::create(options);
  return makeError(MPRT_UNSUPPORTED, "no device is called '", kind, "'");
}

/// Runs kernels that belong to a call one after the other.
static Error launchAll(Device &device, uint32_t stream,
                       std::span<const mprt_kernel *const> kernels,
                       void *const *args) {
  for (const mprt_kernel *kernel : kernels)
    if (Error error = device.launch(stream, *kernel, args))
      return makeError(error.status(), "its kernel \"",
                       kernel->name ? kernel->name : "",
                       "\": ", error.message());
  return {};
}

Expected<uint32_t>
Device::gemmWithEpilogue(uint32_t stream, const mprt_gemm_desc &desc,
                         const void *a, const void *b, void *c,
                         const mprt_epilogue &epilogue, void *const *args) {
  if (Error error = check(epilogue))
    return error;
  if (Error error = gemm(stream, desc, a, b, c))
    return error;
  if (Error error =
          launchAll(*this, stream, {epilogue.kernels, epilogue.count}, args))
    return error;
  return epilogue.count;
}

Expected<uint32_t> Device::attention(uint32_t stream,
                                     const mprt_attention_desc &desc,
                                     void *const *args) {
  if (Error error = check(desc))
    return error;
  if (Error error = launchAll(*this, stream, {desc.kernels, desc.count}, args))
    return error;
  return desc.count;
}
