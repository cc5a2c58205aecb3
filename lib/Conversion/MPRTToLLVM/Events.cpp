//===- Events.cpp - where a function records events and waits -------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What has to be ordered, beyond the order within each stream:
//
// - a start comes after what the compute stream did before it that touches its
//   buffers, and after the collectives that touch them and were awaited before
//   it. All that came before the call of the function counts as one operation
//   of the compute stream that touches everything. A start without buffers, of
//   a barrier, touches everything, too;
// - what the compute stream does after an await comes after the collective. An
//   await itself is nothing that a stream does, so it is the next operation of
//   the compute stream that waits, or the end of the function.
//
// Two things touch if they use bytes of one base in common and one of them
// writes them. Memory that is used again is no different from a value here.
//
//===----------------------------------------------------------------------===//

#include "Events.h"
#include "mpcomm/Dialect/MPRT/IR/Address.h"
#include "mpcomm/Dialect/MPRT/IR/MPRT.h"
#include "mpcomm/Runtime/mprt.h"
#include "mpcomm/Scheduling/EventPlacement/EventPlacement.h"

using namespace mlir;
using namespace mpcomm;

namespace {

/// Reads the operations of a function.
class EventReader {
public:
  LogicalResult read(func::FuncOp function);

  EventProblem problem;
  /// Of each operation of the problem; null for the first, the call.
  SmallVector<Operation *> ops;

private:
  struct Node {
    int64_t operation;
    SmallVector<Access, 4> accesses;
    bool awaited = false;
  };

  int64_t push(Operation *op, int64_t stream);
  LogicalResult readCompute(Operation *op);
  LogicalResult readStart(mprt::StartOp op);
  LogicalResult readAwait(mprt::AwaitOp op);

  SmallVector<Node> computed, started;
  llvm::DenseMap<int64_t, size_t> marks; // by event, the last start with it
  SmallVector<int64_t> awaited;          // since the last of `computed`
};

} // namespace

int64_t EventReader::push(Operation *op, int64_t stream) {
  ops.push_back(op);
  problem.operations.push_back({stream, {}});
  return static_cast<int64_t>(ops.size()) - 1;
}

LogicalResult EventReader::readCompute(Operation *op) {
  Node node{push(op, MPRT_COMPUTE_STREAM), {}};
  if (!isa<func::ReturnOp>(op)) {
    FailureOr<SmallVector<Access, 4>> accesses = accessesOf(op);
    if (failed(accesses))
      return failure();
    node.accesses = std::move(*accesses);
  }
  problem.operations.back().after.assign(awaited.begin(), awaited.end());
  awaited.clear();
  computed.push_back(std::move(node));
  return success();
}

LogicalResult EventReader::readStart(mprt::StartOp op) {
  Node node{push(op, MPRT_COMM_STREAM(op.getCommunicator())), {}};
  FailureOr<SmallVector<Access, 4>> accesses = accessesOf(op);
  if (failed(accesses))
    return failure();
  node.accesses = std::move(*accesses);
  // What lies between the buffers of a bucket travels with them.
  if (op.getOutputs().size() > 1 &&
      llvm::all_of(node.accesses, [&](const Access &access) {
        return access.base == node.accesses.front().base;
      })) {
    for (const Access &access : ArrayRef(node.accesses).drop_front()) {
      Access &bucket = node.accesses.front();
      bucket.begin = std::min(bucket.begin, access.begin);
      bucket.end = std::max(bucket.end, access.end);
    }
    node.accesses.resize(1);
  }
  auto touch = [&](const Node &other) {
    if (node.accesses.empty() || other.accesses.empty())
      return true;
    return llvm::any_of(node.accesses, [&](const Access &mine) {
      return llvm::any_of(other.accesses, [&](const Access &theirs) {
        return mine.touches(theirs);
      });
    });
  };
  std::vector<int64_t> &after = problem.operations.back().after;
  for (const Node &other : llvm::reverse(computed))
    if (touch(other)) {
      after.push_back(other.operation);
      break; // which has those before it
    }
  for (const Node &other : started)
    if (other.awaited && touch(other))
      after.push_back(other.operation);
  marks[op.getEvent()] = started.size();
  started.push_back(std::move(node));
  return success();
}

LogicalResult EventReader::readAwait(mprt::AwaitOp op) {
  auto mark = marks.find(op.getEvent());
  if (mark == marks.end())
    return op.emitOpError() << "awaits event " << op.getEvent()
                            << ", expected one that a start before it marks";
  Node &node = started[mark->second];
  if (!node.awaited)
    awaited.push_back(node.operation);
  node.awaited = true;
  return success();
}

LogicalResult EventReader::read(func::FuncOp function) {
  computed.push_back({push(nullptr, MPRT_COMPUTE_STREAM), {}});
  for (Operation &op : function.getBody().front()) {
    LogicalResult result = success();
    if (auto start = dyn_cast<mprt::StartOp>(op))
      result = readStart(start);
    else if (auto await = dyn_cast<mprt::AwaitOp>(op))
      result = readAwait(await);
    else if (isa<mprt::MPRTDialect>(op.getDialect()) || isa<func::ReturnOp>(op))
      result = readCompute(&op);
    if (failed(result))
      return failure();
  }
  return success();
}

FailureOr<EventCalls> EventCalls::plan(func::FuncOp function) {
  EventCalls calls;
  Block &body = function.getBody().front();
  if (body.getOps<mprt::StartOp>().empty() &&
      body.getOps<mprt::AwaitOp>().empty())
    return calls;
  EventReader reader;
  if (failed(reader.read(function)))
    return failure();
  EventPlan plan = placeEvents(reader.problem);
  auto streamOf = [&](int64_t operation) {
    return reader.problem.operations[operation].stream;
  };
  for (const EventPlan::Record &record : plan.records) {
    Operation *op = reader.ops[record.operation];
    Calls &there = op ? calls.after[op] : calls.atEntry;
    there.push_back({false, streamOf(record.operation), record.event});
  }
  for (const EventPlan::Wait &wait : plan.waits)
    calls.before[reader.ops[wait.operation]].push_back(
        {true, streamOf(wait.operation), plan.records[wait.record].event});
  calls.numEvents = plan.events;
  calls.numRecords = static_cast<int64_t>(plan.records.size());
  calls.numWaits = static_cast<int64_t>(plan.waits.size());
  return calls;
}

ArrayRef<EventCall> EventCalls::callsBefore(Operation *op) const {
  auto there = before.find(op);
  return there == before.end() ? ArrayRef<EventCall>() : there->second;
}

ArrayRef<EventCall> EventCalls::callsAfter(Operation *op) const {
  auto there = after.find(op);
  return there == after.end() ? ArrayRef<EventCall>() : there->second;
}
