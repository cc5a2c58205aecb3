//===- ProgramModel.h - the steps of all ranks ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the ranks of a step do, each class of ranks by its own StepModel, and
// which of them meet in a communicator. Of a pipeline also which of the calls
// are passes of micro-batches, for its diagram and its bubble.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H
#define MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H

#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"

namespace mpcomm {

struct SimResult;

/// A string on an `mpcomm.program`: the schedule that it follows, by the names
/// of PipelineKind, or another name.
inline constexpr llvm::StringLiteral kScheduleAttr = "mpcomm.schedule";

/// Says of a call that it is a pass of a micro-batch on a virtual stage:
/// `mpcomm.tag`, kind and micro-batch as in F0, and `mpcomm.stage`.
void setStageAction(mlir::Operation *call, const PipelineAction &action);

/// Nothing where an op is no such call.
std::optional<PipelineAction> getStageAction(mlir::Operation *op);

class ProgramModel {
public:
  /// Ranks that run one function at one place of the program.
  struct Class {
    mlir::FunctionOpInterface function;
    /// The least of its ranks in the mesh, and how many there are.
    int64_t firstRank = 0, ranks = 1;
    /// Coordinates along the program's axes.
    llvm::SmallVector<int64_t, 2> place;
    /// Index among the steps: places that run one function share it.
    unsigned step = 0;
  };

  /// Reads an `mpcomm.program`, a class for each of its places, or a function
  /// that all ranks run, which is one class. Fails, with an error at the op, on
  /// what StepModel::get fails on, on symbols that are neither, on collectives
  /// over another mesh, and on peers outside their group. Time: linear in the
  /// ops of the functions; for each place a lookup for each of its collectives,
  /// and for those along the program's axes as many as there are places.
  static llvm::FailureOr<ProgramModel> get(mlir::Operation *symbol,
                                           const CostModel &model);

  llvm::ArrayRef<Class> getClasses() const { return classes; }
  const StepModel &getStep(size_t index) const {
    return steps[classes[index].step];
  }
  /// Empty where the program names none.
  llvm::StringRef getSchedule() const { return schedule; }

  /// Class i is class i, RankInstruction and SimCollective as in StepModel.
  /// Collectives along axes of the program join the classes that differ in
  /// them, a send and its recv two of them; others stay within a class. Link l
  /// is level l of the cluster, whose ports send; receives take ports of their
  /// own, after all levels.
  SimProblem buildSimProblem(const CostModel &model) const;

private:
  llvm::LogicalResult read(ProgramOp program, const CostModel &model);
  /// Axes, a channel, and the classes that meet.
  using Meeting =
      std::tuple<llvm::SmallVector<unsigned, 2>, int64_t, std::vector<int>>;
  llvm::FailureOr<Meeting> getMeeting(size_t index, CollectiveOpInterface op);
  llvm::FailureOr<int> getPeer(size_t index, CollectiveOpInterface op,
                               llvm::ArrayRef<unsigned> along, int64_t peer);
  std::vector<int> getGroup(size_t index, llvm::ArrayRef<unsigned> along) const;

  std::vector<StepModel> steps;
  std::vector<Class> classes;
  std::string schedule;
  MeshOp mesh;                         // null of one class
  llvm::SmallVector<unsigned, 2> axes; // of the program, by index in the mesh
  /// By class, then by its collectives: the communicator of the problem.
  std::vector<std::vector<int>> communicatorOf;
  /// The classes that meet in each.
  std::vector<std::vector<int>> communicators;
};

/// How a pipeline spent its step.
struct PipelineFigures {
  /// Ranks of one pipeline: places that run the same stages are pipelines
  /// beside one another.
  int ranks = 1;
  int stages = 1, microbatches = 1;
  /// Idle share of the ranks from the begin of the step to the end of the last
  /// pass of a micro-batch.
  double bubble = 0;
  /// idleFormula's share for stages that all take the mean of theirs, where the
  /// schedule is one of the literature's.
  std::optional<double> formula;
};

/// Nothing where no class runs passes of micro-batches. `result` simulates the
/// program's problem without an error. Time: linear in the instructions.
std::optional<PipelineFigures> getPipelineFigures(const ProgramModel &program,
                                                  const SimResult &result);

/// The schedule that a pipeline's programs follow: of pipelines beside one
/// another, that of the first. Where a stage has nothing to do in I or in W,
/// the other one is B. The error says what the program is not.
PipelineScheduleOr getPipelineSchedule(const ProgramModel &program);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H
