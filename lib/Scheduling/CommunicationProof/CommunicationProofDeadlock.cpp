//===- CommunicationProofDeadlock.cpp - who waits for whom ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where an execution is blocked, the head of every stream that has begun
// needs a rank that has not begun its side. That rank's own stream is at
// another op, or its program is at an Await, whose stream has a head in
// turn. So from each head an edge leads to another, and there is a cycle; of
// those near the first that is found, a shortest one is shown.
//
//===----------------------------------------------------------------------===//

#include "CommunicationProof/CommunicationProofImpl.h"
#include <algorithm>

using namespace mpcomm;
using namespace mpcomm::proof;

namespace {

/// A stream of a cell, whose head was started and has not ended.
struct Head {
  int64_t cell;
  int stream;
  bool operator==(const Head &) const = default;
};

/// The head of `to` is what keeps `missing`, which `from` needs, from its side
/// of the head of `from`.
struct Edge {
  Head to;
  int64_t missing;
};

class WaitGraph {
public:
  explicit WaitGraph(const Standstill &state)
      : state(state), model(state.model) {}

  Head firstHead() const;
  /// The shortest cycle through one of the heads of some cycle.
  std::vector<Head> findCycle() const;
  ProofWait describe(const Head &head, const Head &next) const;

private:
  int64_t index(const Head &head) const {
    return model.firstStream[head.cell] + head.stream;
  }
  int opOf(const Head &head) const {
    return model.programOf(head.cell)
        .streams[head.stream]
        .ops[state.ended[index(head)]];
  }
  bool isStuck(const Head &head) const {
    return state.started[index(head)] > state.ended[index(head)];
  }
  /// The cells that the head needs and which have not begun their side.
  std::vector<int64_t> missing(const Head &head) const;
  /// What keeps a missing cell from its side of an op of a communicator.
  Head keeperOf(int64_t cell, int communicator) const;
  std::vector<Edge> edges(const Head &head) const;
  std::vector<Head> shortestThrough(const Head &start, size_t below) const;

  const Standstill &state;
  const ProofModel &model;
};

} // namespace

/// Cycles are looked for from so many heads at most.
static constexpr size_t maxTries = 64;
/// Ranks of a cycle that a message describes.
static constexpr size_t maxLines = 16;

Head WaitGraph::firstHead() const {
  Head head{0, 0};
  while (true) {
    if (head.stream == int(model.programOf(head.cell).streams.size()))
      head = {head.cell + 1, 0};
    else if (isStuck(head))
      return head;
    else
      ++head.stream;
  }
}

std::vector<int64_t> WaitGraph::missing(const Head &head) const {
  const Compiled &program = model.programOf(head.cell);
  int op = opOf(head), use = program.useOf[op];
  if (use >= 0) {
    const Flow &flow = model.flows[model.flow(head.cell, use)];
    return {program.uses[use].sends ? flow.to : flow.from};
  }
  int communicator = program.streams[head.stream].communicator;
  const std::vector<int> &axes = model.axesOf(communicator);
  std::vector<int64_t> cells;
  for (int64_t member :
       model.grid.members(model.grid.groupOf(head.cell, axes), axes)) {
    Head theirs{member, model.programOf(member).streamOf[communicator]};
    if (!isStuck(theirs) || model.programOf(member).useOf[opOf(theirs)] >= 0)
      cells.push_back(member);
  }
  return cells;
}

Head WaitGraph::keeperOf(int64_t cell, int communicator) const {
  const Compiled &program = model.programOf(cell);
  Head own{cell, program.streamOf[communicator]};
  if (isStuck(own))
    return own;
  // Its Start is after the Await at which the program stands: all that was
  // started before would be at the head of its stream otherwise.
  return {cell, program.steps[state.next[cell]].stream};
}

std::vector<Edge> WaitGraph::edges(const Head &head) const {
  std::vector<Edge> found;
  int communicator =
      model.programOf(head.cell).streams[head.stream].communicator;
  for (int64_t cell : missing(head))
    found.push_back({keeperOf(cell, communicator), cell});
  return found;
}

std::vector<Head> WaitGraph::shortestThrough(const Head &start,
                                             size_t below) const {
  // Breadth first; `from` leads back.
  std::unordered_map<int64_t, Head> from;
  std::vector<Head> layer{start};
  for (size_t length = 1; length < below && !layer.empty(); ++length) {
    std::vector<Head> nextLayer;
    for (const Head &head : layer)
      for (const Edge &edge : edges(head)) {
        if (edge.to == start) {
          std::vector<Head> cycle{head};
          while (!(cycle.back() == start))
            cycle.push_back(from.at(index(cycle.back())));
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (from.try_emplace(index(edge.to), head).second)
          nextLayer.push_back(edge.to);
      }
    layer = std::move(nextLayer);
  }
  return {};
}

std::vector<Head> WaitGraph::findCycle() const {
  std::vector<Head> path;
  std::unordered_map<int64_t, size_t> places;
  Head head = firstHead();
  while (places.try_emplace(index(head), path.size()).second) {
    path.push_back(head);
    head = edges(head).front().to;
  }
  path.erase(path.begin(), path.begin() + int64_t(places.at(index(head))));
  std::vector<Head> best = path;
  for (size_t i = 0; i < std::min(path.size(), maxTries); ++i) {
    std::vector<Head> cycle = shortestThrough(path[i], best.size());
    if (!cycle.empty())
      best = cycle;
  }
  return best;
}

ProofWait WaitGraph::describe(const Head &head, const Head &next) const {
  const Compiled &program = model.programOf(head.cell);
  int communicator = program.streams[head.stream].communicator;
  ProofWait wait;
  wait.head = sideOf(model, head.cell, opOf(head));
  int at = state.next[head.cell];
  if (at == int(program.steps.size()) ||
      program.steps[at].stream == head.stream) {
    wait.instruction = at;
    if (at < int(program.steps.size()))
      wait.awaited =
          program.streams[head.stream].ops[program.steps[at].position];
  }
  // The op of the missing cell that would meet the head.
  int64_t missing = -1;
  for (const Edge &edge : edges(head))
    if (edge.to == next)
      missing = edge.missing;
  const Compiled &theirs = model.programOf(missing);
  int stream = theirs.streamOf[communicator];
  const std::vector<int> &queue = theirs.streams[stream].ops;
  int64_t flow = -1;
  if (int use = program.useOf[wait.head.op]; use >= 0)
    flow = model.flow(head.cell, use);
  int needed = -1;
  for (size_t i = state.ended[model.firstStream[missing] + stream];
       i < queue.size() && needed < 0; ++i) {
    int use = theirs.useOf[queue[i]];
    bool meets = flow < 0
                     ? use < 0
                     : use >= 0 && model.flow(missing, use) == flow &&
                           theirs.uses[use].sends !=
                               program.uses[program.useOf[wait.head.op]].sends;
    if (meets)
      needed = queue[i];
  }
  wait.needed = sideOf(model, missing, needed);
  return wait;
}

static std::string describeWait(const ProofModel &model,
                                const ProofWait &wait) {
  const ProofProblem &problem = model.problem;
  const ProofProgram &program = problem.classes[wait.head.classIndex].program;
  std::string text = describeRank(problem, wait.head);
  ProofSide awaited = wait.head;
  awaited.op = wait.awaited;
  std::string head =
      describeOp(problem, wait.head) + " on " +
      describeCommunicator(problem,
                           program.collectives[wait.head.op].communicator);
  if (wait.awaited >= 0) {
    text += " waits for ";
    if (wait.awaited == wait.head.op)
      text += head;
    else
      text += describeOp(problem, awaited) + ", which is queued behind " + head;
  } else if (wait.instruction >= 0) {
    text += " waits at its end for " + head;
  } else {
    text += " has its stream kept by " + head;
  }
  text += ", which needs " + describeRank(problem, wait.needed);
  if (wait.needed.op >= 0)
    text += " to come to " + describeOp(problem, wait.needed);
  return text;
}

ProofViolation proof::describeDeadlock(const Standstill &state) {
  WaitGraph graph(state);
  std::vector<Head> cycle = graph.findCycle();
  ProofViolation violation;
  violation.kind = ProofViolationKind::Deadlock;
  violation.message = "deadlock: each of these waits for the next, and the "
                      "last for the first";
  for (size_t i = 0; i < cycle.size(); ++i) {
    violation.cycle.push_back(
        graph.describe(cycle[i], cycle[(i + 1) % cycle.size()]));
    if (i < maxLines)
      violation.message +=
          "\n  " + describeWait(state.model, violation.cycle.back());
  }
  if (cycle.size() > maxLines)
    violation.message +=
        "\n  and " + std::to_string(cycle.size() - maxLines) + " more";
  return violation;
}
