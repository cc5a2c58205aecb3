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

BlockTimes::BlockTimes(Block &block, const StepModel *step)
    : step(step), block(block) {
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
    } else
      computeEnd += step->getSeconds(&op);
    ends.push_back(computeEnd);
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
  double &arrival = arrivals[collective];
  arrival = std::max(arrival, seconds);
  clocks.clear();
}

/// Ops one after the other; what depends on no collective comes first.
void BlockTimes::run() const {
  if (!step || !clocks.empty())
    return;
  double now = computeEnd;
  for (auto [op, end] : llvm::zip(block, ends)) {
    Operation *after = late.lookup(&op);
    if (after) {
      now = std::max(now, arrivals.lookup(after));
      if (after != &op)
        now += step->getSeconds(&op);
    }
    clocks.push_back(after ? now : end);
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
  double end = computeEnd;
  for (double clock : clocks)
    end = std::max(end, clock);
  return end;
}

Operation *BlockTimes::getLastEnded(double seconds) const {
  run();
  Operation *last = nullptr;
  for (auto [op, clock] : llvm::zip(block, clocks)) {
    if (clock > seconds)
      break;
    last = &op;
  }
  return last;
}
