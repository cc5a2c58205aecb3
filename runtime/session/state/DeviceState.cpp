//===- DeviceState.cpp - the buffers of a program on a device -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/state/DeviceState.h"

#include <algorithm>
#include <cstring>

using namespace mprt;

/// State is fetched through pinned memory of at least so much.
static constexpr uint64_t leastFetched = 1 << 20;

Expected<DeviceState> DeviceState::create(mprt::Device &device,
                                          mprt::Context &context,
                                          RankState &state) {
  DeviceState made(device, context, state);
  if (!device.isAsynchronous())
    return made;
  auto allocate = [](mprt::Expected<void *> memory, char *&pointer) -> Error {
    if (!memory)
      return memory.error().withContext("buffers of the program: ");
    pointer = static_cast<char *>(*memory);
    return {};
  };
  if (Error status = allocate(device.allocate(state.bytes()), made.twin);
      status.failed())
    return status;
  uint64_t inputs = state.inputBytes();
  for (int k = 0; k < 2 && inputs; ++k) {
    if (Error status = allocate(device.allocate(inputs), made.area[k]);
        status.failed())
      return status;
    if (Error status = allocate(device.allocatePinned(inputs), made.pinned[k]);
        status.failed())
      return status;
    mprt::Expected<uint32_t> event = device.createEvent();
    if (!event)
      return event.error();
    made.arrived[k] = *event;
  }
  // Everything that is not state and not small is asked for by evaluation only;
  // results there are as large as they are.
  uint64_t most = leastFetched;
  for (const Slot &slot : state.all())
    if (!isState(slot.role) && !isInput(slot.role))
      most += slot.bytes;
  if (Error status = allocate(device.allocatePinned(most), made.fetched);
      status.failed())
    return status;
  made.fetchedBytes = most;
  for (const Slot &slot : state.all())
    if (isState(slot.role))
      if (Error status =
              device.upload(made.twin + slot.offset, slot.data, slot.bytes);
          status.failed())
        return status;
  state.useDevice(made.twin);
  return made;
}

void DeviceState::beginInputs() {
  current ^= 1;
  if (pinned[current])
    state->useInputs(pinned[current]);
}

Error DeviceState::sendInputs() {
  if (!pinned[current])
    return {};
  uint32_t stream = device->copyStream();
  if (mprt::Error error =
          device->copy(stream, area[current], pinned[current],
                       state->inputBytes(), mprt::CopyKind::ToDevice))
    return error.withContext("batch: ");
  return device->record(stream, arrived[current]);
}

Error DeviceState::placeInputs() {
  if (!pinned[current])
    return {};
  if (mprt::Error error = device->wait(MPRT_COMPUTE_STREAM, arrived[current]))
    return error.withContext("batch: ");
  // They lie at the begin of the buffers.
  return device->copy(MPRT_COMPUTE_STREAM, twin, area[current],
                      state->inputBytes(), mprt::CopyKind::OnDevice);
}

Error DeviceState::fetch(const std::vector<size_t> &slots) {
  if (!twin)
    return {};
  uint64_t at = 0;
  size_t first = 0;
  for (size_t i = 0; i <= slots.size(); ++i) {
    // All that fits goes in one round.
    bool ends = i == slots.size();
    uint64_t bytes = ends ? 0 : state->slot(slots[i]).bytes;
    if (ends || at + bytes > fetchedBytes) {
      if (Error status = context->synchronize(); status.failed())
        return status;
      for (uint64_t from = 0; first < i; ++first) {
        Slot &slot = state->slot(slots[first]);
        std::memcpy(slot.data, fetched + from, slot.bytes);
        from += slot.bytes;
      }
      at = 0;
    }
    if (ends)
      break;
    Slot &slot = state->slot(slots[i]);
    if (bytes > fetchedBytes) {
      // Nothing waits in the pinned area; this one takes the long way.
      if (Error status = device->download(slot.data, slot.device, slot.bytes);
          status.failed())
        return status;
      first = i + 1;
      continue;
    }
    if (Error status = device->copy(MPRT_COMPUTE_STREAM, fetched + at,
                                    slot.device, bytes, mprt::CopyKind::ToHost);
        status.failed())
      return status;
    at += bytes;
  }
  return {};
}

Error DeviceState::fetchState() {
  std::vector<size_t> slots;
  for (size_t i = 0; i < state->all().size(); ++i)
    if (isState(state->slot(i).role))
      slots.push_back(i);
  return fetch(slots);
}

Error DeviceState::store(const std::vector<size_t> &slots) {
  if (!twin)
    return {};
  for (size_t index : slots) {
    Slot &slot = state->slot(index);
    if (Error error = device->upload(slot.device, slot.data, slot.bytes))
      return error;
  }
  return {};
}
