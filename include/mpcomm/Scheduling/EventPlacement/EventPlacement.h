//===- EventPlacement.h - events between streams ----------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations of one stream run in the order in which the program enqueues
// them. Operations of different streams are ordered only by events: an event is
// recorded after an operation, and a stream waits for it before another one.
// placeEvents chooses waits that enforce exactly the required order.
//
// A wait for a later operation than necessary could replace several waits: if
// b1 needs a1, and b2 after it needs a2, then one wait of b1 for a2 suffices.
// But b1 would start later than it could. So a plan must enforce exactly the
// order that the streams and the dependences imply. Of these plans, the one
// with the fewest waits is unique (EventPlacement.cpp), and so are its records.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H
#define MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpcomm {

/// Operations in the order in which a program enqueues them.
struct EventProblem {
  struct Operation {
    /// Not negative.
    int64_t stream = 0;
    /// Earlier operations, in any order, that must have ended when it starts.
    /// Those of its own stream may be omitted.
    std::vector<int64_t> after;
  };
  std::vector<Operation> operations;

  /// Empty if the problem is well formed, else what is wrong with it.
  /// Time: linear.
  std::string check() const;
};

/// Records and waits. An event number may be recorded again after, or at, the
/// last operation that waits for its previous record.
struct EventPlan {
  struct Record {
    /// The event is recorded directly after this operation is enqueued.
    int64_t operation = 0;
    /// From 0.
    int64_t event = 0;
  };
  struct Wait {
    /// Its stream waits directly before this operation is enqueued.
    int64_t operation = 0;
    /// Index into `records`.
    int64_t record = 0;
  };
  /// By increasing operation.
  std::vector<Record> records;
  /// By increasing operation.
  std::vector<Wait> waits;
  /// Number of events.
  int64_t events = 0;

  /// Empty if this plan enforces exactly the order of `problem` and each wait
  /// refers to a record in effect; else what is wrong with it. Does not check
  /// that the plan is minimal. Time: O(n s + d + w) for n operations on s
  /// streams, d dependences and w waits.
  std::string verify(const EventProblem &problem) const;
};

/// The plan with the fewest waits, the fewest records and the fewest events.
/// Time: O(n s + d + n s^2) at worst; operations without dependences take O(s).
EventPlan placeEvents(const EventProblem &problem);

} // namespace mpcomm

#endif // MPCOMM_SCHEDULING_EVENTPLACEMENT_EVENTPLACEMENT_H
