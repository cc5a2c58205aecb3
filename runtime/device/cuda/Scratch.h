//===- Scratch.h - memory and clocks for calls of libraries ---------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What cuBLASLt and cuDNN need beside their operands: scratch that belongs to a
// stream, a buffer to try algorithms on, and the time that each one takes.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUNTIME_DEVICE_CUDA_SCRATCH_H
#define MPCOMM_RUNTIME_DEVICE_CUDA_SCRATCH_H

#include "device/cuda/Driver.h"

#include <functional>
#include <unordered_map>
#include <vector>

namespace mprt::cuda {

/// A buffer of the device, freed at the end.
class ScratchBuffer {
public:
  ScratchBuffer(const Driver &driver, uint64_t bytes);
  ~ScratchBuffer();
  ScratchBuffer(const ScratchBuffer &) = delete;
  ScratchBuffer &operator=(const ScratchBuffer &) = delete;

  /// Null where there was no room.
  void *data() const { return reinterpret_cast<void *>(pointer); }

private:
  const Driver &driver;
  CUdeviceptr pointer = 0;
};

/// Scratch, one piece a stream: what runs on one at a time shares it.
class Workspaces {
public:
  explicit Workspaces(const Driver &driver) : driver(driver) {}
  ~Workspaces();

  struct Piece {
    void *data = nullptr;
    uint64_t bytes = 0;
  };
  /// At least `bytes` for `stream` where there is room, else what there is.
  /// While `captured` nothing is allocated. Growing waits for the stream; a
  /// piece that graphs may use stays to the end.
  Piece get(CUstream stream, uint64_t bytes, bool captured);

  uint64_t bytes() const { return total; }

private:
  struct Kept {
    Piece piece;
    bool inGraphs = false;
  };
  const Driver &driver;
  std::unordered_map<CUstream, Kept> pieces;
  std::vector<CUdeviceptr> outgrown;
  uint64_t total = 0;
};

/// Whether `stream` is being captured.
Expected<bool> isCaptured(const Driver &driver, CUstream stream);

/// Whether algorithms are tried and timed. MPRT_CUDA_TUNE=0: the library's
/// first guess is taken, which is the same in every run.
bool tunes();

/// Whether products of f32 may be rounded to TF32: MPRT_TF32=1.
bool allowsTf32();

/// What three runs after a first one take on `stream`, in milliseconds. Waits
/// for the stream.
Expected<float> timeRuns(const Driver &driver, CUstream stream,
                         const std::function<Error()> &run);

/// The fastest of `count` candidates on `stream`: the one for which timeRuns
/// takes the least time. Those that fail are passed over; an
/// error where all do. Waits for the stream.
Expected<size_t> findFastest(const Driver &driver, CUstream stream,
                             size_t count,
                             const std::function<Error(size_t)> &run);

} // namespace mprt::cuda

#endif // MPCOMM_RUNTIME_DEVICE_CUDA_SCRATCH_H
