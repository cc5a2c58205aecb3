//===- Device.h - what computes for a context -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device with memory and streams of its own. Calls enqueue and return; what
// goes wrong later is told by a later call, or by `finished`. The host is no
// such device: there the compute stream is the calling thread, and session/
// does the work itself.
//
// Streams are numbered as programs do: 0 computes, 1 + c belongs to
// communicator c; one more, `copyStream`, is the runner's, for batches. Any
// thread may call, but two never at a time for one stream.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_DEVICE_H
#define MPCOMM_RUNTIME_DEVICE_DEVICE_H

#include "support/Error.h"

#include <cstdint>
#include <memory>
#include <string>

namespace mprt {

/// From where to where bytes go.
enum class CopyKind : uint8_t { OnDevice, ToDevice, ToHost };

/// What a library is to do with a product, see mprt_epilogue; null where the
/// kind has none.
struct GemmEpilogue {
  mprt_epilogue_kind kind;
  mprt_dtype biasType;
  void *bias, *matrix;

  static bool hasBias(int32_t kind) { return kind != MPRT_GELU_GRAD; }
  static bool hasMatrix(int32_t kind) {
    return kind == MPRT_BIAS_GELU_AUX || kind == MPRT_GELU_GRAD;
  }
};

/// Work of a device that is launched as a whole.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
  /// What is in it: launches, copies, zero fills, library calls, waits.
  virtual uint64_t nodes() const = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// "cuda".
  virtual const char *kind() const = 0;
  /// "NVIDIA H200, sm_90, 150 GB".
  virtual std::string describe() const = 0;

  //===--------------------------------------------------------------------===//
  // Memory; given back with the device
  //===--------------------------------------------------------------------===//

  /// All that the device has.
  virtual uint64_t memoryBytes() const = 0;
  /// Zeroed, aligned to 256 bytes at least.
  virtual Expected<void *> allocate(uint64_t bytes) = 0;
  /// Of the host, such that copies need not wait for the processor; zeroed.
  virtual Expected<void *> allocatePinned(uint64_t bytes) = 0;
  /// Of the device, all that was allocated, and what libraries took for
  /// scratch.
  virtual uint64_t allocatedBytes() const = 0;

  /// Copy at once, and wait for it; whatever host memory that is.
  virtual Error upload(void *target, const void *source, uint64_t bytes) = 0;
  virtual Error download(void *target, const void *source, uint64_t bytes) = 0;

  //===--------------------------------------------------------------------===//
  // Work on a stream
  //===--------------------------------------------------------------------===//

  /// Streams that programs have: 1 and one a communicator.
  virtual uint32_t programStreams() const = 0;
  uint32_t copyStream() const { return programStreams(); }

  virtual Error launch(uint32_t stream, const mprt_kernel &kernel,
                       void *const *args) = 0;
  virtual Error gemm(uint32_t stream, const mprt_gemm_desc &desc, const void *a,
                     const void *b, void *c) = 0;
  /// The product with its epilogue; false where the device cannot, and has
  /// done nothing.
  virtual Expected<bool> gemmWithEpilogue(uint32_t stream,
                                          const mprt_gemm_desc &desc,
                                          const void *a, const void *b, void *c,
                                          const GemmEpilogue &epilogue) = 0;
  virtual Error window(uint32_t stream, const mprt_window_desc &desc,
                       const void *a, const void *b, void *c) = 0;
  /// Host memory is of `allocatePinned`.
  virtual Error copy(uint32_t stream, void *target, const void *source,
                     uint64_t bytes, CopyKind kind) = 0;
  virtual Error zero(uint32_t stream, void *target, uint64_t bytes) = 0;

  /// Makes an event that `record` and `wait` know by the number returned.
  virtual Expected<uint32_t> createEvent() = 0;
  /// Marks the present end of the stream.
  virtual Error record(uint32_t stream, uint32_t event) = 0;
  /// Later work on `stream` comes after the last mark of `event`.
  virtual Error wait(uint32_t stream, uint32_t event) = 0;

  /// Whether all on `stream` is done; the error that stopped it. Never blocks.
  virtual Expected<bool> finished(uint32_t stream) = 0;

  /// The device's own handle of a stream (a CUstream), for communicators that
  /// enqueue on it.
  virtual void *handleOf(uint32_t stream) = 0;
  /// Makes the device the calling thread's; needed before calls of its
  /// libraries on a thread that has not called the device yet.
  virtual Error enter() = 0;

  //===--------------------------------------------------------------------===//
  // Graphs
  //===--------------------------------------------------------------------===//

  /// From here to `endCapture` work on all program streams is kept instead of
  /// run. Both are called on one thread.
  virtual Error beginCapture() = 0;
  /// What was kept, or why it could not be; nothing is being captured then.
  virtual Expected<std::unique_ptr<DeviceGraph>> endCapture() = 0;
  /// Whether work is being kept.
  virtual bool isCapturing() const = 0;
  /// Runs it after all on the compute stream, and before what comes there
  /// later.
  virtual Error launchGraph(DeviceGraph &graph) = 0;

  //===--------------------------------------------------------------------===//
  // Times
  //===--------------------------------------------------------------------===//

  /// Puts a mark on `stream` whose time can be asked for; its number counts
  /// from 0 since the last `clearMarks`.
  virtual Expected<uint32_t> mark(uint32_t stream) = 0;
  /// When a mark was reached, ns of CLOCK_MONOTONIC; to be asked for when all
  /// is finished.
  virtual Expected<uint64_t> timeOf(uint32_t mark) = 0;
  /// To be called when all is finished, before the first mark of a step:
  /// forgets all marks, and compares the clocks.
  virtual Error clearMarks() = 0;
};

} // namespace mprt

#endif // MPCOMM_RUNTIME_DEVICE_DEVICE_H
