//===- CommunicationProofExecution.cpp - one execution for all ------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs programs that match, one rank of each cell, greedily: a cell runs until
// an Await stops it, and what can end ends. No step takes from another what it
// needs, so every order of them comes to the same end (docs/Design/
// CommunicationProof.md, "All executions end the same").
//
// Invariant between steps: of each stream the ops before `ended` have ended,
// and the one at `ended`, if it was started, has announced itself: in the count
// of its group, or in its flow.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::proof;

namespace {

class Execution {
public:
  explicit Execution(const ProofModel &model);
  /// Returns whether every op has ended.
  bool run();

  Standstill state;

private:
  /// Runs the compute stream of a cell until an op stops it.
  void advance(int64_t cell);
  /// The op at the head of a stream was started, and those before have ended.
  void announce(int64_t cell, int stream);
  void announceMessage(int64_t cell, int stream, int op);
  /// The op at the head of a stream ends.
  void end(int64_t cell, int stream);

  struct FlowState {
    /// The send or the recv is at the head of its stream.
    bool sending = false, receiving = false;
    /// Messages in a channel that buffers.
    int64_t held = 0;
  };

  const ProofModel &model;
  /// By communicator, then by group (its least cell): cells that have come.
  std::vector<std::vector<int64_t>> arrived;
  std::vector<FlowState> flows;
  /// Cells that may go on, and heads to announce.
  std::vector<int64_t> ready;
  std::vector<std::pair<int64_t, int>> heads;
  /// Streams with ops that have not ended.
  int64_t unfinished = 0;
};

} // namespace

Execution::Execution(const ProofModel &model)
    : state{model, {}, {}, {}}, model(model),
      arrived(model.problem.communicators.size()), flows(model.flows.size()) {
  int64_t cells = model.grid.cells(), streams = 0;
  for (int64_t cell = 0; cell < cells; ++cell) {
    const Compiled &program = model.programOf(cell);
    streams += int64_t(program.streams.size());
    for (const Compiled::Stream &stream : program.streams)
      if (!stream.collectives.empty())
        arrived[stream.communicator].resize(cells, 0);
  }
  state.next.assign(cells, 0);
  state.started.assign(streams, 0);
  state.ended.assign(streams, 0);
  unfinished = streams;
}

void Execution::advance(int64_t cell) {
  const Compiled &program = model.programOf(cell);
  int64_t first = model.firstStream[cell];
  int &next = state.next[cell];
  for (; next < int(program.steps.size()); ++next) {
    const Compiled::Step &step = program.steps[next];
    int64_t stream = first + step.stream;
    if (step.awaits) {
      if (state.ended[stream] <= step.position)
        return;
    } else if (state.started[stream]++ == state.ended[stream]) {
      heads.push_back({cell, step.stream});
    }
  }
}

void Execution::end(int64_t cell, int stream) {
  const Compiled &program = model.programOf(cell);
  int64_t index = model.firstStream[cell] + stream;
  int position = state.ended[index]++;
  if (state.started[index] > state.ended[index])
    heads.push_back({cell, stream});
  if (state.ended[index] == int(program.streams[stream].ops.size()))
    --unfinished;
  int next = state.next[cell];
  if (next == int(program.steps.size()))
    return;
  const Compiled::Step &step = program.steps[next];
  if (step.awaits && step.stream == stream && step.position == position)
    ready.push_back(cell);
}

void Execution::announceMessage(int64_t cell, int stream, int op) {
  const Compiled &program = model.programOf(cell);
  int use = program.useOf[op];
  int64_t number = model.flow(cell, use);
  const Flow &flow = model.flows[number];
  FlowState &at = flows[number];
  bool sends = program.uses[use].sends;
  int64_t other = sends ? flow.to : flow.from;
  int otherStream = model.programOf(other).streamOf[flow.communicator];
  if (!model.problem.communicators[flow.communicator].buffered) {
    (sends ? at.sending : at.receiving) = true;
    if (!at.sending || !at.receiving)
      return;
    at.sending = at.receiving = false;
    end(cell, stream);
    end(other, otherStream);
    return;
  }
  if (sends) {
    ++at.held;
    end(cell, stream);
    if (!at.receiving)
      return;
    at.receiving = false;
    --at.held;
    end(other, otherStream);
  } else if (at.held > 0) {
    --at.held;
    end(cell, stream);
  } else {
    at.receiving = true;
  }
}

void Execution::announce(int64_t cell, int stream) {
  const Compiled &program = model.programOf(cell);
  int op = program.streams[stream]
               .ops[state.ended[model.firstStream[cell] + stream]];
  if (program.useOf[op] >= 0)
    return announceMessage(cell, stream, op);
  int communicator = program.streams[stream].communicator;
  const std::vector<int> &axes = model.axesOf(communicator);
  int64_t group = model.grid.groupOf(cell, axes);
  int64_t &count = arrived[communicator][group];
  if (++count < model.grid.groupCells(axes))
    return;
  count = 0;
  for (int64_t member : model.grid.members(group, axes))
    end(member, model.programOf(member).streamOf[communicator]);
}

bool Execution::run() {
  for (int64_t cell = 0; cell < model.grid.cells(); ++cell)
    ready.push_back(cell);
  while (true) {
    if (!heads.empty()) {
      auto [cell, stream] = heads.back();
      heads.pop_back();
      announce(cell, stream);
    } else if (!ready.empty()) {
      int64_t cell = ready.back();
      ready.pop_back();
      advance(cell);
    } else {
      break;
    }
  }
  return unfinished == 0;
}

ProofViolation proof::execute(const ProofModel &model, int64_t &instructions) {
  Execution execution(model);
  bool ended = execution.run();
  instructions = 0;
  for (int next : execution.state.next)
    instructions += next;
  return ended ? ProofViolation() : describeDeadlock(execution.state);
}
