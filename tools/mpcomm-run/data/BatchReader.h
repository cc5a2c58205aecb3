//===- BatchReader.h - batches, read ahead on a thread --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gathers the samples of one step after another. Where the dataset is so large
// that its pages may come from a disk, or where values are converted, a thread
// does so into one of two buffers while the step before runs, and the step only
// copies. What the thread finds wrong is told when its step is due.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_RUN_DATA_BATCHREADER_H
#define MPCOMM_RUN_DATA_BATCHREADER_H

#include "data/Dataset.h"
#include "session/state/RankState.h"

#include <condition_variable>
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

  /// Steps [first, last) of `data`, which outlives this, for the arguments of
  /// `binding`. Nobody else gathers from `data` meanwhile.
  BatchReader(Dataset &data, Order order, bool isShuffled,
              const Binding &binding, uint64_t first, uint64_t last);
  ~BatchReader();
  BatchReader(const BatchReader &) = delete;
  BatchReader &operator=(const BatchReader &) = delete;

  /// Stores the samples of `step` into the batch slots. Steps are taken in
  /// order, each of them once or more often.
  Error take(uint64_t step, RankState &state);

private:
  static constexpr uint64_t depth = 2;
  /// Where a column's samples of a step are.
  struct Place {
    size_t slot = 0;
    uint64_t offset = 0, bytes = 0;
    bool isUsed = false;
  };
  struct Buffer {
    std::vector<char> bytes;
    Error status;
  };

  void serve(uint64_t last);
  Error gather(uint64_t step, std::span<char *const> targets) {
    return data.gather(order(step), targets);
  }

  Dataset &data;
  Order order;
  std::vector<Place> places;
  std::vector<char *> targets;

  /// Steps [taken, ready) are in the buffers, each at its number modulo depth.
  Buffer buffers[depth];
  uint64_t taken, ready;
  bool stopping = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
};

} // namespace mpcomm::run

#endif // MPCOMM_RUN_DATA_BATCHREADER_H
