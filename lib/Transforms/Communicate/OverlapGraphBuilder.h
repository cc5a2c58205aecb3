//===- OverlapGraphBuilder.h - from block to problem ------------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The phases of OverlapGraph::get: OverlapNodes.cpp says what is a node,
// OverlapPlanning.cpp the rest.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPGRAPHBUILDER_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPGRAPHBUILDER_H

#include "Communicate/OverlapPlanning.h"

namespace mpcomm {

class OverlapGraphBuilder {
public:
  OverlapGraphBuilder(const StepModel &step, const CostModel &model,
                      bool isSynchronous)
      : step(step), model(model), isSynchronous(isSynchronous) {}

  bool read(std::string &why);
  bool numberNodes(size_t maxNodes);
  void build();

  OverlapGraph graph;

private:
  bool assign(llvm::function_ref<int(int first, int last)> slotOfKernel);
  bool isOrder();
  enum class StepPhase : char { Leaf, Main, Update, Communication };
  std::vector<StepPhase> findPhases();
  void coarsen();
  void joinRuns(size_t length);
  void joinNodes(llvm::function_ref<bool(int)> joins);
  void visitNodes(
      llvm::function_ref<void(int op, int node, bool isBroken)> visit) const;
  void addDependencies();
  int getFirstReader(int op) const;
  void boundGathers();
  void addValues();
  void addCollectives();
  void addInput();
  bool isAwait(size_t op) const { return mlir::isa<AwaitOp>(ops[op]); }
  /// Visits operands, those of ops in regions too.
  void forEachOperand(int op, llvm::function_ref<void(mlir::Value)> visit);
  /// The op of the block that defines a value; -1 for arguments and others.
  int getOp(mlir::Value value) const;

  const StepModel &step;
  const CostModel &model;
  bool isSynchronous;
  std::vector<mlir::Operation *> ops; // of the block, without the terminator
  mlir::Operation *terminator = nullptr;
  std::vector<int> nodeOf;       // by op
  std::vector<int> collectiveOf; // by op, of asyncs and awaits; else -1
  int numNodes = 0;
};

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_OVERLAPGRAPHBUILDER_H
