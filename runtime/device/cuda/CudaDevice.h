//===- CudaDevice.h - a GPU through the CUDA driver -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The primary context of one device, which cuBLASLt, cuDNN and NCCL share. All
// streams are apart from the legacy one. Communicators' streams have the
// greater priority, so that a collective's kernels start while large products
// run. Events of programs carry no times; marks have events of their own.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "device/Device.h"
#include "device/cuda/Attention.h"
#include "device/cuda/Convolution.h"
#include "device/cuda/Gemm.h"
#include "device/cuda/GraphFills.h"
#include "device/cuda/Kernels.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

namespace mprt::cuda {

class CudaDevice : public Device {
public:
  static Expected<std::unique_ptr<Device>> create(const DeviceOptions &options);
  CudaDevice(const Driver &driver, CUdevice device, CUcontext context,
             std::string name, const Chip &chip, unsigned rank)
      : driver(driver), device(device), context(context), name(std::move(name)),
        chip(chip), rank(rank), kernels(std::in_place, driver, chip),
        products(std::in_place, driver),
        convolutions(std::in_place, driver, *products),
        attentions(std::in_place, driver), fills(std::in_place, driver) {}
  ~CudaDevice() override;

  /// Makes the streams, and loads and allocates what the program needs.
  Error prepare(uint32_t communicators, const mprt_image *images,
                uint64_t scratchBytes);

  const char *kind() const override { return "cuda"; }
  std::string describe() const override { return name; }
  bool multipliesF8() const override { return chip.number >= 89; }
  bool isAsynchronous() const override { return true; }

  uint64_t memoryBytes() const override;
  Expected<void *> allocate(uint64_t bytes) override;
  Expected<void *> allocatePinned(uint64_t bytes) override;
  uint64_t allocatedBytes() const override;
  Error upload(void *target, const void *source, uint64_t bytes) override;
  Error download(void *target, const void *source, uint64_t bytes) override;

  uint32_t programStreams() const override {
    return uint32_t(streams.size()) - 1;
  }
  Error launch(uint32_t stream, const mprt_kernel &kernel,
               void *const *args) override;
  Error gemm(uint32_t stream, const mprt_gemm_desc &desc, const void *a,
             const void *b, void *c) override;
  Expected<uint32_t> gemmWithEpilogue(uint32_t stream,
                                      const mprt_gemm_desc &desc, const void *a,
                                      const void *b, void *c,
                                      const mprt_epilogue &epilogue,
                                      void *const *args) override;
  Error convolveOrPool(uint32_t stream, const mprt_window_desc &desc,
                       const void *a, const void *b, void *c) override;
  Expected<uint32_t> attention(uint32_t stream, const mprt_attention_desc &desc,
                               void *const *args) override;
  std::vector<LibraryVote> unsettled() const override {
    return attentions->unsettled();
  }
  void settle(std::span<const LibraryVote> votes) override {
    attentions->settle(votes);
  }
  std::string sharedSettings() const override {
    return attentions->sharedSettings();
  }
  std::string describeChoices() const override {
    return attentions->describeChoices();
  }
  Error copy(uint32_t stream, void *target, const void *source, uint64_t bytes,
             CopyKind kind) override;
  Error zero(uint32_t stream, void *target, uint64_t bytes) override;
  Expected<uint32_t> createEvent() override;
  Error record(uint32_t stream, uint32_t event) override;
  Error wait(uint32_t stream, uint32_t event) override;
  Expected<bool> finished(uint32_t stream) override;
  void *handleOf(uint32_t stream) override { return streams[stream]; }
  Error enter() override;

  Error beginCapture() override;
  Expected<std::unique_ptr<DeviceGraph>> endCapture() override;
  bool isCapturing() const override {
    return capturing.load(std::memory_order_relaxed);
  }
  Error launchGraph(DeviceGraph &graph) override;

  Expected<uint64_t> mark(uint32_t stream) override;
  Expected<uint64_t> timeOf(uint64_t mark) override;
  Error clearMarks() override;

private:
  Error check(CUresult result, const char *call) const {
    return result == CUDA_SUCCESS ? Error() : driver.check(result, call);
  }
  /// `stream`'s share of the kernels' scratch.
  CUdeviceptr scratchOf(uint32_t stream) const {
    return scratch + stream * scratchBytes;
  }

  const Driver &driver;
  CUdevice device;
  CUcontext context;
  std::string name;
  Chip chip;
  unsigned rank;
  /// These go before the context does.
  std::optional<Kernels> kernels;
  std::optional<Gemm> products;
  std::optional<Convolution> convolutions;
  std::optional<Attention> attentions;
  std::optional<GraphFills> fills;

  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  CUdeviceptr scratch = 0;
  uint64_t scratchBytes = 0;

  /// Staged communicators grow their areas on whichever thread moves them on.
  std::mutex memoryMutex;
  std::vector<CUdeviceptr> allocations;
  std::vector<void *> pinned;
  std::atomic<uint64_t> allocated{0};

  std::atomic<bool> capturing{false};
  /// Where the streams of a capture fork and join.
  CUevent fork = nullptr;

  std::mutex markMutex;
  std::vector<CUevent> marks;
  uint64_t marked = 0;
  CUevent base = nullptr;
  uint64_t baseTime = 0;
};

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
