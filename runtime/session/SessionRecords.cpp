//===- SessionRecords.cpp - what the steps of a session cost --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Totals and flight record of the current program's context, and the trace of
// all programs, as the C ABI has them.
//
//===----------------------------------------------------------------------===//

#include "session/Session.h"

#include <algorithm>

using namespace mprt;

static const Error noProgram(MPRT_NOT_READY, "no program is loaded");

Error Session::totals(mpcomm_totals &filled) {
  if (programs.empty() || !state)
    return noProgram;
  auto average = [](uint64_t sum, uint64_t count, double unit = 1) {
    return count ? unit * double(sum) / double(count) : 0;
  };
  Stats stats = rank->context().stats();
  filled.is_asynchronous = rank->device().isAsynchronous();
  for (const LoadedProgram &loaded : programs)
    filled.arena_bytes += loaded.arenaBytes;
  filled.parameter_bytes =
      state->bytesOf(Role::Parameter) + state->bytesOf(Role::Buffer);
  filled.optimizer_bytes = state->bytesOf(Role::OptimizerState);
  filled.device_bytes = rank->deviceBytes();
  filled.exposed_milliseconds = 1e3 * stats.exposedSeconds();
  filled.eager_microseconds =
      average(stats.eagerNanoseconds, stats.eagerTimed, 1e-3);
  filled.eager_calls = average(stats.eagerCalls, stats.eagerSteps);
  filled.graph_microseconds =
      average(stats.graphNanoseconds, stats.graphTimed, 1e-3);
  filled.graph_nodes = average(stats.graphNodes, stats.graphSteps);
  filled.graph_kernels = average(stats.graphKernels, stats.graphSteps);
  filled.graph_copies = average(stats.graphCopies, stats.graphSteps);
  filled.graph_fills = average(stats.graphFills, stats.graphSteps);
  filled.first_launch_microseconds = average(
      stats.firstLaunchNanoseconds, stats.graphSteps - stats.graphTimed, 1e-3);
  filled.replay_inputs_microseconds =
      replays.medianMicroseconds(&ReplayTime::inputs);
  filled.replay_launch_microseconds =
      replays.medianMicroseconds(&ReplayTime::launch);
  filled.replay_wait_microseconds =
      replays.medianMicroseconds(&ReplayTime::wait);
  filled.replay_rest_microseconds =
      replays.medianMicroseconds(&ReplayTime::rest);
  filled.replay_idle_microseconds =
      replays.medianMicroseconds(&ReplayTime::idle);
  deviceName = rank->device().describe();
  graphNote = rank->context().graphNote();
  filled.device_name = deviceName.c_str();
  filled.graph_note = graphNote.c_str();
  deviceNote = rank->device().describeChoices();
  filled.device_note = deviceNote.c_str();
  return {};
}

Error Session::trace(std::span<mpcomm_trace_event> filled, uint32_t &count,
                     uint64_t &lost) const {
  if (programs.empty())
    return noProgram;
  struct OfProgram {
    TraceEvent event;
    uint32_t program;
  };
  std::vector<OfProgram> kept;
  lost = 0;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    const Trace &trace = rank->contextOf(i).trace();
    lost += trace.dropped();
    for (const TraceEvent &event : trace.events())
      kept.push_back({event, i});
  }
  // Each program's are in this order.
  std::stable_sort(kept.begin(), kept.end(),
                   [](const OfProgram &one, const OfProgram &other) {
                     return one.event.end < other.event.end;
                   });
  count = uint32_t(kept.size());
  size_t first = kept.size() - std::min(kept.size(), filled.size());
  for (size_t i = 0; i < kept.size() - first; ++i) {
    const auto &[event, program] = kept[first + i];
    filled[i] = {int32_t(event.kind), event.stream,   event.name,
                 event.location,      event.begin,    event.end,
                 event.bytes,         event.flops,    event.type,
                 event.queued,        event.position, event.collective,
                 event.waitedStream,  program};
  }
  return {};
}

Error Session::flight(std::span<mpcomm_flight_entry> filled,
                      uint32_t &count) const {
  std::unique_lock guard(changing, std::try_to_lock);
  if (!guard)
    return Error(MPRT_NOT_READY, "a program is being loaded");
  if (programs.empty())
    return noProgram;
  std::vector<FlightEntry> kept = rank->context().flight();
  count = uint32_t(kept.size());
  size_t first = kept.size() - std::min(kept.size(), filled.size());
  for (size_t i = 0; i < kept.size() - first; ++i) {
    const FlightEntry &entry = kept[first + i];
    const mprt_collective &call = entry.collective;
    int32_t peer = -1;
    if (call.peer >= 0)
      peer = int32_t(rank->groupOf(call.communicator).at(size_t(call.peer)));
    filled[i] = {entry.number,   entry.place,   call,      peer, 0,
                 entry.enqueued, entry.started, entry.done};
  }
  return {};
}
