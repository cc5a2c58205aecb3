//===- StageFunctions.h - functions of a pipeline stage ---------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a step whose ops say which stage they are in to one function for each
// stage's forward and backward pass of a micro-batch, and to the values that
// travel between stages. Design: docs/Design/PipelineParallelism.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_STAGEFUNCTIONS_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_STAGEFUNCTIONS_H

#include "Parallelize/StageGraph.h"
#include "mpcomm/Scheduling/PipelineSchedule/PipelineSchedule.h"
#include <map>

namespace mpcomm {

/// The function of an action on a stage, and what it takes and gives, as
/// values of the step: operands in the order of the members up to `states`,
/// results in the order `sums`, `states`, `outgoing`. What is added up and
/// state is updated in place.
struct StageFunction {
  mlir::func::FuncOp function; // null where there is nothing to do
  llvm::SmallVector<mlir::BlockArgument> captured, batches, seeds;
  llvm::SmallVector<mlir::Value> incoming;
  llvm::SmallVector<unsigned> sums, states; // by index in MicroBatch
  llvm::SmallVector<mlir::Value> outgoing;
};

class StageFunctions {
public:
  /// `stages`: as many as ops say there are. Fails, with an error, where an op
  /// has no stage, or values would travel the wrong way.
  static mlir::FailureOr<StageFunctions> get(const StageGraph &graph,
                                             int stages);

  const StageGraph &getGraph() const { return *graph; }
  int getNumStages() const { return stages; }
  int getStage(mlir::Operation *op) const { return stageOf.lookup(op); }

  /// The values that cross from stage `edge` to the next in the forward pass,
  /// or back in the backward pass, in an order of both sides.
  llvm::ArrayRef<mlir::Value> getCrossing(int edge, bool isBackward) const {
    return (isBackward ? back : ahead)[edge];
  }
  /// The function, made when it is first asked for.
  const StageFunction &getFunction(int stage, PipelineActionKind kind);
  /// The ops of an action on a stage, in the order of the step.
  std::vector<mlir::Operation *> getOps(int stage,
                                        PipelineActionKind kind) const;
  /// The stages that make a leaf of a sum; its only one for others.
  std::vector<int> getContributors(unsigned sum) const;
  /// The stage whose functions hand on a state.
  int getStateStage(unsigned state) const { return homes[state].stage; }
  /// The stages whose ops read an argument.
  llvm::ArrayRef<int> getReaders(mlir::BlockArgument argument) const;
  /// The stages that have an argument: those that read it or a copy of it in
  /// other types, and those that make a gradient of it. Ascending.
  llvm::ArrayRef<int> getHolders(mlir::BlockArgument argument) const;

private:
  /// The actions on a stage that can compute a value: its forward pass, or the
  /// input or weight half of its backward pass.
  struct Home {
    int stage;
    bool isForward, isInput;
    bool isIn(int stage, PipelineActionKind kind) const;
    bool operator==(const Home &) const = default;
  };
  /// A leaf, as a sum of those of a sum that an action makes.
  struct Leaf {
    unsigned sum;
    mlir::Value value;
    Home home;
  };

  StageFunctions(const StageGraph &graph, int stages)
      : graph(&graph), stages(stages), ahead(stages), back(stages) {}
  void
  forEachPlacedOp(llvm::function_ref<void(mlir::Operation *)> callback) const;
  Home homeOf(mlir::Operation *op) const;
  std::vector<std::optional<Home>> findHomes() const;
  mlir::LogicalResult readStages();
  mlir::LogicalResult findCrossings();
  mlir::LogicalResult placeStates();
  void splitBackward();
  Leaf placeLeaf(unsigned sum, mlir::Value value, int position,
                 llvm::ArrayRef<std::optional<Home>> states) const;
  void placeLeaves();
  void findHolders();
  bool isIn(mlir::Operation *op, int stage, PipelineActionKind kind) const;
  void addBoundary(StageFunction &stageFunction, int stage,
                   PipelineActionKind kind);
  void addSums(StageFunction &stageFunction, int stage,
               PipelineActionKind kind);
  mlir::func::FuncOp outline(const StageFunction &stageFunction, int stage,
                             PipelineActionKind kind);

  const StageGraph *graph;
  int stages;
  llvm::DenseMap<mlir::Operation *, int> stageOf;
  std::vector<std::vector<mlir::Value>> ahead, back; // by edge
  llvm::DenseSet<mlir::Operation *> inputOps; // of the backward pass: in I
  /// Ops that only add leaves up that several stages make.
  llvm::DenseSet<mlir::Operation *> split;
  std::vector<Leaf> leaves;
  std::vector<Home> homes; // by state
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int>> readers, holders;
  std::map<std::pair<int, PipelineActionKind>, StageFunction> stageFunctions;
};

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_STAGEFUNCTIONS_H
