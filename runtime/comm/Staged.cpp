//===- Staged.cpp - collectives of the host for buffers of a device -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Staged.h"

#include "comm/Validate.h"
#include "support/DType.h"
#include "support/Trace.h"

#include <algorithm>

using namespace mprt;

static constexpr uint64_t alignment = 256;

Error StagedCommunicator::atCollective(const Error &error) const {
  return error.withContext(describe(*current) + ": ");
}

Error StagedCommunicator::reserve(uint64_t bytes) {
  if (bytes <= areaBytes)
    return {};
  // What is still copied up from the old one stays there: it goes with the
  // device. Doubling keeps the sum below twice the largest.
  uint64_t wanted = std::max(bytes, areaBytes * 2);
  Expected<void *> memory = device.allocatePinned(wanted);
  if (!memory)
    return memory.error();
  area = static_cast<char *>(*memory);
  areaBytes = wanted;
  return {};
}

Error StagedCommunicator::start(const mprt_collective &collective,
                                const void *send, void *recv) {
  uint64_t element = sizeOf(mprt_dtype(collective.type));
  // What is not read stays where it is.
  uint64_t sendBytes = isSource(collective, rank())
                           ? sendElements(collective, size()) * element
                           : 0;
  uint64_t recvBytes = recvElements(collective, size()) * element;

  // In place here is in place there, at the same distance.
  auto from = reinterpret_cast<uintptr_t>(send);
  auto to = reinterpret_cast<uintptr_t>(recv);
  bool overlaps =
      sendBytes && recvBytes && from < to + recvBytes && to < from + sendBytes;
  uint64_t sendAt = 0, recvAt = (sendBytes + alignment - 1) & -alignment;
  if (overlaps) {
    uintptr_t lowest = std::min(from, to);
    sendAt = from - lowest;
    recvAt = to - lowest;
  }
  current = &collective;
  if (Error error = reserve(std::max(sendAt + sendBytes, recvAt + recvBytes)))
    return atCollective(error);
  staged[0] = sendBytes ? area + sendAt : nullptr;
  staged[1] = recvBytes ? area + recvAt : nullptr;
  target = recv;
  targetBytes = recvBytes;
  if (sendBytes)
    if (Error error =
            device.copy(stream, staged[0], send, sendBytes, CopyKind::ToHost))
      return atCollective(error);
  phase = Phase::Down;
  return {};
}

Error StagedCommunicator::progress(bool &moved) {
  if (phase == Phase::Down) {
    // All before it on the stream, its copy down the last of it.
    Expected<bool> down = device.finished(stream);
    if (!down)
      return atCollective(down.error());
    if (!*down)
      return {};
    span = Span{nowNanoseconds(), 0};
    if (Error error = host->start(*current, staged[0], staged[1]))
      return error;
    phase = Phase::Running;
    moved = true;
  }
  if (phase != Phase::Running)
    return {};
  if (Error error = host->progress(moved))
    return error;
  if (host->finishedCount() == finished)
    return {};
  (void)host->takeSpan();
  if (targetBytes)
    if (Error error = device.copy(stream, target, staged[1], targetBytes,
                                  CopyKind::ToDevice))
      return atCollective(error);
  span->end = nowNanoseconds();
  phase = Phase::Idle;
  ++finished;
  moved = true;
  return {};
}
