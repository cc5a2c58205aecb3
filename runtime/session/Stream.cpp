//===- Stream.cpp - the queue of one communicator -------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Stream.h"

#include "comm/Validate.h"
#include "device/Device.h"
#include "support/DType.h"

using namespace mprt;

uint64_t Stream::push(const StreamWork &work) {
  uint64_t oldestKept = retired.load(std::memory_order_relaxed);
  if (pushed - oldestKept == ring.size()) {
    // Full: twice the size, each at its place modulo the new size.
    std::vector<StreamWork> larger(ring.size() * 2);
    for (uint64_t p = oldestKept; p < pushed; ++p)
      larger[p % larger.size()] = ring[p % ring.size()];
    ring = std::move(larger);
  }
  ring[pushed % ring.size()] = work;
  collectivesPushed += work.kind == StreamWork::Collective;
  return ++pushed;
}

void Stream::retire(Trace &trace, uint32_t number) {
  uint64_t position = retired.load(std::memory_order_relaxed) + 1;
  const StreamWork &work = at(position);
  std::optional<Communicator::Span> span;
  if (work.kind == StreamWork::Collective) {
    span = comm->takeSpan();
    flight.finish(work.flight, span ? span->begin : 0, span ? span->end : 0);
    if (clock.enabled() && !comm->isStreamOrdered())
      clock.finish(*work.collective, span ? span->begin : work.begin,
                   span ? span->end : nowNanoseconds());
  }
  // Of what a device orders, marks on its stream tell.
  if (trace.enabled() && !comm->isStreamOrdered()) {
    TraceEvent event{};
    event.stream = number;
    event.location = "";
    event.queued = work.queued;
    event.begin = work.begin;
    event.end = nowNanoseconds();
    event.position = position;
    event.bytes = work.bytes;
    switch (work.kind) {
    case StreamWork::Collective:
      event.kind = TraceEvent::Collective;
      event.collective = work.collective;
      if (span) {
        event.begin = span->begin;
        event.end = span->end;
      }
      event.name = work.collective->name
                       ? work.collective->name
                       : nameOf(mprt_collective_kind(work.collective->kind));
      if (work.collective->location)
        event.location = work.collective->location;
      break;
    case StreamWork::Copy:
      event.kind = TraceEvent::Copy;
      event.name = "copy";
      break;
    case StreamWork::Zero:
      event.kind = TraceEvent::Zero;
      event.name = "zero";
      break;
    case StreamWork::Wait:
      event.kind = TraceEvent::Wait;
      event.name = "wait";
      break;
    case StreamWork::Record:
      break;
    }
    if (work.kind != StreamWork::Record)
      trace.record(event);
  }
  retired.store(position, std::memory_order_release);
}

Error Stream::issueOnDevice(const StreamWork &work, uint32_t number) {
  switch (work.kind) {
  case StreamWork::Collective:
    break;
  case StreamWork::Copy:
    return device.copy(number, work.target, work.source, work.bytes,
                       CopyKind::OnDevice);
  case StreamWork::Zero:
    return device.zero(number, work.target, work.bytes);
  case StreamWork::Wait:
    --*work.eventUses;
    return device.wait(number, work.event);
  case StreamWork::Record:
    --*work.eventUses;
    return device.record(number, work.event);
  }
  return {};
}

Error Stream::issue(const std::function<bool(uint32_t, uint64_t)> &reachedOther,
                    Trace &trace, uint32_t number, bool &moved) {
  while (issued < pushed) {
    StreamWork &work = ring[issued % ring.size()];
    if (work.kind == StreamWork::Collective) {
      if (!comm->accepts())
        return {};
    } else if (!reached(issued)) {
      return {};
    }
    if ((trace.enabled() || clock.enabled()) && work.begin == 0)
      work.begin = nowNanoseconds();
    if (work.kind == StreamWork::Collective) {
      ++issued;
      moved = true;
      flight.start(work.flight);
      if (Error error = comm->start(*work.collective, work.source, work.target))
        return error;
      continue;
    }
    if (work.kind == StreamWork::Wait &&
        !reachedOther(work.otherStream, work.otherPosition))
      return {};
    if (Error error = issueOnDevice(work, number))
      return error;
    ++issued;
    moved = true;
    retire(trace, number);
  }
  return {};
}

Error Stream::progress(
    const std::function<bool(uint32_t, uint64_t)> &reachedOther, Trace &trace,
    uint32_t number, bool &moved) {
  while (!idle()) {
    bool again = false;
    if (Error error = issue(reachedOther, trace, number, again))
      return error;
    if (Error error = comm->progress(again))
      return error;
    while (collectivesRetired < comm->finishedCount()) {
      retire(trace, number);
      ++collectivesRetired;
    }
    if (!again)
      break;
    moved = true;
  }
  return {};
}
