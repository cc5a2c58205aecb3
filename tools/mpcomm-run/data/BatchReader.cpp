//===- BatchReader.cpp - batches, read ahead on a thread ------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See BatchReader.h.
//
//===----------------------------------------------------------------------===//

#include "data/BatchReader.h"

#include <algorithm>
#include <system_error>

using namespace mpcomm::run;

/// Of smaller datasets, and of smaller batches that are converted, gathering
/// takes less time than waking a thread.
static constexpr uint64_t leastDataset = 32 << 20, leastConverted = 256 << 10;

BatchReader::BatchReader(Dataset &data, Order order, bool isShuffled,
                         const ManifestFunction &function, uint64_t first,
                         uint64_t last, bool readsAhead)
    : data(data), order(std::move(order)), taken(first), ready(first) {
  // A session uses arrays at such addresses where they are.
  constexpr uint64_t alignment = 64;
  uint64_t bytes = 0;
  std::vector<std::pair<const ManifestArgument *, uint64_t>> places;
  for (size_t c = 0; c < data.columnCount(); ++c) {
    const ManifestArgument *argument =
        function.argumentOf(data.argumentOf(c).name);
    places.emplace_back(argument, bytes);
    if (argument)
      bytes += (argument->bytes + alignment - 1) / alignment * alignment;
  }
  bool isSlow = readsAhead || data.bytes() >= leastDataset ||
                (data.converts() && bytes >= leastConverted);
  used = isSlow ? depth : 1;
  for (Buffer &buffer : std::span(buffers, used)) {
    buffer.memory.reset(static_cast<char *>(
        std::aligned_alloc(alignment, std::max(bytes, alignment))));
    if (!buffer.memory)
      buffer.status =
          Error(MPRT_OUT_OF_MEMORY,
                "no memory for a batch of " + std::to_string(bytes) + " bytes");
    for (auto [argument, offset] : places) {
      char *target = argument ? buffer.memory.get() + offset : nullptr;
      buffer.targets.push_back(target);
      if (argument)
        buffer.arrays.push_back({argument->name.c_str(), target, argument->type,
                                 uint32_t(argument->shape.size()),
                                 argument->shape.data(), nullptr});
    }
  }
  data.expectOrder(isShuffled);
  if (last - first < 2 || bytes == 0 || !isSlow || buffers[0].status.failed())
    return;
  try {
    thread = std::thread([this, last] { serve(last); });
  } catch (const std::system_error &) {
    // Without a thread, each step gathers for itself.
  }
}

BatchReader::~BatchReader() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void BatchReader::serve(uint64_t last) {
  for (uint64_t step = ready; step < last; ++step) {
    {
      std::unique_lock<std::mutex> guard(mutex);
      changed.wait(guard, [&] { return stopping || step < taken + depth - 1; });
      if (stopping)
        return;
    }
    gather(step, bufferOf(step));
    {
      std::lock_guard<std::mutex> guard(mutex);
      ready = step + 1;
    }
    changed.notify_all();
  }
}

Expected<std::span<const mpcomm_array>> BatchReader::take(uint64_t step) {
  Buffer &buffer = bufferOf(step);
  if (!buffer.memory)
    return buffer.status;
  if (!thread.joinable()) {
    gather(step, buffer);
  } else {
    std::unique_lock<std::mutex> guard(mutex);
    if (step > taken) {
      taken = step;
      changed.notify_all();
    }
    changed.wait(guard, [&] { return ready > step; });
  }
  if (buffer.status.failed())
    return buffer.status;
  return std::span<const mpcomm_array>(buffer.arrays);
}
