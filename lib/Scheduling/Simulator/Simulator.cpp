//===- Simulator.cpp - step time of rank programs on streams --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The event queue. What takes time is a Fluid: the Compute that a class is at,
// and the latency and the transfer of a match (the collectives of the member
// classes that meet). A fluid has work left, a rate, and one valid entry in
// the queue, for when it ends at that rate. Rates change only where a match or
// a Compute begins or ends, and only those of its neighbours: the classes of
// the match, and the transfers on the same port (class, link).
//
// Invariant: between two times of the queue no rate changes. All that ends at
// one time is taken together before rates are computed anew, so that copies of
// a class, whose times are the same to the last bit, stay in step.
//
//===----------------------------------------------------------------------===//

#include "Simulator/SimulatorImpl.h"
#include <algorithm>
#include <queue>

using namespace mpcomm;
using namespace mpcomm::simulator;

namespace {

struct Fluid {
  double left = 0, rate = 0, since = 0;
  unsigned version = 0;
  bool active = false;
};

struct Event {
  double time;
  int fluid;
  unsigned version;
  bool operator>(const Event &other) const {
    return time != other.time ? time > other.time : fluid > other.fluid;
  }
};

struct MatchState {
  int arrived = 0;
  enum Phase { Waits, Latency, Transfer, Ended } phase = Waits;
  double arrival = 0, start = 0, end = 0;
};

struct ClassState {
  size_t next = 0;   // instruction, then collective awaited by the end
  int waitsFor = -1; // match
  bool computing = false;
  double busy = 0, begin = 0;      // computed until, begin of the Compute
  std::vector<int> inFlight;       // matches that have begun and not ended
  std::vector<double> busyAtStart; // by collective
};

class Engine {
public:
  Engine(const SimProblem &problem, bool records)
      : problem(problem), records(records), matching(problem),
        classes(problem.classes.size()), matches(matching.matches.size()),
        communicators(problem.communicators.size()),
        fluids(classes.size() + matches.size()),
        ports(classes.size() * problem.links.size()),
        isDirty(fluids.size(), false) {}

  SimResult run();

private:
  void advance(int c);
  bool await(int c, int collective);
  void launch(int communicator);
  void beginTransfer(int match);
  void finish(int match);
  void touch(int fluid);
  void touchTransfers(int c);
  void settle();
  double rateOf(int fluid) const;
  int fluidOf(int match) const { return match + int(classes.size()); }
  double busyOf(const ClassState &state) const {
    return state.busy + (state.computing ? now - state.begin : 0);
  }
  std::vector<int> *portOf(const SimMember &member);

  const SimProblem &problem;
  bool records;
  Matching matching;
  double now = 0;
  std::vector<ClassState> classes;
  std::vector<MatchState> matches;
  struct CommunicatorState {
    int next = 0; // match, by its number in the communicator
    bool busy = false;
  };
  std::vector<CommunicatorState> communicators;
  std::vector<Fluid> fluids;           // of classes, then of matches
  std::vector<std::vector<int>> ports; // transfers on (class, link)
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> queue;
  std::vector<int> runnable, dirty;
  std::vector<char> isDirty;
  SimResult result;
};

} // namespace

std::vector<int> *Engine::portOf(const SimMember &member) {
  int link =
      problem.classes[member.classIndex].collectives[member.collective].link;
  if (link < 0 || !problem.links[link].contends)
    return nullptr;
  return &ports[member.classIndex * problem.links.size() + link];
}

void Engine::touch(int fluid) {
  if (!isDirty[fluid]) {
    isDirty[fluid] = true;
    dirty.push_back(fluid);
  }
}

/// The class began or ceased to compute.
void Engine::touchTransfers(int c) {
  if (problem.commRateUnderCompute == 1)
    return;
  for (int match : classes[c].inFlight)
    touch(fluidOf(match));
}

double Engine::rateOf(int fluid) const {
  if (fluid < int(classes.size()))
    return classes[fluid].inFlight.empty() ? 1 : problem.computeRateUnderComm;
  int match = fluid - int(classes.size());
  if (matches[match].phase != MatchState::Transfer)
    return 1;
  size_t sharers = 1;
  bool computing = false;
  for (const SimMember &member : matching.matches[match].members) {
    if (auto *port = const_cast<Engine *>(this)->portOf(member))
      sharers = std::max(sharers, port->size());
    computing |= classes[member.classIndex].computing;
  }
  return (computing ? problem.commRateUnderCompute : 1) / double(sharers);
}

/// Gives every fluid that something happened to its rate and its event.
void Engine::settle() {
  for (int f : dirty) {
    isDirty[f] = false;
    Fluid &fluid = fluids[f];
    if (!fluid.active)
      continue;
    double rate = rateOf(f);
    if (rate == fluid.rate)
      continue;
    fluid.left = std::max(0.0, fluid.left - (now - fluid.since) * fluid.rate);
    fluid.since = now;
    fluid.rate = rate;
    queue.push({now + fluid.left / rate, f, ++fluid.version});
  }
  dirty.clear();
}

static void begin(Fluid &fluid, double work, double now) {
  fluid.left = work;
  fluid.rate = 0; // so that settle gives it one
  fluid.since = now;
  fluid.active = true;
}

void Engine::launch(int communicator) {
  CommunicatorState &state = communicators[communicator];
  const auto &queued = matching.ofCommunicator[communicator];
  if (state.busy || state.next >= int(queued.size()))
    return;
  int m = queued[state.next];
  MatchState &match = matches[m];
  if (match.arrived < int(problem.communicators[communicator].classes.size()))
    return;
  state.busy = true;
  match.start = now;
  for (const SimMember &member : matching.matches[m].members) {
    ClassState &state = classes[member.classIndex];
    state.inFlight.push_back(m);
    if (state.inFlight.size() == 1)
      touch(member.classIndex);
    if (records)
      state.busyAtStart[member.collective] = busyOf(state);
  }
  match.phase = MatchState::Latency;
  begin(fluids[fluidOf(m)], matching.matches[m].latency, now);
  touch(fluidOf(m));
}

void Engine::beginTransfer(int m) {
  matches[m].phase = MatchState::Transfer;
  begin(fluids[fluidOf(m)], matching.matches[m].transfer, now);
  touch(fluidOf(m));
  for (const SimMember &member : matching.matches[m].members)
    if (std::vector<int> *port = portOf(member)) {
      for (int other : *port)
        touch(fluidOf(other));
      port->push_back(m);
    }
}

void Engine::finish(int m) {
  MatchState &match = matches[m];
  match.phase = MatchState::Ended;
  match.end = now;
  for (const SimMember &member : matching.matches[m].members) {
    ClassState &state = classes[member.classIndex];
    std::erase(state.inFlight, m);
    if (state.inFlight.empty())
      touch(member.classIndex);
    if (std::vector<int> *port = portOf(member)) {
      std::erase(*port, m);
      for (int other : *port)
        touch(fluidOf(other));
    }
    if (records) {
      SimCollectiveResult &seen =
          result.classes[member.classIndex].collectives[member.collective];
      seen.start = match.start;
      seen.end = now;
      seen.hidden = busyOf(state) - state.busyAtStart[member.collective];
    }
    if (state.waitsFor == m) {
      state.waitsFor = -1;
      runnable.push_back(member.classIndex);
    }
  }
  int communicator = matching.matches[m].communicator;
  communicators[communicator].busy = false;
  ++communicators[communicator].next;
  launch(communicator);
}

/// True if the class need not wait (any longer).
bool Engine::await(int c, int collective) {
  int m = matching.matchOf[c][collective];
  SimCollectiveResult *seen =
      records ? &result.classes[c].collectives[collective] : nullptr;
  if (matches[m].phase == MatchState::Ended) {
    if (seen && seen->awaited < 0)
      seen->awaited = now;
    if (seen)
      seen->exposed = now - seen->awaited;
    return true;
  }
  if (seen)
    seen->awaited = now;
  classes[c].waitsFor = m;
  return false;
}

/// Runs a class until it computes, waits or ends.
void Engine::advance(int c) {
  const SimProgram &program = problem.classes[c];
  ClassState &state = classes[c];
  SimClassResult *seen = records ? &result.classes[c] : nullptr;
  size_t size = program.instructions.size();
  for (; state.next < size; ++state.next) {
    const RankInstruction &instruction = program.instructions[state.next];
    if (seen && seen->begin[state.next] < 0)
      seen->begin[state.next] = now;
    if (instruction.kind == RankInstruction::Compute) {
      if (instruction.seconds > 0) {
        state.computing = true;
        state.begin = now;
        begin(fluids[c], instruction.seconds, now);
        touch(c);
        touchTransfers(c);
        return;
      }
    } else if (instruction.kind == RankInstruction::Start) {
      int m = matching.matchOf[c][instruction.collective];
      matches[m].arrival = now;
      ++matches[m].arrived;
      if (seen)
        seen->collectives[instruction.collective].ready = now;
      launch(matching.matches[m].communicator);
    } else if (!await(c, instruction.collective)) {
      return;
    }
    if (seen)
      seen->end[state.next] = now;
  }
  const std::vector<int> &atEnd = matching.awaitedAtEnd[c];
  for (; state.next < size + atEnd.size(); ++state.next)
    if (!await(c, atEnd[state.next - size]))
      return;
  result.classes[c].seconds = now;
}

SimResult Engine::run() {
  result.classes.resize(classes.size());
  for (size_t c = 0; c < classes.size(); ++c) {
    if (records) {
      SimClassResult &seen = result.classes[c];
      const SimProgram &program = problem.classes[c];
      seen.begin.assign(program.instructions.size(), -1);
      seen.end.assign(program.instructions.size(), -1);
      SimCollectiveResult none;
      none.awaited = -1;
      seen.collectives.assign(program.collectives.size(), none);
      classes[c].busyAtStart.resize(program.collectives.size());
    }
    runnable.push_back(int(c));
  }
  while (true) {
    while (!runnable.empty()) {
      int c = runnable.back();
      runnable.pop_back();
      advance(c);
    }
    settle();
    while (!queue.empty() &&
           queue.top().version != fluids[queue.top().fluid].version)
      queue.pop();
    if (queue.empty())
      break;
    now = queue.top().time;
    while (!queue.empty() && queue.top().time == now) {
      auto [time, f, version] = queue.top();
      queue.pop();
      Fluid &fluid = fluids[f];
      if (version != fluid.version)
        continue;
      ++fluid.version;
      fluid.active = false;
      if (f >= int(classes.size())) {
        int m = f - int(classes.size());
        if (matches[m].phase == MatchState::Latency)
          beginTransfer(m);
        else
          finish(m);
        continue;
      }
      ClassState &state = classes[f];
      state.computing = false;
      state.busy += now - state.begin;
      touchTransfers(f);
      if (records)
        result.classes[f].end[state.next] = now;
      ++state.next;
      runnable.push_back(f);
    }
  }

  result.seconds = now;
  std::vector<Waiting> waiting(classes.size());
  for (size_t c = 0; c < classes.size(); ++c) {
    const ClassState &state = classes[c];
    waiting[c] = {state.waitsFor, int(state.next)};
    if (state.waitsFor >= 0 && result.error.empty())
      result.error = "deadlock";
    if (records)
      result.classes[c].slowdown = state.busy; // less the work, below
  }
  if (!result.error.empty()) {
    std::vector<int> next(communicators.size());
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = communicators[i].next;
    result.error = describeDeadlock(problem, matching, waiting, next);
  }
  if (records) {
    std::vector<double> arrivals(matches.size());
    for (size_t m = 0; m < matches.size(); ++m)
      arrivals[m] = matches[m].arrival;
    summarize(problem, matching, arrivals, result);
  }
  return std::move(result);
}

SimResult mpcomm::simulate(const SimProblem &problem) {
  return Engine(problem, /*records=*/true).run();
}

double mpcomm::simulateSeconds(const SimProblem &problem) {
  SimResult result = Engine(problem, /*records=*/false).run();
  return result.error.empty() ? result.seconds : -1;
}
