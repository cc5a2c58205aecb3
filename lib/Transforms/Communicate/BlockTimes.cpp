//===- BlockTimes.cpp - when the ops of a block run -----------------------===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicate/BlockTimes.h"
#include "Communicate/Communicator.h"

using namespace mlir;
using namespace mpcomm;

BlockTimes::BlockTimes(Block &block, const StepModel *step, bool interleaves)
    : step(step), interleaves(interleaves) {
  if (!step)
    return;
  for (Operation &op : block) {
    Operation *after = nullptr;
    auto visit = [&](Operation *user) {
      for (Value operand : user->getOperands()) {
        auto it = late.find(operand.getDefiningOp());
        if (it != late.end() && (!after || step->getPosition(after) <
                                               step->getPosition(it->second)))
          after = it->second;
      }
    };
    if (!late.empty()) {
      if (op.getNumRegions() == 0)
        visit(&op);
      else
        op.walk(visit);
    }
    if (isMovableCollective(&op) && !isMovableGather(&op))
      late[&op] = &op;
    else if (after) {
      late[&op] = after;
      consumers[after] += step->getSeconds(&op);
      lateSeconds += step->getSeconds(&op);
    } else
      computeEnd += step->getSeconds(&op);
    ends.push_back(computeEnd);
    ops.push_back(&op);
  }
}

double BlockTimes::getReady(Operation *op) const {
  int position = step && op ? step->getPosition(op) : -1;
  return position < 0 || position >= static_cast<int>(ends.size())
             ? 0
             : ends[position];
}

double BlockTimes::getConsumer(Operation *collective) const {
  return consumers.lookup(collective);
}

void BlockTimes::setArrival(Operation *collective, double seconds) {
  if (!late.contains(collective))
    return; // nothing waits for it
  double &arrival = arrivals[collective];
  if (arrival >= seconds)
    return;
  arrival = seconds;
  clocks.clear();
  latest.clear();
}

/// Ops one after the other. What depends on no collective comes first, or does
/// not wait for the rest.
void BlockTimes::run() const {
  if (!step || !clocks.empty())
    return;
  double now = interleaves ? 0 : computeEnd, last = 0;
  for (auto [op, end] : llvm::zip_equal(ops, ends)) {
    Operation *after = late.lookup(op);
    double arrival = after ? arrivals.lookup(after) : 0;
    if (!after) {
      clocks.push_back(end);
    } else if (after == op && interleaves) {
      clocks.push_back(arrival); // nothing waits before it reads the result
    } else {
      now = std::max(now, arrival);
      if (after != op)
        now += step->getSeconds(op);
      clocks.push_back(now);
    }
    last = std::max(last, clocks.back());
    latest.push_back(last);
  }
}

double BlockTimes::getClock(Operation *op) const {
  run();
  int position = step && op ? step->getPosition(op) : -1;
  return position < 0 || position >= static_cast<int>(clocks.size())
             ? 0
             : clocks[position];
}

double BlockTimes::getBegin(Operation *op) const {
  bool waits = late.lookup(op) == op;
  return std::max(0.0, getClock(op) -
                           (op && step && !waits ? step->getSeconds(op) : 0));
}

double BlockTimes::getEnd() const {
  run();
  return std::max(computeEnd + lateSeconds, latest.empty() ? 0 : latest.back());
}

Operation *BlockTimes::getLastEnded(double seconds) const {
  run();
  size_t count = llvm::upper_bound(latest, seconds) - latest.begin();
  return count == 0 ? nullptr : ops[count - 1];
}
