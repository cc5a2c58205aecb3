//===- Streams.cpp - streams and events of the fake driver ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "State.h"

#include <algorithm>
#include <atomic>

using namespace fake;

//===----------------------------------------------------------------------===//
// Enqueuing
//===----------------------------------------------------------------------===//

std::shared_ptr<Stream> fake::findStream(const Entry &entry, CUstream handle) {
  auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 1) // the null stream, CU_STREAM_LEGACY
    return entry.context->legacy;
  return state().streams.find(handle);
}

static bool isBlocking(const Stream &stream) {
  return !(stream.flags & CU_STREAM_NON_BLOCKING);
}

/// The nodes that the next one of a stream comes after: the stream's end, and
/// for the legacy stream those of all blocking streams, and the other way
/// round.
static std::vector<std::shared_ptr<Node>> nodesBefore(const Stream &stream) {
  std::vector<std::shared_ptr<Node>> nodes = {stream.end.node};
  const Stream &legacy = *stream.context->legacy;
  if (&stream != &legacy && isBlocking(stream))
    nodes.push_back(legacy.end.node);
  if (&stream == &legacy)
    for (const auto &[handle, other] : state().streams)
      if (other->context == stream.context && isBlocking(*other))
        nodes.push_back(other->end.node);
  return nodes;
}

static CUresult add(Stream &stream, Work work,
                    std::vector<std::shared_ptr<Node>> before,
                    std::shared_ptr<Node> *node) {
  if (&stream == stream.context->legacy.get())
    for (const auto &[handle, other] : state().streams)
      if (other->context == stream.context && isBlocking(*other) &&
          other->isCapturing()) {
        other->end.capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  stream.end.node = state().scheduler.add(
      *stream.context, stream.group,
      std::make_shared<const Work>(std::move(work)), before);
  if (node)
    *node = stream.end.node;
  return CUDA_SUCCESS;
}

CUresult fake::enqueue(Stream &stream, Work work, std::shared_ptr<Node> *node) {
  if (!stream.isCapturing())
    return add(stream, std::move(work), nodesBefore(stream), node);
  Capture &capture = *stream.end.capture;
  if (capture.invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture.graph->nodes.push_back({std::make_shared<const Work>(std::move(work)),
                                  stream.group, stream.priority,
                                  stream.end.tail});
  stream.end.tail = {capture.graph->nodes.size() - 1};
  return CUDA_SUCCESS;
}

/// Synchronising with a stream that is being captured ends the capture.
static CUresult refuseCapturing(Stream &stream) {
  if (!stream.isCapturing())
    return refuseWhileCapturing();
  stream.end.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

#define FAKE_STREAM(handle)                                                    \
  std::shared_ptr<Stream> stream = findStream(entry, handle);                  \
  if (!stream)                                                                 \
  return CUDA_ERROR_INVALID_HANDLE

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
  FAKE_ENTER(cuStreamCreate, Current);
  if (!handle || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUstream>(state().streams.add(std::make_shared<Stream>(
      Stream{entry.context, flags, 0, state().groups++, {}})));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags,
                                    int priority) {
  FAKE_ENTER(cuStreamCreateWithPriority, Current);
  if (!handle || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUstream>(state().streams.add(std::make_shared<Stream>(
      Stream{entry.context, flags, priority, state().groups++, {}})));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  FAKE_ENTER(cuStreamDestroy_v2, Current);
  std::shared_ptr<Stream> stream = state().streams.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->isCapturing())
    stream->end.capture->invalid = true;
  state().streams.erase(handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  FAKE_ENTER(cuStreamSynchronize, Current);
  FAKE_STREAM(handle);
  if (CUresult error = refuseCapturing(*stream))
    return error;
  state().scheduler.waitFor(entry.lock, nodesBefore(*stream));
  return entry.context->error;
}

CUresult cuStreamQuery(CUstream handle) {
  FAKE_ENTER(cuStreamQuery, Current);
  FAKE_STREAM(handle);
  if (CUresult error = refuseCapturing(*stream))
    return error;
  for (const std::shared_ptr<Node> &node : nodesBefore(*stream))
    if (node && !node->done) {
      state().scheduler.nudge();
      return CUDA_ERROR_NOT_READY;
    }
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  FAKE_ENTER(cuLaunchHostFunc, Current);
  FAKE_STREAM(handle);
  if (!function)
    return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.kind = Work::Host;
  work.name = "a host function";
  work.run = [function, data] {
    function(data);
    return CUDA_SUCCESS;
  };
  return enqueue(*stream, std::move(work));
}

/// Waits and writes by a stream go to aligned words that the device can reach.
static CUresult checkWord(CUdeviceptr address) {
  bool good =
      address % 4 == 0 && address && state().memory.covers(address, 4, false);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamWaitValue32_v2(CUstream handle, CUdeviceptr address,
                                cuuint32_t value, unsigned flags) {
  FAKE_ENTER(cuStreamWaitValue32_v2, Current);
  FAKE_STREAM(handle);
  if (flags > CU_STREAM_WAIT_VALUE_NOR)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = checkWord(address))
    return error;
  Work work;
  work.kind = Work::Poll;
  work.name = "cuStreamWaitValue32";
  work.touched = {{address, 4}};
  auto *word = reinterpret_cast<uint32_t *>(state().memory.translate(address));
  work.holds = [word, value, flags] {
    uint32_t now = std::atomic_ref<uint32_t>(*word).load();
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return int32_t(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return ~(now | value) != 0;
    }
  };
  return enqueue(*stream, std::move(work));
}

CUresult cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address,
                                 cuuint32_t value, unsigned flags) {
  FAKE_ENTER(cuStreamWriteValue32_v2, Current);
  FAKE_STREAM(handle);
  if (flags > 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = checkWord(address))
    return error;
  Work work;
  work.kind = Work::Device;
  work.name = "cuStreamWriteValue32";
  work.touched = {{address, 4}};
  auto *word = reinterpret_cast<uint32_t *>(state().memory.translate(address));
  work.run = [word, value] {
    std::atomic_ref<uint32_t>(*word).store(value);
    return CUDA_SUCCESS;
  };
  return enqueue(*stream, std::move(work));
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

#define FAKE_EVENT(event, handle)                                              \
  std::shared_ptr<Event> event = state().events.find(handle);                  \
  if (!event)                                                                  \
  return CUDA_ERROR_INVALID_HANDLE

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  FAKE_ENTER(cuEventCreate, Current);
  if (!handle || flags > 7 ||
      ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUevent>(state().events.add(
      std::make_shared<Event>(Event{entry.context, flags, false, {}})));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  FAKE_ENTER(cuEventDestroy_v2, Current);
  return state().events.erase(handle) ? CUDA_SUCCESS
                                      : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent eventHandle, CUstream handle) {
  FAKE_ENTER(cuEventRecord, Current);
  FAKE_EVENT(event, eventHandle);
  FAKE_STREAM(handle);
  if (event->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->isCapturing()) {
    if (stream->end.capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else {
    Work mark;
    mark.name = "cuEventRecord";
    if (CUresult error = enqueue(*stream, std::move(mark)))
      return error;
  }
  event->recorded = true;
  event->mark = stream->end;
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent eventHandle,
                           unsigned flags) {
  FAKE_ENTER(cuStreamWaitEvent, Current);
  FAKE_STREAM(handle);
  FAKE_EVENT(event, eventHandle);
  if (flags > 1)
    return CUDA_ERROR_INVALID_VALUE;
  const Mark &mark = event->mark;
  Mark &end = stream->end;
  if (mark.capture) {
    if (mark.capture->ended)
      return CUDA_ERROR_CAPTURED_EVENT;
    if (mark.capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (end.capture && end.capture != mark.capture) {
      end.capture->invalid = mark.capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream == stream->context->legacy) {
      mark.capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    end.capture = mark.capture; // the stream takes part from here on
    for (size_t node : mark.tail)
      if (std::find(end.tail.begin(), end.tail.end(), node) == end.tail.end())
        end.tail.push_back(node);
    return CUDA_SUCCESS;
  }
  if (end.capture) {
    if (end.capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    end.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->recorded)
    return CUDA_SUCCESS;
  Work wait;
  wait.name = "cuStreamWaitEvent";
  std::vector<std::shared_ptr<Node>> before = nodesBefore(*stream);
  before.push_back(mark.node);
  return add(*stream, std::move(wait), std::move(before), nullptr);
}

CUresult cuEventQuery(CUevent handle) {
  FAKE_ENTER(cuEventQuery, Current);
  FAKE_EVENT(event, handle);
  if (event->mark.capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  if (CUresult error = refuseWhileCapturing())
    return error;
  if (!event->recorded || event->mark.node->done)
    return CUDA_SUCCESS;
  state().scheduler.nudge();
  return CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  FAKE_ENTER(cuEventSynchronize, Current);
  FAKE_EVENT(event, handle);
  if (event->mark.capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  if (CUresult error = refuseWhileCapturing())
    return error;
  state().scheduler.waitFor(entry.lock, {event->mark.node});
  return entry.context->error;
}

static CUresult elapsed(float *milliseconds, CUevent startHandle,
                        CUevent endHandle) {
  FAKE_EVENT(start, startHandle);
  FAKE_EVENT(end, endHandle);
  if (!milliseconds)
    return CUDA_ERROR_INVALID_VALUE;
  if (start->mark.capture || end->mark.capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  if (!start->recorded || !end->recorded ||
      ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!start->mark.node->done || !end->mark.node->done)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(
                      end->mark.node->doneAt - start->mark.node->doneAt)
                      .count();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  FAKE_ENTER(cuEventElapsedTime, Current);
  return elapsed(milliseconds, start, end);
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start,
                               CUevent end) {
  FAKE_ENTER(cuEventElapsedTime_v2, Current);
  return elapsed(milliseconds, start, end);
}
