//===- Events.h - where a function records events and waits -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes an EventProblem of a function on planned buffers, and of its solution
// the calls.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CONVERSION_MPRTTOLLVM_EVENTS_H
#define MPCOMM_LIB_CONVERSION_MPRTTOLLVM_EVENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// A call of mprt_stream_wait or mprt_event_record.
struct EventCall {
  bool isWait;
  int64_t stream, event;
};

class EventCalls {
public:
  /// Those of `function`, whose body is one block; failure, with an error,
  /// where it is not known where a buffer is, or what is awaited.
  static llvm::FailureOr<EventCalls> plan(mlir::func::FuncOp function);

  /// In front of everything.
  llvm::ArrayRef<EventCall> first() const { return atEntry; }
  llvm::ArrayRef<EventCall> callsBefore(mlir::Operation *op) const;
  llvm::ArrayRef<EventCall> callsAfter(mlir::Operation *op) const;

  int64_t events() const { return numEvents; }
  int64_t records() const { return numRecords; }
  int64_t waits() const { return numWaits; }

private:
  using Calls = llvm::SmallVector<EventCall, 2>;
  Calls atEntry;
  llvm::DenseMap<mlir::Operation *, Calls> before, after;
  int64_t numEvents = 0, numRecords = 0, numWaits = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_CONVERSION_MPRTTOLLVM_EVENTS_H
