//===- Kernels.cpp - a program's kernels on a CUDA device -----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/cuda/Kernels.h"

#include <algorithm>
#include <string_view>

using namespace mprt;
using namespace mprt::cuda;

static constexpr unsigned logBytes = 4096;
static constexpr uint64_t maxGrid = 0x7fffffff;
static constexpr uint32_t maxThreads = 1024, warp = 32;

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

/// Whether this is PTX with instructions of its chip that no later one has, as
/// its line `.target sm_90a` says.
static bool isForOneChip(const mprt_image &image) {
  if (!image.is_text)
    return false;
  std::string_view text(static_cast<const char *>(image.data), image.bytes);
  text.remove_prefix(std::min(text.find(".target"), text.size()));
  text = text.substr(0, text.find_first_of(",\n"));
  return text.ends_with(std::to_string(image.chip) + "a");
}

static std::string describeImages(const mprt_image *images) {
  std::string text;
  for (const mprt_image *image = images; image && image->chip != 0; ++image) {
    text += (text.empty() ? "" : ", ") +
            std::string(image->is_text ? "PTX for sm_" : "sm_") +
            std::to_string(image->chip);
    if (image->data && isForOneChip(*image))
      text += "a, which runs on no other chip";
  }
  return text.empty() ? "none" : text;
}

Expected<const mprt_image *> mprt::cuda::chooseImage(const mprt_image *images,
                                                     unsigned chip) {
  const mprt_image *code = nullptr, *text = nullptr;
  for (const mprt_image *image = images; image && image->chip != 0; ++image) {
    if (image->chip > chip || !image->data)
      continue;
    if (image->chip != chip && isForOneChip(*image))
      continue;
    const mprt_image *&best = image->is_text ? text : code;
    if (!image->is_text && image->chip / 10 != chip / 10)
      continue;
    if (!best || image->chip > best->chip)
      best = image;
  }
  if (code)
    return code;
  if (text)
    return text;
  return makeError(MPRT_UNSUPPORTED, "the program has no kernels for sm_", chip,
                   ", only: ", describeImages(images));
}

/// The compiler's complaint on one line.
static std::string firstLines(const char *log) {
  std::string text;
  for (; *log && text.size() < 400; ++log)
    text += *log == '\n' || *log == '\r' ? ' ' : *log;
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text;
}

Error Kernels::load(const mprt_image *images) {
  if (!images || images->chip == 0)
    return {};
  Expected<const mprt_image *> image = chooseImage(images, chip.number);
  if (!image)
    return image.error();
  char log[logBytes] = "";
  int names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(logBytes))};
  CUresult result =
      driver.cuModuleLoadDataEx(&module, (*image)->data, 2, names, values);
  log[logBytes - 1] = 0;
  if (Error error = driver.check(result, "cuModuleLoadDataEx"))
    return makeError(MPRT_UNSUPPORTED, "the program's ",
                     (*image)->is_text ? "PTX" : "kernels", " for sm_",
                     (*image)->chip, " on a device of sm_", chip.number, ": ",
                     error.message(), *log ? ": " : "", firstLines(log));
  return {};
}

Kernels::~Kernels() {
  if (module)
    driver.cuModuleUnload(module);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Expected<Kernels::Function> Kernels::resolve(const mprt_kernel &kernel) const {
  if (!module || !kernel.symbol)
    return makeError(MPRT_INVALID_ARGUMENT, kernel.symbol
                                                ? "the program has no images"
                                                : "it is no kernel for a GPU");
  if (kernel.threads == 0 || kernel.threads > maxThreads ||
      kernel.threads % warp != 0)
    return makeError(MPRT_INVALID_ARGUMENT, "blocks of ", kernel.threads,
                     " threads, expected a multiple of ", warp, " up to ",
                     maxThreads);
  Function function;
  CUresult found =
      driver.cuModuleGetFunction(&function.handle, module, kernel.symbol);
  if (found == CUDA_ERROR_NOT_FOUND)
    return makeError(MPRT_INVALID_ARGUMENT, "its symbol '", kernel.symbol,
                     "' is not in the program's images");
  if (Error error = driver.check(found, "cuModuleGetFunction"))
    return error;
  // Static and dynamic memory of more than 48 KiB together must be asked for.
  if (kernel.shared_bytes)
    if (Error error =
            driver.check(driver.cuFuncSetAttribute(
                             function.handle,
                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             int(kernel.shared_bytes)),
                         "cuFuncSetAttribute"))
      return makeError(MPRT_UNSUPPORTED, kernel.shared_bytes,
                       " bytes of shared memory a block: ", error.message());
  uint64_t grid = kernel.blocks;
  if (kernel.grid_stride) {
    int resident = 0;
    if (Error error =
            driver.check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                             &resident, function.handle, int(kernel.threads),
                             kernel.shared_bytes),
                         "cuOccupancyMaxActiveBlocksPerMultiprocessor"))
      return error;
    if (resident < 1)
      return makeError(MPRT_UNSUPPORTED, "a block of ", kernel.threads,
                       " threads and ", kernel.shared_bytes,
                       " bytes of shared memory does not fit the device");
    grid = std::min(grid, uint64_t(resident) * chip.multiprocessors);
  }
  if (grid > maxGrid)
    return makeError(MPRT_INVALID_ARGUMENT, "a grid of ", grid,
                     " blocks, expected at most ", maxGrid);
  function.grid = unsigned(grid);
  return function;
}

Error Kernels::launch(CUstream stream, const mprt_kernel &kernel,
                      void *const *args, CUdeviceptr scratch,
                      uint64_t scratchBytes) {
  auto known = functions.find(&kernel);
  if (known == functions.end()) {
    Expected<Function> function = resolve(kernel);
    if (!function)
      return function.error();
    if (kernel.scratch_bytes > scratchBytes)
      return makeError(MPRT_INVALID_ARGUMENT, "it wants ", kernel.scratch_bytes,
                       " bytes of scratch, but the manifest's scratch_bytes is "
                       "only ",
                       scratchBytes);
    known = functions.emplace(&kernel, *function).first;
    parameters.resize(
        std::max<size_t>(parameters.size(), kernel.operands + size_t(1)));
  }
  if (known->second.grid == 0)
    return {};
  // The driver takes the address of each parameter, here of each pointer.
  for (uint32_t i = 0; i < kernel.operands; ++i)
    parameters[i] = const_cast<void **>(&args[i]);
  parameters[kernel.operands] = &scratch;
  return driver.check(
      driver.cuLaunchKernel(known->second.handle, known->second.grid, 1, 1,
                            kernel.threads, 1, 1, kernel.shared_bytes, stream,
                            parameters.data(), nullptr),
      "cuLaunchKernel");
}
