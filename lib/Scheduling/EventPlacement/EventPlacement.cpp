//===- EventPlacement.cpp - events between streams ------------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order R that a plan has to make is the transitive closure of the streams'
// own order and the dependences; it is acyclic, since both point backwards in
// the program. A pair a < b of R with nothing in between, a cover, is in every
// set of edges whose closure is R, and the covers alone have that closure: the
// transitive reduction of an acyclic graph is unique (Aho, Garey and Ullman,
// "The transitive reduction of a directed graph", SIAM J. Comput. 1(2), 1972,
// theorem 1). The edges within a stream are there at no cost. So the covers
// between two streams are the fewest waits, and the only fewest ones: each is
// needed, and together they suffice. A record serves all that wait for one
// operation, so the records are the operations that covers begin with. To
// record at another point of the stream does not do: after an earlier
// operation the order is lost, after a later one there is order that R lacks.
//
// Covers are found with vector clocks (Mattern 1989, Fidge 1988): clock[i][t]
// is the last operation of stream t before i in R, which says of all operations
// of t whether they are before i. The last dependence on each stream implies
// the others there; of these and the operation before i on its own stream, one
// is a cover unless the clock of another has it.
//
// A record's number is in use from its operation up to the last one that waits
// for it. Intervals that begin in order, each given the least free number, take
// as many numbers as overlap at most at one point, which is a lower bound (the
// left-edge algorithm; interval graphs are perfect).
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/EventPlacement/EventPlacement.h"
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

using namespace mpcomm;

std::string EventProblem::check() const {
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].stream < 0)
      return "operation " + std::to_string(i) + " is on stream " +
             std::to_string(operations[i].stream);
    for (int64_t before : operations[i].after)
      if (before < 0 || before >= static_cast<int64_t>(i))
        return "operation " + std::to_string(i) + " depends on operation " +
               std::to_string(before) + ", which is not before it";
  }
  return "";
}

namespace {

/// What is before each operation, for an order that is given edge by edge.
class Clocks {
public:
  explicit Clocks(const EventProblem &problem) {
    std::map<int64_t, size_t> numbers;
    for (const auto &operation : problem.operations)
      numbers.try_emplace(operation.stream, numbers.size());
    numStreams = numbers.size();
    for (const auto &operation : problem.operations)
      streams.push_back(numbers[operation.stream]);
    last.assign(numStreams, -1);
    clocks.reserve(streams.size() * numStreams);
  }

  size_t size() const { return numStreams; }
  size_t streamOf(int64_t operation) const { return streams[operation]; }

  /// Begins the next operation, which comes after those of its stream.
  void push() {
    current = clocks.size() / numStreams;
    int64_t &before = last[streams[current]];
    if (before < 0)
      clocks.resize(clocks.size() + numStreams, -1);
    else
      for (size_t t = 0; t < numStreams; ++t)
        clocks.push_back(clocks[before * numStreams + t]);
    if (before >= 0)
      at(current, streams[current]) = before;
    before = current;
  }

  /// The operation that was begun last comes after `before`, too.
  void addAfter(int64_t before) {
    for (size_t t = 0; t < numStreams; ++t)
      at(current, t) = std::max(at(current, t), at(before, t));
    int64_t &own = at(current, streams[before]);
    own = std::max(own, before);
  }

  /// Whether `before` is before `operation`.
  bool isBefore(int64_t before, int64_t operation) {
    return at(operation, streams[before]) >= before;
  }

private:
  int64_t &at(int64_t operation, size_t stream) {
    return clocks[operation * numStreams + stream];
  }

  size_t numStreams = 0;
  int64_t current = -1;
  std::vector<size_t> streams;
  std::vector<int64_t> last;   // operation of each stream; -1: none yet
  std::vector<int64_t> clocks; // numStreams for each operation
};

} // namespace

std::string EventPlan::verify(const EventProblem &problem) const {
  auto numOperations = static_cast<int64_t>(problem.operations.size());
  auto numRecords = static_cast<int64_t>(records.size());
  auto named = [](const char *what, int64_t i) {
    return what + std::string(" ") + std::to_string(i);
  };
  for (int64_t r = 0; r < numRecords; ++r) {
    int64_t operation = records[r].operation;
    if (operation < 0 || operation >= numOperations ||
        (r > 0 && operation <= records[r - 1].operation))
      return named("record", r) + " is out of order";
    if (records[r].event < 0 || records[r].event >= events)
      return named("record", r) + " has no event";
  }
  for (size_t w = 0; w < waits.size(); ++w) {
    auto [operation, record] = waits[w];
    if (record < 0 || record >= numRecords || operation < 0 ||
        operation >= numOperations || operation <= records[record].operation ||
        (w > 0 && operation < waits[w - 1].operation))
      return named("wait", w) + " is out of order";
  }
  // The calls, in their order.
  Clocks wanted(problem), made(problem);
  std::vector<int64_t> marks(events, -1); // the record that holds each event
  size_t wait = 0, record = 0;
  for (int64_t i = 0; i < numOperations; ++i) {
    wanted.push();
    made.push();
    for (int64_t before : problem.operations[i].after)
      wanted.addAfter(before);
    for (; wait < waits.size() && waits[wait].operation == i; ++wait) {
      const Record &meant = records[waits[wait].record];
      if (marks[meant.event] != waits[wait].record)
        return named("wait", wait) + " finds event " +
               std::to_string(meant.event) + " recorded anew";
      if (!wanted.isBefore(meant.operation, i))
        return named("operation", i) + " waits for operation " +
               std::to_string(meant.operation) + ", which it does not need";
      made.addAfter(meant.operation);
    }
    for (int64_t before : problem.operations[i].after)
      if (!made.isBefore(before, i))
        return named("operation", i) + " does not wait for operation " +
               std::to_string(before);
    if (record < records.size() && records[record].operation == i) {
      marks[records[record].event] = static_cast<int64_t>(record);
      ++record;
    }
  }
  return "";
}

/// Gives each record a number, as few as can be. `ends`: of each record, the
/// last operation that waits for it.
static void numberEvents(EventPlan &plan, const std::vector<int64_t> &ends) {
  using Numbers =
      std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>>;
  using InUse = std::pair<int64_t, int64_t>; // end, number
  Numbers free;
  std::priority_queue<InUse, std::vector<InUse>, std::greater<>> inUse;
  for (size_t r = 0; r < plan.records.size(); ++r) {
    for (; !inUse.empty() && inUse.top().first <= plan.records[r].operation;
         inUse.pop())
      free.push(inUse.top().second);
    if (free.empty())
      free.push(plan.events++);
    plan.records[r].event = free.top();
    free.pop();
    inUse.push({ends[r], plan.records[r].event});
  }
}

/// The plan whose waits are `covers`: pairs of operations, by increasing
/// second.
static EventPlan
makePlan(const std::vector<std::pair<int64_t, int64_t>> &covers) {
  EventPlan plan;
  std::map<int64_t, int64_t> last; // who waits last, by what is recorded
  for (auto [before, operation] : covers)
    last[before] = operation;
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> ends;
  for (auto [before, end] : last) {
    numbers[before] = static_cast<int64_t>(ends.size());
    plan.records.push_back({before, 0});
    ends.push_back(end);
  }
  for (auto [before, operation] : covers)
    plan.waits.push_back({operation, numbers[before]});
  numberEvents(plan, ends);
  return plan;
}

EventPlan mpcomm::placeEvents(const EventProblem &problem) {
  Clocks clocks(problem);
  std::vector<std::pair<int64_t, int64_t>> covers;
  std::vector<int64_t> latest(clocks.size(), -1), candidates;
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    auto operation = static_cast<int64_t>(i);
    clocks.push();
    // What the stream's own order does not imply, the last of each stream.
    for (int64_t before : problem.operations[i].after)
      if (!clocks.isBefore(before, operation)) {
        int64_t &there = latest[clocks.streamOf(before)];
        if (there < 0)
          candidates.push_back(clocks.streamOf(before));
        there = std::max(there, before);
      }
    for (int64_t &candidate : candidates)
      candidate = std::exchange(latest[candidate], -1);
    std::sort(candidates.begin(), candidates.end());
    for (int64_t before : candidates)
      if (std::none_of(
              candidates.begin(), candidates.end(), [&](int64_t other) {
                return other != before && clocks.isBefore(before, other);
              }))
        covers.push_back({before, operation});
    for (int64_t before : candidates)
      clocks.addAfter(before);
    candidates.clear();
  }
  return makePlan(covers);
}
