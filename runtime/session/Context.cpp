//===- Context.cpp - progress, waiting, failing ---------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/Context.h"

#include "comm/Staged.h"
#include "comm/Validate.h"
#include "device/host/HostDevice.h"
#include "session/OnDevice.h"
#include "support/Backoff.h"
#include "support/DType.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace mprt;

/// How long a wait blocks where a communicator moves by itself, before it looks
/// at other streams and at the clock.
static constexpr double blockedSeconds = 1e-3;
/// Nanoseconds between two looks at the clock that are more than a busy machine
/// accounts for: this process was stopped, and perhaps its peers with it.
static constexpr uint64_t stoppedNanoseconds = 1'000'000'000;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

mprt_status Context::State::fail(const Error &error) {
  if (failed())
    return status;
  std::string more;
  // A step that cannot be captured is run again.
  if (!device->isCapturing()) {
    // First, since an abort may take its time. What a peer told us it has told
    // the others as well.
    if (transport && error.status() != MPRT_PEER_FAILED)
      transport->reportFailure(error);
    // A communicator has no end while a graph is there that it was captured
    // into. What runs of a graph runs on without it.
    onDevice->steps.clear();
    for (auto &stream : streams)
      if (Error late = stream->communicator().abort())
        more += "; " + late.message();
  }
  failure = error.withContext("", more);
  status.store(error.status(), std::memory_order_release);
  return error.status();
}

const mprt_collective *Context::State::collectiveAt(uint32_t stream,
                                                    uint64_t position) const {
  const Stream &queue = *streams[stream - 1];
  for (; position && queue.remembers(position); --position)
    if (queue.at(position).kind == StreamWork::Collective)
      return queue.at(position).collective;
  return nullptr;
}

std::string Context::State::describeOldest(uint32_t stream) const {
  const StreamWork &work = streams[stream - 1]->oldest();
  bool isCollective = work.kind == StreamWork::Collective;
  std::string text = isCollective ? describe(*work.collective)
                                  : "work on stream " + std::to_string(stream);
  text += " on rank " + std::to_string(transport ? transport->rank() : 0);
  if (isCollective && work.flight)
    text += " (its collective " + std::to_string(work.flight) + ")";
  return text;
}

Error Context::State::timeoutError(uint32_t stream, double seconds) const {
  std::string peers = streams[stream - 1]->communicator().describePeers();
  return makeError(MPRT_TIMEOUT, describeOldest(stream),
                   ": timed out: nothing moved for ", seconds, " s",
                   peers.empty() ? "" : "; ", peers);
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

bool Context::State::progressLocked() {
  if (failed())
    return false;
  bool moved = false;
  uint32_t left = 0;
  for (uint32_t i = 0; i < streams.size(); ++i) {
    Stream &stream = *streams[i];
    if (stream.idle())
      continue;
    if (Error error =
            stream.progress(reachedOther, trace, MPRT_COMM_STREAM(i), moved)) {
      fail(error);
      return true;
    }
    left += !stream.idle();
  }
  if (left == 0)
    inFlight.store(0, std::memory_order_relaxed);
  if (moved)
    moves.fetch_add(1, std::memory_order_relaxed);
  return moved;
}

void Context::State::pollStreams() {
  // What is captured does not run, and asking for it would end the capture.
  if (device->isCapturing())
    return;
  uint64_t begin = nowNanoseconds();
  if (progressLocked())
    stats.progressNanoseconds += nowNanoseconds() - begin;
}

void Context::State::threadMain() {
  Backoff backoff(ranks + 1);
  std::unique_lock<std::mutex> guard(mutex);
  while (!stopping) {
    if (inFlight.load(std::memory_order_relaxed) == 0 || failed()) {
      wake.wait(guard);
      backoff.reset();
      continue;
    }
    if (progressLocked()) {
      backoff.reset();
      continue;
    }
    Communicator *first = nullptr;
    for (auto &stream : streams)
      if (!first && !stream->idle())
        first = &stream->communicator();
    guard.unlock();
    if (!first || !first->waitForMove(blockedSeconds))
      backoff.pause();
    guard.lock();
  }
}

uint64_t Context::State::enqueue(uint32_t stream, const StreamWork &work) {
  auto guard = lock();
  StreamWork pushed = work;
  if (trace.enabled())
    pushed.queued = nowNanoseconds();
  uint64_t position = comm(stream).push(pushed);
  inFlight.store(1, std::memory_order_relaxed);
  if (threaded)
    wake.notify_one();
  else
    pollStreams();
  return position;
}

uint64_t mprt::payloadOf(const mprt_collective &collective) {
  return collective.kind == MPRT_BARRIER
             ? 0
             : collective.count * sizeOf(mprt_dtype(collective.type));
}

Error Context::State::checkCollective(uint32_t stream,
                                      const mprt_collective &collective,
                                      const void *send,
                                      const void *recv) const {
  unsigned rank = transport ? transport->rank() : 0;
  if (stream == MPRT_COMPUTE_STREAM || !isStream(stream) ||
      stream != MPRT_COMM_STREAM(collective.communicator))
    return makeError(MPRT_INVALID_ARGUMENT, describe(collective), " on rank ",
                     rank, ": communicator ", collective.communicator,
                     " has no stream ", stream, " (there are ", streams.size(),
                     " communicators)");
  const Communicator &communicator = streams[stream - 1]->communicator();
  if (Error error = validateCollective(collective, communicator.size(),
                                       communicator.rank(), send, recv))
    return error.withContext("", " (rank " + std::to_string(rank) + ")");
  if (Error error = communicator.check(collective))
    return error.withContext("", " (rank " + std::to_string(rank) + ")");
  return {};
}

uint64_t Context::State::enqueueCollective(uint32_t stream,
                                           const mprt_collective &collective,
                                           const void *send, void *recv) {
  if (Error error = checkCollective(stream, collective, send, recv)) {
    auto guard = lock();
    fail(error);
    return 0;
  }
  StreamWork work{};
  work.kind = StreamWork::Collective;
  work.collective = &collective;
  work.source = send;
  work.target = recv;
  work.bytes = payloadOf(collective);
  work.flight = flight->enqueue(collective, comm(stream).numCollectives() + 1);
  ++stats.collectives;
  stats.collectiveBytes += work.bytes;
  return enqueue(stream, work);
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

void Context::State::wait(uint32_t stream, uint64_t position) {
  Stream &queue = comm(stream);
  if (queue.reached(position) || failed())
    return;
  uint64_t begin = nowNanoseconds(), lastMove = begin, lastLook = begin;
  Backoff backoff(ranks);
  auto timeout = uint64_t(options.timeoutSeconds * 1e9);
  uint64_t seenMoves = moves.load(std::memory_order_relaxed);
  while (!queue.reached(position) && !failed()) {
    if (!threaded)
      progressLocked();
    uint64_t nowMoves = moves.load(std::memory_order_relaxed);
    if (nowMoves != seenMoves) {
      seenMoves = nowMoves;
      backoff.reset();
      lastMove = 0; // the clock is read at the next check
      continue;
    }
    bool check =
        queue.communicator().waitForMove(blockedSeconds) || backoff.pause();
    // A failure of any rank ends the wait, also where the work could be
    // finished without that rank: the step cannot. What is done by now is not
    // lost to it, which one more turn tells.
    if (transport) {
      std::optional<Error> failure = transport->reportedFailure();
      if (check && !failure) {
        auto guard = lock();
        for (unsigned r : queue.communicator().waitingFor())
          if (!failure)
            failure = transport->examineRank(r);
      }
      if (failure) {
        auto guard = lock();
        progressLocked();
        if (queue.reached(position) || failed())
          break;
        fail(failure->withContext(describeOldest(stream) + ": "));
        break;
      }
    }
    if (!check)
      continue;
    uint64_t now = nowNanoseconds();
    // What has been stopped waits as long again for those that go on with it.
    if (lastMove == 0 || now - lastLook >= stoppedNanoseconds)
      lastMove = now;
    lastLook = now;
    if (now - lastMove >= timeout) {
      auto guard = lock();
      if (!queue.idle())
        fail(timeoutError(stream, options.timeoutSeconds));
    }
  }
  uint64_t waited = nowNanoseconds() - begin;
  stats.waitedNanoseconds += waited;
  auto guard = lock();
  if (clock.enabled())
    if (const mprt_collective *collective = collectiveAt(stream, position))
      clock.wait(*collective, waited);
}

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

Context::Context(std::unique_ptr<State> state) : state(std::move(state)) {}

Context::~Context() {
  // Buffers may still be in use by peers.
  if (!state->failed())
    (void)synchronize();
}

Context::State::State() = default;

Context::State::~State() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> guard(mutex);
    stopping = true;
  }
  wake.notify_all();
  thread.join();
}

static Expected<ProgressMode> progressMode(ProgressMode wanted) {
  const char *text = getenv("MPRT_PROGRESS");
  if (!text || !*text || !strcmp(text, "auto"))
    return wanted;
  if (!strcmp(text, "poll"))
    return ProgressMode::Poll;
  if (!strcmp(text, "thread"))
    return ProgressMode::Thread;
  return makeError(MPRT_INVALID_ARGUMENT,
                   "expected MPRT_PROGRESS to be auto, poll or thread, found '",
                   text, "'");
}

/// Gives the context a device with its streams and events, and each
/// communicator a way to its memory.
static Error
attachDevice(Context::State &state,
             std::vector<std::unique_ptr<Communicator>> &communicators) {
  if (!state.options.device)
    state.host = std::make_unique<HostDevice>(uint32_t(communicators.size()));
  state.device = state.host ? state.host.get() : state.options.device;
  Device &device = *state.device;
  if (device.programStreams() < communicators.size() + 1)
    return makeError(MPRT_INVALID_ARGUMENT, "the device has ",
                     device.programStreams(), " streams, expected one and ",
                     communicators.size(), " for communicators");
  state.onDevice = std::make_unique<OnDevice>();
  OnDevice &on = *state.onDevice;
  for (size_t i = 0; i < communicators.size(); ++i) {
    auto stream = MPRT_COMM_STREAM(uint32_t(i));
    std::unique_ptr<Communicator> &communicator = communicators[i];
    on.ordered.push_back(communicator->isStreamOrdered());
    if (on.ordered.back()) {
      if (Error error = communicator->bind(device, stream))
        return error;
    } else if (device.isAsynchronous()) {
      communicator = std::make_unique<StagedCommunicator>(
          std::move(communicator), device, stream);
    }
  }
  for (uint32_t i = 0; i < state.options.events; ++i) {
    Expected<uint32_t> event = device.createEvent();
    if (!event)
      return event.error();
    on.made.push_back({*event});
    on.events.push_back(&on.made.back());
  }
  on.last.resize(communicators.size() + 1);
  auto isSet = [](const char *name, const char *value) {
    const char *text = getenv(name);
    return text && !strcmp(text, value);
  };
  on.waitsForEach = isSet("MPRT_CUDA_SYNC", "1");
  on.wantsGraphs = device.isAsynchronous() && !isSet("MPRT_GRAPH", "0") &&
                   !on.waitsForEach && !state.trace.enabled();
  if (std::count(on.ordered.begin(), on.ordered.end(), false))
    on.note = "its collectives go through the host";
  return state.trace.enabled() ? device.clearMarks() : Error();
}

Expected<std::unique_ptr<Context>>
Context::create(const ContextOptions &options, Transport *transport,
                std::vector<std::unique_ptr<Communicator>> communicators) {
  Expected<ProgressMode> mode = progressMode(options.progress);
  if (!mode)
    return mode.error();
  if (!(options.timeoutSeconds > 0) || options.timeoutSeconds > 1e9)
    return makeError(MPRT_INVALID_ARGUMENT,
                     "expected a timeout of more than 0 s and at most 1e9 s, "
                     "found ",
                     options.timeoutSeconds);
  auto state = std::make_unique<State>();
  state->options = options;
  state->transport = transport;
  state->ranks = transport ? transport->localRanks() : 1;
  state->events.resize(options.events);
  if (options.traceCapacity)
    state->trace.enable(options.traceCapacity);
  state->flight = std::make_unique<FlightRecorder>(options.flightCapacity);
  if (Error error = attachDevice(*state, communicators))
    return error;
  for (std::unique_ptr<Communicator> &communicator : communicators)
    state->streams.push_back(std::make_unique<Stream>(
        std::move(communicator), *state->flight, state->clock, *state->device));
  State *raw = state.get();
  state->reachedOther = [raw](uint32_t stream, uint64_t position) {
    return raw->onDevice->isOrdered(stream) ||
           raw->comm(stream).reached(position);
  };
  bool spareCore = availableCores() > state->ranks;
  bool needsPolls = std::any_of(
      state->streams.begin(), state->streams.end(),
      [](const auto &s) { return !s->communicator().movesByItself(); });
  // What a device orders is started by the calling thread, where its place in
  // the stream is.
  bool isOrdered = std::any_of(
      state->streams.begin(), state->streams.end(),
      [](const auto &s) { return s->communicator().isStreamOrdered(); });
  if ((!needsPolls && *mode == ProgressMode::Auto) || isOrdered)
    mode = ProgressMode::Poll;
  state->threaded =
      !state->streams.empty() &&
      (*mode == ProgressMode::Thread ||
       (*mode == ProgressMode::Auto && state->ranks > 1 && spareCore));
  if (state->threaded)
    state->thread = std::thread([raw] { raw->threadMain(); });
  return std::unique_ptr<Context>(new Context(std::move(state)));
}

mprt_context *Context::handle() {
  return reinterpret_cast<mprt_context *>(state.get());
}

Error Context::error() const {
  if (!state->failed())
    return {};
  return state->failure;
}

void Context::fail(const Error &error) {
  auto guard = state->lock();
  if (error)
    state->fail(error);
}

mprt_status Context::call(mprt_entry entry, void *const *buffers, size_t count,
                          void *arena) {
  if (!state->device->isAsynchronous())
    return mprt_status(entry(handle(), buffers, arena));
  return runStep(*state, entry, buffers, count, arena);
}

const std::string &Context::graphNote() const {
  static const std::string none;
  return state->onDevice->wantsGraphs ? state->onDevice->note : none;
}

Error Context::synchronize() {
  mprt::synchronize(*state);
  return error();
}

Error Context::run(const mprt_collective &collective, const void *send,
                   void *recv) {
  uint32_t stream = MPRT_COMM_STREAM(collective.communicator);
  if (mprt_collective_run(handle(), stream, &collective, send, recv))
    return error();
  return synchronize();
}

Stats Context::stats() const { return state->stats; }

const Trace &Context::trace() const { return state->trace; }

void Context::clearTrace() {
  auto guard = state->lock();
  state->trace.clear();
}

std::vector<FlightEntry> Context::flight() const {
  return state->flight->entries();
}

void Context::watchCollectives(bool on) {
  auto guard = state->lock();
  state->clock.enable(on);
}

CollectiveTimes Context::takeCollectiveTimes() {
  auto guard = state->lock();
  return state->clock.take();
}

bool Context::hasProgressThread() const { return state->threaded; }
