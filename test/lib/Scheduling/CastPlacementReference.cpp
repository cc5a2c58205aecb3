//===- CastPlacementReference.cpp - the best casts by trying all ----------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every assignment of types to the ops that may run in either, kept if verify()
// takes it. Casts are counted from the problem's definition.
//
//===----------------------------------------------------------------------===//

#include "References.h"
#include <tuple>

using namespace mpcomm;

/// A value is cast once if any of its readers runs in the other type.
static void countCasts(const CastProblem &problem, CastPlan &plan) {
  plan.casts = plan.bytes = 0;
  for (const CastProblem::Value &value : problem.values) {
    bool isNarrow = value.producer < 0 ? value.isNarrow
                                       : bool(plan.isNarrow[value.producer]);
    bool isCast = false;
    for (int op : value.consumers)
      isCast |= plan.isNarrow[op] != isNarrow;
    plan.casts += isCast;
    plan.bytes += isCast ? value.bytes : 0;
  }
}

CastPlan mpcomm::placeCastsReference(const CastProblem &problem) {
  std::vector<size_t> open;
  CastPlan plan, best;
  plan.isNarrow.resize(problem.ops.size());
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    plan.isNarrow[op] = problem.ops[op] == CastClass::Narrow;
    if (problem.ops[op] == CastClass::Promote ||
        problem.ops[op] == CastClass::Moves)
      open.push_back(op);
  }
  int fewestWide = 0;
  for (uint32_t choice = 0; choice < (uint32_t(1) << open.size()); ++choice) {
    int wide = 0;
    for (size_t i = 0; i < open.size(); ++i) {
      plan.isNarrow[open[i]] = choice >> i & 1;
      wide += !(choice >> i & 1);
    }
    countCasts(problem, plan);
    if (!verify(problem, plan).empty())
      continue;
    if (best.isNarrow.empty() ||
        std::tuple(plan.bytes, plan.casts, wide) <
            std::tuple(best.bytes, best.casts, fewestWide)) {
      best = plan;
      fewestWide = wide;
    }
  }
  return best;
}
