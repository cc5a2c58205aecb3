//===- StageProblem.h - the stages of a step as a problem -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a step's forward and backward pass, with what its ops take, to the
// problem that Scheduling/StagePartition.h solves.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROBLEM_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROBLEM_H

#include "Parallelize/StageGraph.h"
#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/StagePartition/StagePartition.h"

namespace mpcomm {

/// One op for each forward op of `graph`, in its order, with the seconds of the
/// backward ops that share its position. Values are what crosses positions in
/// either direction; each parameter counts with its gradient's sum and the
/// optimizer's state. Stages are as many as asked for, without bounds. Time:
/// linear in ops and uses.
StagePartitionProblem buildStageProblem(const StageGraph &graph,
                                        const StepModel &step, int stages);

/// `problem` with runs of ops as one op each, such that every run has one that
/// is marked (those before the first belong to it): each stage then has
/// one. `first` receives the first op of each run. A run is to be in the stage
/// that its ops are to be in; false where they contradict each other.
bool mergeRuns(StagePartitionProblem &problem, const std::vector<bool> &marked,
               std::vector<int> &first);

/// Bytes that a rank holds of an argument of `step`, which may be split, and of
/// what is added up over micro-batches.
int64_t countHeldBytes(mlir::func::FuncOp step, mlir::BlockArgument argument);
int64_t countHeldBytes(mlir::func::FuncOp step, const MicroBatchSum &sum);

/// Bytes of what an update of parameter `p` has beside it: the state that the
/// optimizer keeps. By parameter.
llvm::DenseMap<mlir::BlockArgument, int64_t>
countOptimizerBytes(mlir::func::FuncOp step);

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_STAGEPROBLEM_H
