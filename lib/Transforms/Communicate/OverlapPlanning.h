//===- OverlapPlanning.h - a step as an overlap problem ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the IR and the scheduler: a block of compute ops, asyncs and awaits
// becomes an OverlapProblem, and a schedule an order of the block.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPPLANNING_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPPLANNING_H

#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/Overlap/Overlap.h"

namespace mpcomm {

class OverlapGraph {
public:
  /// Reads the body of the step's function. Ops that one kernel runs are one
  /// node; where there are more than `maxNodes` of them, so is each run of ops
  /// that the rest of the computation needs, between those that only a
  /// collective or an update needs; where that is not enough, so are runs of
  /// any computation between asyncs and awaits. Collectives are all in asyncs,
  /// or (`isSynchronous`) none is. Nothing, with the reason in `why`, where the
  /// order must not be touched. Time: linear in ops, operands and uses.
  static std::optional<OverlapGraph> get(const StepModel &step,
                                         const CostModel &model,
                                         size_t maxNodes, std::string &why,
                                         bool isSynchronous = false);

  OverlapProblem problem;

  /// Puts the ops of the block into the order of the steps, and marks the
  /// asyncs that the memory bound moved.
  void apply(const OverlapSchedule &schedule);
  /// Puts these nodes, which need no others, to the front of the block, in this
  /// order. Of a graph of synchronous collectives.
  void moveToFront(llvm::ArrayRef<int> order);
  /// The ops of a node, in the order of the block; none of an async.
  llvm::ArrayRef<mlir::Operation *> getOps(int node) const {
    return nodes[node].ops;
  }
  /// Puts the ops back into the order that was read, and takes the marks off.
  void undo();

private:
  friend class OverlapGraphBuilder;
  struct Node {
    /// Of computation, and of a synchronous collective: its ops, in the order
    /// of the block.
    llvm::SmallVector<mlir::Operation *, 1> ops;
    AsyncOp async;
    AwaitOp await;
  };
  mlir::Block *block = nullptr;
  std::vector<mlir::Operation *> ops; ///< as read, without the terminator
  std::vector<Node> nodes;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPPLANNING_H
