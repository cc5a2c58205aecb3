//===- Device.h - what computes for a context -----------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A device computes, and has memory and streams. Calls of an asynchronous one
// enqueue and return; what goes wrong later is told by a later call, or by
// `finished`. Calls of the host do their work before they return. What a device
// cannot do it refuses with MPRT_UNSUPPORTED.
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mprt {

/// Whether this rank would have a library compute what `key` names, instead of
/// kernels: it can, and it is faster. The key is the same on all ranks.
struct LibraryVote {
  uint64_t key;
  uint64_t wants;
};

/// From where to where bytes go.
enum class CopyKind : uint8_t { OnDevice, ToDevice, ToHost };

/// What is in a graph: kernels, those of libraries too, copies, fills and, in
/// `all`, what else the device makes a node of.
struct GraphNodes {
  uint64_t all = 0, kernels = 0, copies = 0, fills = 0;
};

/// Work of a device that is launched as a whole.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
  virtual GraphNodes nodes() const = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// "host", "cuda".
  virtual const char *kind() const = 0;
  /// "NVIDIA H200, sm_90, 150 GB".
  virtual std::string describe() const = 0;
  /// Whether work goes on after the call that enqueued it, in memory of the
  /// device's own. Else all streams are the calling threads, memory is the
  /// host's, and events and `finished` have nothing to wait for.
  virtual bool isAsynchronous() const = 0;
  /// Whether its products may have operands of 8-bit floats.
  virtual bool multipliesF8() const { return false; }

  //===--------------------------------------------------------------------===//
  // Memory; given back with the device
  //===--------------------------------------------------------------------===//

  /// All that the device has.
  virtual uint64_t memoryBytes() const = 0;
  /// Zeroed, aligned to 256 bytes at least.
  virtual Expected<void *> allocate(uint64_t bytes) = 0;
  /// Of the host, such that copies need not wait for the processor; zeroed.
  virtual Expected<void *> allocatePinned(uint64_t bytes) = 0;
  /// Of the device's own memory, all that was allocated, and what libraries
  /// took for scratch.
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
  /// The product with its epilogue: in one, where the device can do that, and
  /// else one after the other. How many of the epilogue's kernels have run for
  /// it, which take `args`; 0 where it was one.
  virtual Expected<uint32_t>
  gemmWithEpilogue(uint32_t stream, const mprt_gemm_desc &desc, const void *a,
                   const void *b, void *c, const mprt_epilogue &epilogue,
                   void *const *args);
  virtual Error convolveOrPool(uint32_t stream, const mprt_window_desc &desc,
                               const void *a, const void *b, void *c) = 0;
  /// Attention by a library or by the descriptor's kernels: how many of these
  /// have run.
  virtual Expected<uint32_t> attention(uint32_t stream,
                                       const mprt_attention_desc &desc,
                                       void *const *args);
  /// Choices between a library and kernels that results depend on, and that
  /// this device has not taken yet: until then kernels run. `settle` gets the
  /// votes of all ranks, and takes the library where all of them want it.
  virtual std::vector<LibraryVote> unsettled() const { return {}; }
  virtual void settle(std::span<const LibraryVote>) {}
  /// What the environment asks of the device that results depend on, as
  /// `NAME=value`: all ranks need the same. A few words, or nothing.
  virtual std::string sharedSettings() const { return {}; }
  /// What was chosen and why, for reports: a line, or nothing.
  virtual std::string describeChoices() const { return {}; }
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
  /// What was kept, ready to be launched, or why it could not be; nothing is
  /// being captured then.
  virtual Expected<std::unique_ptr<DeviceGraph>> endCapture() = 0;
  /// Whether work is being kept.
  virtual bool isCapturing() const = 0;
  /// Runs it after all on the compute stream, and before what comes there
  /// later.
  virtual Error launchGraph(DeviceGraph &graph) = 0;

  //===--------------------------------------------------------------------===//
  // Times
  //===--------------------------------------------------------------------===//

  /// Puts a mark on `stream` whose time can be asked for, until the next
  /// `clearMarks`.
  virtual Expected<uint64_t> mark(uint32_t stream) = 0;
  /// When a mark was reached, ns of CLOCK_MONOTONIC; to be asked for when all
  /// is finished.
  virtual Expected<uint64_t> timeOf(uint64_t mark) = 0;
  /// To be called when all is finished, before the first mark of a step:
  /// forgets all marks, and compares the clocks.
  virtual Error clearMarks() = 0;
};

struct DeviceOptions {
  /// Of the run; files that a device writes have it in their names.
  unsigned rank = 0;
  /// Of CUDA: which of the ranks of this machine this is; the device is that
  /// one, modulo the devices that the driver shows. Several ranks may share a
  /// device.
  unsigned localRank = 0;
  /// Communicators of the program, each with a stream.
  uint32_t communicators = 0;
  /// The program's `mpcomm_images`, or null where it has none.
  const mprt_image *images = nullptr;
  /// The greatest scratch_bytes of its kernels.
  uint64_t scratchBytes = 0;
};

/// Takes a device of a kind, "host" or "cuda", and loads the program's kernels.
/// Not before a fork. Fails with MPRT_UNSUPPORTED where there is no such
/// device, no driver, or no image for the device.
Expected<std::unique_ptr<Device>> createDevice(std::string_view kind,
                                               const DeviceOptions &options);

} // namespace mprt

#endif // MPCOMM_RUNTIME_DEVICE_DEVICE_H
