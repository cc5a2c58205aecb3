//===- ProgramModel.h - the steps of all ranks ------------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps of all ranks: a StepModel for each class of ranks, and the classes
// that meet in each communicator. For a pipeline also the calls that are passes
// of micro-batches, for its diagram and its bubble.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H
#define MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H

#include "mpcomm/Analysis/StepModel/StepModel.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"

namespace mpcomm {

struct SimResult;

/// A string attribute of an `mpcomm.program`: the name of its schedule, a
/// PipelineKind or another name.
inline constexpr llvm::StringLiteral kScheduleAttr = "mpcomm.schedule";

/// Marks a call as a pass of a micro-batch on a virtual stage, by `mpcomm.tag`
/// (kind and micro-batch, as in F0) and `mpcomm.stage`.
void setStageAction(mlir::Operation *call, const PipelineAction &action);

/// The action of a marked call; nothing for other ops.
std::optional<PipelineAction> getStageAction(mlir::Operation *op);

class ProgramModel {
public:
  /// Ranks that run one function at one place of the program.
  struct RankClass {
    mlir::FunctionOpInterface function;
    /// The lowest of its ranks in the mesh, and their number.
    int64_t firstRank = 0, ranks = 1;
    /// Coordinates along the program's axes.
    llvm::SmallVector<int64_t, 2> place;
    /// Index among the steps: places that run one function share it.
    unsigned step = 0;
  };

  /// Reads an `mpcomm.program`, with one class per place, or a function that
  /// all ranks run, with one class. Fails, with an error at the op, if
  /// StepModel::get fails, if the symbol is neither of these, if a collective
  /// is over another mesh, or if a peer is outside its group. Time: linear in
  /// the ops of the functions, plus one lookup per place and collective, and
  /// one per pair of places for collectives along the program's axes.
  static llvm::FailureOr<ProgramModel> get(mlir::Operation *symbol,
                                           const CostModel &model);

  llvm::ArrayRef<RankClass> getRankClasses() const { return classes; }
  const StepModel &getStep(size_t index) const {
    return steps[classes[index].step];
  }
  /// The name of the schedule; empty if the program has none.
  llvm::StringRef getSchedule() const { return schedule; }

  /// The problem with one class per RankClass, and with instructions and
  /// collectives as in StepModel. Collectives along axes of the program join
  /// the classes that differ in them; a send and its recv join two classes.
  /// Other collectives stay within a class. Link l is level l of the cluster,
  /// for sends and collectives; receives have separate links after all levels.
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
  std::vector<RankClass> classes;
  std::string schedule;
  MeshOp mesh;                         // null of one class
  llvm::SmallVector<unsigned, 2> axes; // of the program, by index in the mesh
  /// By class, then by its collectives: the communicator of the problem.
  std::vector<std::vector<int>> communicatorOf;
  /// The classes that meet in each.
  std::vector<std::vector<int>> communicators;
};

/// Figures of a pipeline's step.
struct PipelineFigures {
  /// Ranks of one pipeline. Places that run the same stages belong to different
  /// pipelines.
  int ranks = 1;
  int stages = 1, microbatches = 1;
  /// Idle share of the ranks from the beginning of the step to the end of the
  /// last pass of a micro-batch.
  double bubble = 0;
  /// The share by idleFormula, if all stages took the mean time; only for
  /// schedules of the literature.
  std::optional<double> formula;
};

/// The figures of a pipeline; nothing if no class runs passes of micro-batches.
/// `result` is the result of the program's problem, without an error. Time:
/// linear in the instructions.
std::optional<PipelineFigures> getPipelineFigures(const ProgramModel &program,
                                                  const SimResult &result);

/// The schedule of a pipeline's programs; of several pipelines, that of the
/// first. If a stage has nothing to compute in I or in W, the other one is B.
/// Otherwise an error that tells why the program is not a pipeline.
PipelineScheduleOr getPipelineSchedule(const ProgramModel &program);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_STEPMODEL_PROGRAMMODEL_H
