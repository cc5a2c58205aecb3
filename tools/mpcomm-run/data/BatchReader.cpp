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
#include <cstring>
#include <system_error>

using namespace mpcomm::run;

/// Of smaller datasets, and of smaller batches that are converted, gathering
/// takes less time than waking a thread.
static constexpr uint64_t leastDataset = 32 << 20, leastConverted = 256 << 10;

BatchReader::BatchReader(Dataset &data, Order order, bool isShuffled,
                         const Binding &binding, uint64_t first, uint64_t last)
    : data(data), order(std::move(order)), taken(first), ready(first) {
  const std::vector<ManifestArgument> &arguments = binding.function->arguments;
  uint64_t bytes = 0;
  for (size_t c = 0; c < data.columnCount(); ++c) {
    Place place;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].name == data.argumentOf(c).name)
        place = {binding.arguments[i], bytes, arguments[i].bytes, true};
    places.push_back(place);
    bytes += place.bytes;
  }
  targets.resize(places.size());
  data.expectOrder(isShuffled);
  bool isSlow = data.bytes() >= leastDataset ||
                (data.converts() && bytes >= leastConverted);
  if (last - first < 2 || bytes == 0 || !isSlow)
    return;
  for (Buffer &buffer : buffers)
    buffer.bytes.resize(bytes);
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
  std::vector<char *> own(places.size());
  for (uint64_t step = ready; step < last; ++step) {
    Buffer &buffer = buffers[step % depth];
    {
      std::unique_lock<std::mutex> guard(mutex);
      changed.wait(guard, [&] { return stopping || step < taken + depth; });
      if (stopping)
        return;
    }
    for (size_t c = 0; c < places.size(); ++c)
      own[c] =
          places[c].isUsed ? buffer.bytes.data() + places[c].offset : nullptr;
    buffer.status = gather(step, own);
    {
      std::lock_guard<std::mutex> guard(mutex);
      ready = step + 1;
    }
    changed.notify_all();
  }
}

Error BatchReader::take(uint64_t step, RankState &state) {
  for (size_t c = 0; c < places.size(); ++c)
    targets[c] = places[c].isUsed ? state.slot(places[c].slot).data : nullptr;
  if (!thread.joinable())
    return gather(step, targets);
  {
    std::unique_lock<std::mutex> guard(mutex);
    // A step that is taken again is the one before; its buffer is left until
    // the next one is taken.
    if (step > taken) {
      taken = step;
      changed.notify_all();
    }
    changed.wait(guard, [&] { return ready > step; });
  }
  const Buffer &buffer = buffers[step % depth];
  if (buffer.status.failed())
    return buffer.status;
  for (size_t c = 0; c < places.size(); ++c)
    if (targets[c])
      std::memcpy(targets[c], buffer.bytes.data() + places[c].offset,
                  places[c].bytes);
  return {};
}
