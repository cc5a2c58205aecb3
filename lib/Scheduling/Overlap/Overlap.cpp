//===- Overlap.cpp - the overlap problem, its checks and its memory -------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Since values are born and die with steps, the bytes that live are a function
// of the order of the steps alone: a memory bound is a property of an order,
// and holds whatever the times turn out to be.
//
//===----------------------------------------------------------------------===//

#include "Overlap/OverlapImpl.h"
#include <algorithm>
#include <cmath>

using namespace mpcomm;
using namespace mpcomm::overlap;

static std::string name(const char *what, size_t index) {
  return std::string(what) + " " + std::to_string(index);
}

static std::string describe(const OverlapStep &step) {
  switch (step.kind) {
  case RankInstruction::Compute:
    return name("node", step.node);
  case RankInstruction::Start:
    return name("the start of node", step.node);
  case RankInstruction::Await:
    return name("the await of node", step.node);
  }
  return "";
}

static bool isTime(double seconds) {
  return std::isfinite(seconds) && seconds >= 0;
}

std::string OverlapProblem::check() const {
  int size = int(nodes.size());
  for (double rate : {computeRateUnderComm, commRateUnderCompute})
    if (!(rate > 0 && rate <= 1))
      return "expects rates above 0 and at most 1, got " + std::to_string(rate);
  if (staticBytes < 0)
    return "expects static bytes that are not negative";
  for (int n = 0; n < size; ++n) {
    const Node &node = nodes[n];
    if (!isTime(node.seconds) || !isTime(node.latency) ||
        !isTime(node.transfer))
      return name("node", n) + " has no finite non-negative seconds";
    if (node.stagingBytes < 0)
      return name("node", n) + " has a negative size";
    if (node.stream >= int(streams.size()))
      return name("node", n) + " names stream " + std::to_string(node.stream) +
             " of " + std::to_string(streams.size());
    if (node.link < -1 || node.link >= int(links.size()))
      return name("node", n) + " names link " + std::to_string(node.link) +
             " of " + std::to_string(links.size());
    for (int before : node.after)
      if (before < 0 || before >= n)
        return name("node", n) + " comes after node " + std::to_string(before) +
               ", which does not precede it";
  }
  for (size_t v = 0; v < values.size(); ++v) {
    const Value &value = values[v];
    if (value.bytes < 0)
      return name("value", v) + " has a negative size";
    if (value.producer < -1 || value.producer >= size)
      return name("value", v) + " names node " +
             std::to_string(value.producer) + " of " + std::to_string(size);
    for (int user : value.users)
      if (user <= value.producer || user >= size)
        return name("value", v) + " has node " + std::to_string(user) +
               " as its user, which does not follow its producer";
  }
  for (auto [x, y] : conflicts)
    if (x < 0 || y < 0 || x == y || std::max(x, y) >= int(streams.size()))
      return "expects conflicts between two streams";
  return checkOrder(StepGraph(*this), inputSteps());
}

std::vector<OverlapStep> OverlapProblem::inputSteps() const {
  if (!input.empty())
    return input;
  std::vector<OverlapStep> steps;
  for (int n = 0; n < int(nodes.size()); ++n) {
    if (nodes[n].stream < 0) {
      steps.push_back({RankInstruction::Compute, n});
      continue;
    }
    steps.push_back({RankInstruction::Start, n});
    steps.push_back({RankInstruction::Await, n});
  }
  return steps;
}

std::vector<OverlapStep> OverlapProblem::synchronousSteps() const {
  std::vector<OverlapStep> steps;
  for (const OverlapStep &step : inputSteps()) {
    if (step.kind == RankInstruction::Await)
      continue;
    steps.push_back(step);
    if (step.kind == RankInstruction::Start)
      steps.push_back({RankInstruction::Await, step.node});
  }
  return steps;
}

StepGraph::StepGraph(const OverlapProblem &problem)
    : problem(problem), input(problem.inputSteps()),
      predecessors(problem.nodes.size()), successors(problem.nodes.size()),
      startsAfter(problem.nodes.size(), -1),
      startsBefore(problem.nodes.size(), -1), births(2 * problem.nodes.size()),
      deaths(2 * problem.nodes.size()), conflicts(problem.streams.size()),
      staticBytes(problem.staticBytes) {
  int size = int(problem.nodes.size());
  for (int n = 0; n < size; ++n) {
    predecessors[n] = problem.nodes[n].after;
    steps += 1 + isCollective(n);
    if (isCollective(n) && problem.nodes[n].stagingBytes > 0)
      values.push_back({problem.nodes[n].stagingBytes, beginOf(n), {endOf(n)}});
  }
  for (const OverlapProblem::Value &value : problem.values) {
    if (value.producer >= 0)
      for (int user : value.users)
        predecessors[user].push_back(value.producer);
    else
      staticBytes += value.bytes;
    if (value.bytes == 0)
      continue;
    Life life{
        value.bytes, value.producer < 0 ? -1 : beginOf(value.producer), {}};
    if (!value.output) {
      if (value.producer >= 0)
        life.deaths.push_back(endOf(value.producer));
      for (int user : value.users)
        life.deaths.push_back(endOf(user));
      std::sort(life.deaths.begin(), life.deaths.end());
      life.deaths.erase(std::unique(life.deaths.begin(), life.deaths.end()),
                        life.deaths.end());
    }
    values.push_back(std::move(life));
  }
  for (int n = 0; n < size; ++n) {
    std::vector<int> &before = predecessors[n];
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (int p : before)
      successors[p].push_back(n);
  }
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].birth >= 0)
      births[values[v].birth].push_back(int(v));
    for (int step : values[v].deaths)
      deaths[step].push_back(int(v));
  }
  std::vector<int> last(problem.streams.size(), -1);
  for (const OverlapStep &step : input) {
    if (step.kind != RankInstruction::Start || step.node < 0 ||
        step.node >= size || !isCollective(step.node))
      continue;
    int stream = problem.nodes[step.node].stream;
    if (!problem.streams[stream].keepOrder)
      continue;
    startsAfter[step.node] = last[stream];
    if (last[stream] >= 0)
      startsBefore[last[stream]] = step.node;
    last[stream] = step.node;
  }
  for (auto [x, y] : problem.conflicts) {
    conflicts[x].push_back(y);
    conflicts[y].push_back(x);
  }
}

std::string overlap::checkOrder(const StepGraph &graph,
                                const std::vector<OverlapStep> &steps) {
  const OverlapProblem &problem = graph.problem;
  std::vector<char> done(2 * problem.nodes.size(), false);
  for (const OverlapStep &step : steps) {
    if (step.node < 0 || step.node >= int(problem.nodes.size()))
      return name("expects steps of nodes, got node", step.node);
    if ((step.kind == RankInstruction::Compute) ==
        graph.isCollective(step.node))
      return describe(step) + (graph.isCollective(step.node)
                                   ? " runs a collective as computation"
                                   : " is of no collective");
    int number = graph.numberOf(step);
    if (done[number])
      return describe(step) + " occurs twice";
    done[number] = true;
    if (step.kind == RankInstruction::Await) {
      if (!done[beginOf(step.node)])
        return describe(step) + " precedes its start";
      continue;
    }
    for (int before : graph.predecessors[step.node])
      if (!done[graph.endOf(before)])
        return describe(step) + " precedes the end of node " +
               std::to_string(before) + ", on which it depends";
    if (int before = graph.startsAfter[step.node];
        before >= 0 && !done[beginOf(before)])
      return describe(step) + " overtakes node " + std::to_string(before) +
             " on a stream that keeps its order";
  }
  if (steps.size() != graph.steps)
    return "expects " + std::to_string(graph.steps) + " steps, got " +
           std::to_string(steps.size());
  return "";
}

std::string overlap::checkConflicts(const StepGraph &graph,
                                    const std::vector<OverlapStep> &steps) {
  std::vector<int> inFlight(graph.problem.streams.size(), 0);
  for (const OverlapStep &step : steps) {
    if (step.kind == RankInstruction::Compute)
      continue;
    int stream = graph.problem.nodes[step.node].stream;
    if (step.kind == RankInstruction::Await) {
      --inFlight[stream];
      continue;
    }
    for (int other : graph.conflicts[stream])
      if (inFlight[other] > 0)
        return describe(step) + " on stream " + std::to_string(stream) +
               " while stream " + std::to_string(other) +
               ", with which it conflicts, has a collective in flight";
    ++inFlight[stream];
  }
  return "";
}

/// Calls `visit(i, allocates, frees)` for each of the steps.
template <typename Visit>
static void visitMemory(const StepGraph &graph,
                        const std::vector<OverlapStep> &steps, Visit visit) {
  std::vector<int> left(graph.values.size());
  for (size_t v = 0; v < left.size(); ++v)
    left[v] = int(graph.values[v].deaths.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    int number = graph.numberOf(steps[i]);
    int64_t allocates = 0, frees = 0;
    for (int v : graph.births[number])
      allocates += graph.values[v].bytes;
    for (int v : graph.deaths[number])
      if (--left[v] == 0)
        frees += graph.values[v].bytes;
    visit(i, allocates, frees);
  }
}

int64_t overlap::peakBytes(const StepGraph &graph,
                           const std::vector<OverlapStep> &steps) {
  int64_t live = graph.staticBytes, most = live;
  visitMemory(graph, steps, [&](size_t, int64_t allocates, int64_t frees) {
    most = std::max(most, live += allocates);
    live -= frees;
  });
  return most;
}

int64_t OverlapProblem::peakBytes(const std::vector<OverlapStep> &steps) const {
  return overlap::peakBytes(StepGraph(*this), steps);
}

static SimProblem simulation(const StepGraph &graph,
                             const std::vector<OverlapStep> &steps) {
  const OverlapProblem &problem = graph.problem;
  SimProblem simulated;
  simulated.links = problem.links;
  simulated.computeRateUnderComm = problem.computeRateUnderComm;
  simulated.commRateUnderCompute = problem.commRateUnderCompute;
  simulated.communicators.assign(problem.streams.size(), {{0}});
  SimProgram &program = simulated.classes.emplace_back();
  program.staticBytes = graph.staticBytes;
  std::vector<int> indexOf(problem.nodes.size(), -1);
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    const OverlapProblem::Node &node = problem.nodes[n];
    if (node.stream < 0)
      continue;
    indexOf[n] = int(program.collectives.size());
    SimCollective &collective = program.collectives.emplace_back();
    collective.communicator = node.stream;
    collective.latency = node.latency;
    collective.transfer = node.transfer;
    collective.link = node.link;
    collective.belowSaturatingSize = node.belowSaturatingSize;
    collective.userCap = node.userCap;
  }
  program.instructions.resize(steps.size());
  visitMemory(graph, steps, [&](size_t i, int64_t allocates, int64_t frees) {
    const OverlapStep &step = steps[i];
    bool isCompute = step.kind == RankInstruction::Compute;
    program.instructions[i] = {step.kind,
                               isCompute ? problem.nodes[step.node].seconds : 0,
                               indexOf[step.node], allocates, frees};
  });
  return simulated;
}

double overlap::simulateSteps(const StepGraph &graph,
                              const std::vector<OverlapStep> &steps) {
  return simulateSeconds(simulation(graph, steps));
}

SimProblem OverlapProblem::toSimProblem(const std::vector<OverlapStep> &steps,
                                        bool facts) const {
  StepGraph graph(*this);
  SimProblem simulated = simulation(graph, steps);
  SimProgram &program = simulated.classes[0];
  std::vector<int> position(2 * nodes.size(), -1);
  double total = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    position[graph.numberOf(steps[i])] = int(i);
    total += program.instructions[i].seconds;
  }
  for (const OverlapStep &step : steps) {
    if (step.kind != RankInstruction::Start)
      continue;
    SimCollective &collective =
        program.collectives[program.instructions[position[beginOf(step.node)]]
                                .collective];
    for (int before : graph.predecessors[step.node])
      collective.producer =
          std::max(collective.producer, position[graph.endOf(before)]);
    for (int after : graph.successors[step.node]) {
      int first = position[beginOf(after)];
      if (collective.consumer < 0 || first < collective.consumer)
        collective.consumer = first;
    }
    if (facts)
      collective.independentSeconds = std::max(
          0.0, total - computeAround(graph, step.node, /*before=*/true) -
                   computeAround(graph, step.node, /*before=*/false));
  }
  return simulated;
}

/// The input with every start directly before its await: gathers take no memory
/// before they are needed.
static std::vector<OverlapStep>
getLateSteps(const std::vector<OverlapStep> &input) {
  std::vector<OverlapStep> steps;
  for (const OverlapStep &step : input) {
    if (step.kind == RankInstruction::Start)
      continue;
    if (step.kind == RankInstruction::Await)
      steps.push_back({RankInstruction::Start, step.node});
    steps.push_back(step);
  }
  return steps;
}

OverlapSchedule overlap::scheduleInput(const StepGraph &graph) {
  const OverlapProblem &problem = graph.problem;
  OverlapSchedule schedule;
  schedule.memoryBound.assign(problem.nodes.size(), false);
  schedule.steps = graph.input;
  schedule.seconds = schedule.inputSeconds = simulateSteps(graph, graph.input);
  schedule.peakBytes = schedule.inputPeakBytes = peakBytes(graph, graph.input);
  schedule.error = checkConflicts(graph, graph.input);
  if (schedule.error.empty() && schedule.peakBytes <= problem.memoryBound)
    return schedule;
  std::vector<OverlapStep> synchronous = problem.synchronousSteps();
  int64_t bytes = peakBytes(graph, synchronous);
  if (bytes > problem.memoryBound) {
    std::vector<OverlapStep> late = getLateSteps(graph.input);
    int64_t lateBytes = peakBytes(graph, late);
    if (lateBytes < bytes && checkOrder(graph, late).empty()) {
      synchronous = std::move(late);
      bytes = lateBytes;
    }
  }
  if (bytes > problem.memoryBound) {
    schedule.error = "expects at most " + std::to_string(problem.memoryBound) +
                     " bytes, but the program takes " +
                     std::to_string(schedule.peakBytes) + " as it is and " +
                     std::to_string(bytes) + " with no collective in flight";
    return schedule;
  }
  schedule.error = "";
  schedule.steps = std::move(synchronous);
  schedule.peakBytes = bytes;
  schedule.seconds = simulateSteps(graph, schedule.steps);
  return schedule;
}

std::string OverlapSchedule::verify(const OverlapProblem &problem) const {
  if (!error.empty())
    return "expects a schedule, got an error: " + error;
  StepGraph graph(problem);
  if (std::string wrong = checkOrder(graph, steps); !wrong.empty())
    return wrong;
  if (std::string wrong = checkConflicts(graph, steps); !wrong.empty())
    return wrong;
  int64_t bytes = overlap::peakBytes(graph, steps);
  if (bytes > problem.memoryBound)
    return "expects at most " + std::to_string(problem.memoryBound) +
           " bytes, takes " + std::to_string(bytes);
  if (bytes != peakBytes)
    return "states " + std::to_string(peakBytes) + " bytes, takes " +
           std::to_string(bytes);
  double taken = simulateSteps(graph, steps);
  if (std::abs(taken - seconds) > 1e-9 * std::max(1.0, taken))
    return "states " + std::to_string(seconds) + " seconds, takes " +
           std::to_string(taken);
  return "";
}
