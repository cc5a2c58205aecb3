//===- StepGraphs.cpp - steps as graphs, and their end --------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is captured by calling its entry point: a flat list of calls, the same
// each time. It is first run as it is, so that libraries have chosen, loaded
// and allocated whatever they want before a capture forbids that; and a second
// time, so that what that costs the host is known.
//
//===----------------------------------------------------------------------===//

#include "comm/Validate.h"
#include "session/Call.h"
#include "session/GraphVotes.h"
#include "support/Backoff.h"

#include <algorithm>
#include <ctime>
#include <tuple>

using namespace mprt;

using State = Context::State;

static constexpr uint64_t runsBeforeCapture = 2;

/// Sets of buffers that are kept as graphs. State that a program returns in
/// buffers of its own trades places with its arguments: two sets.
static constexpr size_t maxGraphs = 8;
/// Calls of an entry point, from the first that could be a replay on, in which
/// the ranks compare their graphs: long enough to see how sets alternate. Later
/// on they do so where there is a new set.
static constexpr uint64_t callsWithVotes = 2 * maxGraphs;

static uint64_t threadNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return uint64_t(time.tv_sec) * 1000000000u + uint64_t(time.tv_nsec);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static mprt_status runEagerly(State &state, mprt_entry entry,
                              void *const *buffers, void *arena) {
  OnDevice &on = *state.onDevice;
  if (on.graphMayRun)
    synchronize(state);
  uint64_t calls = on.calls, begin = threadNanoseconds();
  uint64_t waited = state.stats.waitedNanoseconds;
  auto status = mprt_status(
      entry(reinterpret_cast<mprt_context *>(&state), buffers, arena));
  settleAlone(state);
  // The first run loads and chooses. Where it waits for staged collectives it
  // spins, which is no work.
  if (on.eagerRuns[entry]++ == 0)
    return status;
  ++state.stats.eagerSteps;
  state.stats.eagerCalls += on.calls - calls;
  if (waited == state.stats.waitedNanoseconds) {
    ++state.stats.eagerTimed;
    state.stats.eagerNanoseconds += threadNanoseconds() - begin;
  }
  return status;
}

static mprt_status runGraph(State &state, OnDevice::Step &step) {
  OnDevice &on = *state.onDevice;
  if (on.calls != on.callsFinished)
    synchronize(state);
  if (state.failed())
    return state.status;
  uint64_t begin = threadNanoseconds();
  on.graphMayRun = true;
  for (const mprt_collective *collective : step.collectives) {
    uint64_t number = state.flight->enqueue(*collective, 0);
    state.flight->start(number);
    on.flights.push_back(number);
  }
  uint64_t launched = nowNanoseconds();
  if (Error error = state.device->launchGraph(*step.graph)) {
    auto guard = state.lock();
    return state.fail(error);
  }
  launched = nowNanoseconds() - launched;
  GraphNodes nodes = step.graph->nodes();
  ++state.stats.graphSteps;
  state.stats.graphNodes += nodes.all;
  state.stats.graphKernels += nodes.kernels;
  state.stats.graphCopies += nodes.copies;
  state.stats.graphFills += nodes.fills;
  state.stats.launches += step.stats.launches;
  state.stats.gemms += step.stats.gemms;
  state.stats.collectives += step.stats.collectives;
  state.stats.collectiveBytes += step.stats.collectiveBytes;
  if (step.isReplayed) {
    ++state.stats.graphTimed;
    state.stats.graphLaunchNanoseconds += launched;
    state.stats.graphNanoseconds += threadNanoseconds() - begin;
  } else {
    state.stats.firstLaunchNanoseconds += launched;
  }
  step.isReplayed = true;
  return state.status;
}

/// Captures a step; false where that cannot be, for on.note. That is no failure
/// of the context: the step is run call by call then, and so are all that
/// follow. What fails in a communicator is.
static Expected<bool> capture(State &state, mprt_entry entry,
                              void *const *buffers, void *arena,
                              OnDevice::Step &step) {
  OnDevice &on = *state.onDevice;
  Stats before = state.stats;
  uint64_t calls = on.calls;
  on.captured.clear();
  if (Error error = state.device->beginCapture()) {
    on.note = error.message();
    return false;
  }
  (void)entry(reinterpret_cast<mprt_context *>(&state), buffers, arena);
  Expected<std::unique_ptr<DeviceGraph>> graph = state.device->endCapture();
  step.stats = state.stats - before;
  state.stats = before;
  on.calls = calls;
  if (state.failed()) {
    on.note = state.failure.message();
    state.failure = {};
    state.status.store(MPRT_OK, std::memory_order_release);
    for (auto &stream : state.streams)
      if (Error error = stream->communicator().examine())
        return error;
    return false;
  }
  if (!graph) {
    on.note = graph.error().message();
    return false;
  }
  step.graph = graph.take();
  step.collectives = on.captured;
  return true;
}

/// The step with its graph, which is taken where there is none yet; null where
/// it is to run call by call, and so are all that follow, for on.note.
static Expected<OnDevice::Step *> findGraph(State &state, mprt_entry entry,
                                            void *const *buffers, size_t count,
                                            void *arena) {
  OnDevice &on = *state.onDevice;
  bool votes = votesOnGraphs(state);
  auto found = std::find_if(
      on.steps.begin(), on.steps.end(), [&](const OnDevice::Step &step) {
        return step.entry == entry && step.buffers.size() == count + 1 &&
               step.buffers.back() == arena &&
               std::equal(buffers, buffers + count, step.buffers.begin());
      });
  bool has = found != on.steps.end();
  GraphVote mine;
  mine.call = ++on.laterCalls[entry];
  if (has && (!votes || mine.call > callsWithVotes))
    return &*found;
  if (!on.wantsGraphs)
    on.note = "its steps are to run call by call";
  else if (!has && on.steps.size() == maxGraphs)
    on.note = "the buffers change with each step: there are more than " +
              std::to_string(maxGraphs) + " sets of them";
  auto vote = [&](GraphVote::State all) -> Expected<GraphVote::State> {
    mine.state = all;
    mine.setReason(on.note);
    return voteOnGraph(state, mine, on.note);
  };
  if (votes) {
    mine.graph = uint32_t(found - on.steps.begin());
    Expected<GraphVote::State> all = vote(!on.note.empty() ? GraphVote::Refuses
                                          : has            ? GraphVote::Has
                                                           : GraphVote::Takes);
    if (!all)
      return all.error();
    if (*all == GraphVote::Has)
      return &*found;
  }
  OnDevice::Step step;
  if (on.note.empty()) {
    Expected<bool> captured = capture(state, entry, buffers, arena, step);
    if (votes) {
      if (!captured) {
        on.note = captured.error().message();
        // One that waits for this rank inside its own capture does not vote.
        state.transport->reportFailure(captured.error());
      }
      Expected<GraphVote::State> all = vote(!captured   ? GraphVote::Fails
                                            : *captured ? GraphVote::Takes
                                                        : GraphVote::Refuses);
      if (captured && !all)
        return all.error();
    }
    if (!captured)
      return captured.error();
  }
  if (!on.note.empty()) {
    on.agreedOnNone = true;
    on.steps.clear();
    return static_cast<OnDevice::Step *>(nullptr);
  }
  step.entry = entry;
  step.buffers.assign(buffers, buffers + count);
  step.buffers.push_back(arena);
  on.steps.push_back(std::move(step));
  return &on.steps.back();
}

mprt_status mprt::runStep(State &state, mprt_entry entry, void *const *buffers,
                          size_t count, void *arena) {
  OnDevice &on = *state.onDevice;
  if (state.failed())
    return state.status;
  // A rank that wants none has to tell the others so.
  bool wants = votesOnGraphs(state) || (on.wantsGraphs && on.note.empty());
  if (on.agreedOnNone || !wants || on.eagerRuns[entry] < runsBeforeCapture)
    return runEagerly(state, entry, buffers, arena);
  Expected<OnDevice::Step *> step =
      findGraph(state, entry, buffers, count, arena);
  if (!step) {
    auto guard = state.lock();
    return state.fail(step.error());
  }
  return *step ? runGraph(state, **step)
               : runEagerly(state, entry, buffers, arena);
}

//===----------------------------------------------------------------------===//
// The end of a step
//===----------------------------------------------------------------------===//

static Error describeTimeout(State &state) {
  for (uint32_t i = 0; i < state.streams.size(); ++i)
    if (!state.streams[i]->idle())
      return state.timeoutError(MPRT_COMM_STREAM(i),
                                state.options.timeoutSeconds);
  // Of a step that is a graph it is not known how far it has come.
  const std::vector<uint64_t> &flights = state.onDevice->flights;
  for (const FlightEntry &entry : state.flight->entries()) {
    if (flights.empty() || entry.number < flights.front())
      continue;
    std::string peers = state.streams[entry.collective.communicator]
                            ->communicator()
                            .describePeers();
    return makeError(MPRT_TIMEOUT, describe(entry.collective), " on rank ",
                     state.transport->rank(),
                     flights.size() > 1 ? ", or another of the " : "",
                     flights.size() > 1 ? std::to_string(flights.size()) : "",
                     flights.size() > 1 ? " collectives that were started" : "",
                     ": timed out: the device did nothing for ",
                     state.options.timeoutSeconds, " s",
                     peers.empty() ? "" : "; ", peers);
  }
  return makeError(
      MPRT_TIMEOUT, "rank ", state.transport ? state.transport->rank() : 0,
      ": timed out: the device did nothing for ", state.options.timeoutSeconds,
      " s, and a collective of the step may wait for a peer");
}

/// A failure of a peer that the device's collectives may wait for.
static std::optional<Error> findFailedPeer(State &state) {
  if (!state.transport)
    return std::nullopt;
  std::optional<Error> failure = state.transport->reportedFailure();
  for (auto &stream : state.streams)
    for (unsigned rank : stream->communicator().worldRanks())
      if (!failure && rank != state.transport->rank() &&
          stream->communicator().isStreamOrdered())
        failure = state.transport->examineRank(rank);
  return failure;
}

static void waitForStream(State &state, uint32_t stream) {
  Backoff backoff(state.ranks);
  uint64_t begin = nowNanoseconds();
  uint64_t seenMoves = state.moves.load(std::memory_order_relaxed);
  auto timeout = uint64_t(state.options.timeoutSeconds * 1e9);
  while (!state.failed()) {
    Expected<bool> done = state.device->finished(stream);
    if (!done) {
      auto guard = state.lock();
      const std::vector<OnDevice::Last> &last = state.onDevice->last;
      state.fail(describeLoss(
          state, stream, stream < last.size() ? last[stream] : OnDevice::Last(),
          done.error()));
      return;
    }
    if (*done)
      return;
    if (!state.threaded)
      state.progressLocked();
    if (!backoff.pause())
      continue;
    for (auto &queue : state.streams)
      if (Error error = queue->communicator().examine()) {
        auto guard = state.lock();
        state.fail(error);
        return;
      }
    if (std::optional<Error> failure = findFailedPeer(state)) {
      // What is done by now is not lost to it.
      if (done = state.device->finished(stream); done && *done)
        return;
      auto guard = state.lock();
      state.fail(*failure);
      return;
    }
    uint64_t moves = state.moves.load(std::memory_order_relaxed);
    uint64_t now = nowNanoseconds();
    if (moves != seenMoves)
      begin = now;
    seenMoves = moves;
    // A program that talks to nobody may take as long as it likes.
    if (state.transport && state.transport->size() > 1 &&
        !state.streams.empty() && now - begin >= timeout) {
      auto guard = state.lock();
      state.fail(describeTimeout(state));
    }
  }
}

/// Traces what lay between marks; the device is idle.
static Error traceTimed(State &state) {
  OnDevice &on = *state.onDevice;
  std::vector<TraceEvent> events;
  for (OnDevice::Timed &timed : on.timed) {
    Expected<uint64_t> begin = state.device->timeOf(timed.begin);
    Expected<uint64_t> end = begin ? state.device->timeOf(timed.end)
                                   : Expected<uint64_t>(begin.error());
    if (!end)
      return end.error();
    timed.event.begin = *begin;
    timed.event.end = std::max(*begin, *end);
    events.push_back(timed.event);
  }
  on.timed.clear();
  std::sort(events.begin(), events.end(),
            [](const TraceEvent &a, const TraceEvent &b) {
              return std::tie(a.end, a.begin) < std::tie(b.end, b.begin);
            });
  {
    auto guard = state.lock();
    for (const TraceEvent &event : events)
      state.trace.record(event);
  }
  return state.device->clearMarks();
}

void mprt::synchronize(State &state) {
  OnDevice &on = *state.onDevice;
  // All that is queued comes to the device; of what the device orders, the
  // queue learns when it is done there.
  auto waitForQueues = [&](bool ordered) {
    for (uint32_t i = 0; i < state.streams.size(); ++i)
      if (on.ordered[i] == ordered)
        state.wait(MPRT_COMM_STREAM(i), state.streams[i]->end());
  };
  waitForQueues(false);
  uint64_t begin = nowNanoseconds();
  for (uint32_t stream = 0; stream <= state.device->programStreams(); ++stream)
    waitForStream(state, stream);
  state.stats.deviceNanoseconds += nowNanoseconds() - begin;
  waitForQueues(true);
  if (state.failed())
    return;
  on.callsFinished = on.calls;
  on.graphMayRun = false;
  for (uint64_t number : on.flights)
    state.flight->finish(number);
  on.flights.clear();
  if (!state.trace.enabled())
    return;
  if (Error error = traceTimed(state)) {
    auto guard = state.lock();
    state.fail(error);
  }
}
