//===- HostDevice.h - the processor and its memory ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each call does its work on the calling thread before it returns, whichever
// stream it names; so streams and events are numbers alone. Products and
// convolutions keep what they prepared: one thread at a time computes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_HOST_HOSTDEVICE_H
#define MPCOMM_RUNTIME_DEVICE_HOST_HOSTDEVICE_H

#include "device/Device.h"
#include "device/host/ConvolutionAndPool.h"
#include "device/host/Gemm.h"
#include "support/Pages.h"

#include <mutex>
#include <vector>

namespace mprt {

class HostDevice : public Device {
public:
  /// For a program with so many communicators.
  explicit HostDevice(uint32_t communicators) : streams(communicators + 1) {}

  const char *kind() const override { return "host"; }
  /// The processor's name, as in "AMD EPYC 7R13 Processor".
  std::string describe() const override;
  bool isAsynchronous() const override { return false; }

  /// Of the whole machine.
  uint64_t memoryBytes() const override;
  Expected<void *> allocate(uint64_t bytes) override;
  Expected<void *> allocatePinned(uint64_t bytes) override {
    return allocate(bytes);
  }
  uint64_t allocatedBytes() const override { return 0; }
  Error upload(void *target, const void *source, uint64_t bytes) override {
    return copy(0, target, source, bytes, CopyKind::ToDevice);
  }
  Error download(void *target, const void *source, uint64_t bytes) override {
    return copy(0, target, source, bytes, CopyKind::ToHost);
  }

  uint32_t programStreams() const override { return streams; }
  Error launch(uint32_t stream, const mprt_kernel &kernel,
               void *const *args) override;
  Error gemm(uint32_t stream, const mprt_gemm_desc &desc, const void *a,
             const void *b, void *c) override;
  Error convolveOrPool(uint32_t stream, const mprt_window_desc &desc,
                       const void *a, const void *b, void *c) override;
  Error copy(uint32_t stream, void *target, const void *source, uint64_t bytes,
             CopyKind kind) override;
  Error zero(uint32_t stream, void *target, uint64_t bytes) override;
  Expected<uint32_t> createEvent() override { return events++; }
  Error record(uint32_t, uint32_t) override { return {}; }
  Error wait(uint32_t, uint32_t) override { return {}; }
  Expected<bool> finished(uint32_t) override { return true; }
  void *handleOf(uint32_t) override { return nullptr; }
  Error enter() override { return {}; }

  Error beginCapture() override { return noGraphs(); }
  Expected<std::unique_ptr<DeviceGraph>> endCapture() override {
    return noGraphs();
  }
  bool isCapturing() const override { return false; }
  Error launchGraph(DeviceGraph &) override { return noGraphs(); }

  /// A mark is its time.
  Expected<uint64_t> mark(uint32_t stream) override;
  Expected<uint64_t> timeOf(uint64_t mark) override { return mark; }
  Error clearMarks() override { return {}; }

private:
  static Error noGraphs() {
    return Error(MPRT_UNSUPPORTED, "the host has no graphs");
  }

  uint32_t streams, events = 0;
  host::Gemm products;
  host::ConvolutionAndPool convolutionAndPool;
  std::mutex mutex;
  std::vector<Pages> allocations;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_DEVICE_HOST_HOSTDEVICE_H
