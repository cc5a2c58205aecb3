//===- EventPlacement.h - events between streams ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that a program gives to streams run in their order within a
// stream; between streams only events order: one is recorded after an
// operation, and a stream waits for it before another. Here the waits are
// chosen: those that give each operation the order that it needs, and no more.
//
// No more matters. With a wait that asks for too much there may be fewer of
// them: where b1 needs a1, and b2 after it needs a2, b1 that waits for a2
// needs no second wait. But it starts later than it could. So a plan has to
// order exactly what the streams and the dependences order; of such plans the
// one with the fewest waits is unique (EventPlacement.cpp), and with it the
// records.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H
#define MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// Operations in the order in which a program gives them to their streams.
struct EventProblem {
  struct Operation {
    /// Not negative.
    int64_t stream = 0;
    /// Operations before it, in any order, that must have ended when it starts.
    /// Those of its own stream need not be here.
    std::vector<int64_t> after;
  };
  std::vector<Operation> operations;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: linear.
  std::string check() const;
};

/// What is recorded, and what waits for it. Event numbers are used again: by a
/// record after or after the last operation that waits for the record before.
struct EventPlan {
  struct Record {
    /// It is recorded as soon as this one is in its stream.
    int64_t operation = 0;
    /// From 0.
    int64_t event = 0;
  };
  struct Wait {
    /// Before it is given to its stream, the stream waits.
    int64_t operation = 0;
    /// Index into `records`.
    int64_t record = 0;
  };
  /// By increasing operation.
  std::vector<Record> records;
  /// By increasing operation.
  std::vector<Wait> waits;
  /// How many numbers there are.
  int64_t events = 0;

  /// Empty if this plan orders what `problem` orders and nothing else, and each
  /// wait finds the record that it means; else what is wrong with it. Whether
  /// there is a plan with less is not asked. Time: O(n s + d + w) for n
  /// operations on s streams, d dependences and w waits.
  std::string verify(const EventProblem &problem) const;
};

/// The plan with the fewest waits, the fewest records and the fewest events.
/// Time: O(n s + d + n s^2) at worst; operations without dependences take O(s).
EventPlan placeEvents(const EventProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H
