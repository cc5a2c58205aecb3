//===- EventPlacementReference.cpp - the same, by trying all --------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closures by Warshall's algorithm on bits; every set of waits, smallest first;
// every numbering of the records, by running the calls.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include <bit>
#include <optional>
#include <set>

using namespace mpcomm;

/// Bit a of entry b: a is before b.
using Order = std::vector<uint64_t>;

static Order close(Order order) {
  for (size_t k = 0; k < order.size(); ++k)
    for (size_t b = 0; b < order.size(); ++b)
      if (order[b] >> k & 1)
        order[b] |= order[k];
  return order;
}

/// The numbering with the fewest events that `verify` passes; `plan` has the
/// rest.
static EventPlan numberReference(const EventProblem &problem, EventPlan plan) {
  for (plan.events = plan.records.empty() ? 0 : 1;; ++plan.events) {
    for (auto &record : plan.records)
      record.event = 0;
    while (true) {
      if (plan.verify(problem).empty())
        return plan;
      size_t digit = 0; // counts up, in base `events`
      for (; digit < plan.records.size(); ++digit) {
        if (++plan.records[digit].event < plan.events)
          break;
        plan.records[digit].event = 0;
      }
      if (digit == plan.records.size())
        break;
    }
  }
}

EventPlan mpcomm::placeEventsReference(const EventProblem &problem) {
  size_t n = problem.operations.size();
  Order free(n), wanted;
  for (size_t b = 0; b < n; ++b)
    for (size_t a = 0; a < b; ++a)
      if (problem.operations[a].stream == problem.operations[b].stream)
        free[b] |= uint64_t(1) << a;
  wanted = free;
  for (size_t b = 0; b < n; ++b)
    for (int64_t a : problem.operations[b].after)
      wanted[b] |= uint64_t(1) << a;
  wanted = close(wanted);
  // A wait that is not in the order adds to it.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t b = 0; b < n; ++b)
    for (size_t a = 0; a < b; ++a)
      if ((wanted[b] & ~free[b]) >> a & 1)
        pairs.push_back({a, b});

  std::optional<EventPlan> best;
  for (int size = 0; !best; ++size)
    for (uint64_t chosen = 0; chosen < uint64_t(1) << pairs.size(); ++chosen) {
      if (std::popcount(chosen) != size)
        continue;
      Order order = free;
      std::set<int64_t> recorded;
      for (size_t p = 0; p < pairs.size(); ++p)
        if (chosen >> p & 1) {
          order[pairs[p].second] |= uint64_t(1) << pairs[p].first;
          recorded.insert(pairs[p].first);
        }
      if (close(order) != wanted ||
          (best && best->records.size() <= recorded.size()))
        continue;
      best.emplace();
      for (int64_t operation : recorded)
        best->records.push_back({operation, 0});
      for (size_t p = 0; p < pairs.size(); ++p)
        if (chosen >> p & 1)
          best->waits.push_back(
              {pairs[p].second,
               std::distance(recorded.begin(), recorded.find(pairs[p].first))});
    }
  return numberReference(problem, std::move(*best));
}
