//===- BatchReader.h - batches, read ahead on a thread --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gathers the samples of one step after another. Where the dataset is so large
// that its pages may come from a disk, where values are converted, or where a
// device computes meanwhile, a thread does so while the step before runs. What
// the thread finds wrong is told when its step is due.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_BATCHREADER_H
#define MPCOMM_RUN_DATA_BATCHREADER_H

#include "data/Dataset.h"

#include "mpcomm/Runtime/Session.h"

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mpcomm::run {

class BatchReader {
public:
  /// Gives the indices of a step's samples; valid until the next call.
  using Order = std::function<std::span<const uint64_t>(uint64_t step)>;

  /// Steps [first, last) of `data` for the arguments of `function`, both of
  /// which outlive this. Nobody else gathers from `data` meanwhile.
  BatchReader(Dataset &data, Order order, bool isShuffled,
              const ManifestFunction &function, uint64_t first, uint64_t last,
              bool readsAhead = false);
  ~BatchReader();
  BatchReader(const BatchReader &) = delete;
  BatchReader &operator=(const BatchReader &) = delete;

  /// The samples of `step`. They stay where they are until the next one is
  /// taken, or where this reads ahead, the one after that. Steps are taken in
  /// order, each once or more often.
  Expected<std::span<const mpcomm_array>> take(uint64_t step);

private:
  /// Of the step that is taken, the one before, and the next one.
  static constexpr uint64_t depth = 3;
  struct Buffer {
    std::unique_ptr<char, void (*)(void *)> memory{nullptr, std::free};
    /// By column of the data; null where the function does not take it.
    std::vector<char *> targets;
    std::vector<mpcomm_array> arrays;
    Error status;
  };

  void serve(uint64_t last);
  void gather(uint64_t step, Buffer &buffer) {
    buffer.status = data.gather(order(step), buffer.targets);
  }
  Buffer &bufferOf(uint64_t step) { return buffers[step % used]; }

  Dataset &data;
  Order order;

  /// With a thread, steps [taken - 1, ready) are in the buffers; where each
  /// step gathers for itself, one is used, and stays warm.
  Buffer buffers[depth];
  uint64_t used = 1;
  uint64_t taken, ready;
  bool stopping = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_BATCHREADER_H
