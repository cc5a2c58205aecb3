//===- CastPlacement.cpp - where a graph changes precision ----------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A choice of one of two states for each op at the least cost of disagreement
// is a minimum cut (Picard and Queyranne, "A cut approach to the rectilinear
// distance facility location problem", Operations Research 26, 1978; the same
// construction selects projects, Picard, "Maximal closure of a graph",
// Management Science 22, 1976).
//
// An op that runs in the wide type lies on the side of the source, one that
// runs narrow on that of the sink. A value v of producer p, readers c1..cn and
// w bytes costs
//
//   w [p wide, some c narrow]  +  w [p narrow, some c wide]
//
// once each, however many readers there are. A node a and edges p -> a of
// capacity w, a -> ci of infinite capacity give the first term: where p is wide
// and some ci narrow, a is narrow (else an infinite edge is cut), so that p ->
// a is cut and pays w; in all other cases a can be on p's side or that of all
// ci at no cost. A node b with b -> p of capacity w and ci -> b infinite gives
// the second in the same way. With one reader a and b are that reader. An Exact
// value must not be read in the wide type if it was made narrow: w is infinite
// in the second term.
//
// Capacities are w (2 n + 1) + 1 for n values: of cuts with the same bytes the
// one with fewer casts is smaller, for 2 n casts and fewer weigh less than a
// byte. Of all minimum cuts the one whose source side is the set of nodes that
// the source reaches in the residual graph has the smallest source side: it is
// contained in all others (Ford and Fulkerson, "Flows in Networks", 1962,
// I.5), so that as few ops as can be run in the wide type.
//
//===----------------------------------------------------------------------===//

#include "mpcomm/Scheduling/CastPlacement/CastPlacement.h"
#include "CastPlacement/CastPlacementFlow.h"
#include <algorithm>

using namespace mpcomm;

/// All capacities together stay below CutGraph::infinite.
static constexpr int64_t maxCapacity = int64_t(1) << 60;

std::string CastProblem::check() const {
  int64_t unit = 2 * int64_t(values.size()) + 1, sum = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    const Value &value = values[v];
    std::string at = "value " + std::to_string(v) + ": ";
    if (value.bytes < 0)
      return at + "expected at least 0 bytes, got " +
             std::to_string(value.bytes);
    if (value.producer < -1 || value.producer >= int(ops.size()))
      return at + "expected a producer in [-1, " + std::to_string(ops.size()) +
             "), got " + std::to_string(value.producer);
    for (int op : value.consumers)
      if (op <= value.producer || op >= int(ops.size()))
        return at + "expected consumers in [" +
               std::to_string(value.producer + 1) + ", " +
               std::to_string(ops.size()) + "), got " + std::to_string(op);
    // Both terms of every value fit into the flow.
    if (value.bytes > (maxCapacity / 2 / unit) - 1 - sum)
      return at + "expected fewer bytes in all";
    sum += value.bytes + 1;
  }
  return "";
}

std::vector<ValueKind> mpcomm::getValueKinds(const CastProblem &problem) {
  // What the operands of each op have; filled in the order of the ops.
  std::vector<bool> anyExact(problem.ops.size()), anyNarrow(problem.ops.size());
  std::vector<std::vector<int>> results(problem.ops.size());
  std::vector<ValueKind> kinds(problem.values.size(), ValueKind::Exact);
  auto note = [&](int v) {
    for (int op : problem.values[v].consumers) {
      anyExact[op] = anyExact[op] || kinds[v] == ValueKind::Exact;
      anyNarrow[op] = anyNarrow[op] || kinds[v] == ValueKind::Narrow;
    }
  };
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const CastProblem::Value &value = problem.values[v];
    if (value.producer >= 0) {
      results[value.producer].push_back(int(v));
      continue;
    }
    kinds[v] = value.isNarrow ? ValueKind::Narrow : value.kind;
    note(int(v));
  }
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    ValueKind kind = ValueKind::Exact;
    switch (problem.ops[op]) {
    case CastClass::Narrow:
      kind = ValueKind::Narrow;
      break;
    case CastClass::Wide:
      break;
    case CastClass::Promote:
      if (anyNarrow[op] && !anyExact[op])
        kind = ValueKind::Narrow;
      break;
    case CastClass::Moves:
      kind = anyExact[op]    ? ValueKind::Exact
             : anyNarrow[op] ? ValueKind::Narrow
                             : ValueKind::Neutral;
      break;
    }
    for (int v : results[op]) {
      kinds[v] = kind;
      note(v);
    }
  }
  return kinds;
}

namespace {

/// What each op may be: Promote ops without narrow operands are Wide.
struct Restricted {
  std::vector<ValueKind> kinds;
  std::vector<CastClass> ops;
};

} // namespace

/// A Promote op runs narrow only where its operands allow it.
static Restricted restrict(const CastProblem &problem) {
  Restricted result{getValueKinds(problem), problem.ops};
  std::vector<bool> anyExact(problem.ops.size()), anyNarrow(problem.ops.size());
  for (size_t v = 0; v < problem.values.size(); ++v)
    for (int op : problem.values[v].consumers) {
      anyExact[op] = anyExact[op] || result.kinds[v] == ValueKind::Exact;
      anyNarrow[op] = anyNarrow[op] || result.kinds[v] == ValueKind::Narrow;
    }
  for (size_t op = 0; op < problem.ops.size(); ++op)
    if (result.ops[op] == CastClass::Promote &&
        (anyExact[op] || !anyNarrow[op]))
      result.ops[op] = CastClass::Wide;
  return result;
}

/// Counts casts and bytes of an assignment.
static void count(const CastProblem &problem, CastPlan &plan) {
  plan.casts = plan.bytes = 0;
  for (const CastProblem::Value &value : problem.values) {
    bool isNarrow = value.producer < 0 ? value.isNarrow
                                       : bool(plan.isNarrow[value.producer]);
    for (int op : value.consumers)
      if (plan.isNarrow[op] != isNarrow) {
        ++plan.casts;
        plan.bytes += value.bytes;
        break;
      }
  }
}

/// Whether the assignment gives a narrow value that is Exact to an op in the
/// wide type.
static int findWidenedExact(const CastProblem &problem, const Restricted &may,
                            const std::vector<bool> &isNarrow) {
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const CastProblem::Value &value = problem.values[v];
    if (may.kinds[v] != ValueKind::Exact || value.producer < 0 ||
        !isNarrow[value.producer])
      continue;
    for (int op : value.consumers)
      if (!isNarrow[op])
        return int(v);
  }
  return -1;
}

std::string mpcomm::verify(const CastProblem &problem, const CastPlan &plan) {
  if (plan.isNarrow.size() != problem.ops.size())
    return "expected a type for each op";
  Restricted may = restrict(problem);
  for (size_t op = 0; op < problem.ops.size(); ++op)
    if ((may.ops[op] == CastClass::Narrow && !plan.isNarrow[op]) ||
        (may.ops[op] == CastClass::Wide && plan.isNarrow[op]))
      return "op " + std::to_string(op) + ": runs in a type that it must not";
  if (int v = findWidenedExact(problem, may, plan.isNarrow); v >= 0)
    return "value " + std::to_string(v) +
           ": loses bits for an op in the wide type";
  CastPlan counted = plan;
  count(problem, counted);
  if (counted.casts != plan.casts || counted.bytes != plan.bytes)
    return "expected " + std::to_string(counted.casts) + " casts of " +
           std::to_string(counted.bytes) + " bytes, got " +
           std::to_string(plan.casts) + " of " + std::to_string(plan.bytes);
  return "";
}

CastPlan mpcomm::placeCasts(const CastProblem &problem) {
  Restricted may = restrict(problem);
  // Ops that may run in one type only are the terminals.
  CutGraph graph;
  std::vector<int> nodes(problem.ops.size());
  for (size_t op = 0; op < problem.ops.size(); ++op)
    nodes[op] = may.ops[op] == CastClass::Wide     ? CutGraph::source
                : may.ops[op] == CastClass::Narrow ? CutGraph::sink
                                                   : graph.addNode();
  int64_t unit = 2 * int64_t(problem.values.size()) + 1;
  std::vector<int> readers;
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const CastProblem::Value &value = problem.values[v];
    int producer = value.producer >= 0 ? nodes[value.producer]
                   : value.isNarrow    ? CutGraph::sink
                                       : CutGraph::source;
    readers.clear();
    for (int op : value.consumers)
      readers.push_back(nodes[op]);
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    int64_t capacity = value.bytes * unit + 1;
    bool isExact = may.kinds[v] == ValueKind::Exact && value.producer >= 0;
    auto reads = [&](int node) {
      return std::binary_search(readers.begin(), readers.end(), node);
    };
    // With a reader whose type is fixed the others' cast is paid for.
    if (producer != CutGraph::sink) {
      if (reads(CutGraph::sink)) {
        graph.addEdge(producer, CutGraph::sink, capacity);
      } else {
        int narrowed = readers.size() == 1 ? readers[0] : graph.addNode();
        graph.addEdge(producer, narrowed, capacity);
        for (int reader : readers)
          graph.addEdge(narrowed, reader, CutGraph::infinite);
      }
    }
    if (producer != CutGraph::source) {
      int64_t back = isExact ? CutGraph::infinite : capacity;
      if (reads(CutGraph::source)) {
        graph.addEdge(CutGraph::source, producer, back);
      } else {
        int widened = readers.size() == 1 ? readers[0] : graph.addNode();
        graph.addEdge(widened, producer, back);
        for (int reader : readers)
          graph.addEdge(reader, widened, CutGraph::infinite);
      }
    }
  }
  std::vector<bool> isWide = graph.cut();
  CastPlan plan;
  for (int node : nodes)
    plan.isNarrow.push_back(!isWide[node]);
  count(problem, plan);
  return plan;
}
