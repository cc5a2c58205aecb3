//===- StageGraph.h - forward and backward pass of a step -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tells the forward from the backward pass of a training step, by dependence
// alone, and for each op how far along the forward pass it can run: from that
// a pipeline's stages follow. Design: docs/Design/PipelineParallelism.md.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PARALLELIZE_STAGEGRAPH_H
#define MPCOMM_TRANSFORMS_PARALLELIZE_STAGEGRAPH_H

#include "Parallelize/MicroBatch.h"
#include "llvm/ADT/SetVector.h"

namespace mpcomm {

/// What an op of a step belongs to.
enum class StepPass : uint8_t {
  /// Runs wherever its results are needed, as often as they are: what does not
  /// depend on the batch, and movement and widening of one value.
  Repeated,
  /// The loss depends on it; or only state, and it on none of the backward
  /// pass, maybe by a narrowed value that gradients read, too.
  Forward,
  /// Gradients depend on it; or only state whose next value does on gradients.
  Backward,
  Update, ///< collectives, updates, and what depends on them
};

/// A leaf of a gradient's sum: uses of a parameter in several places give a
/// gradient each, which may be made by several stages.
struct GradientLeaf {
  mlir::Value value;
  /// As StageGraph::getPosition, of what makes it.
  int position = 0;
};

class StageGraph {
public:
  /// Fails, with an error, where there is no loss that depends on the batch.
  /// Time: linear, but for sums with many leaves.
  static mlir::FailureOr<StageGraph> get(const MicroBatch &micro);

  const MicroBatch &getMicroBatch() const { return *micro; }
  StepPass getPass(mlir::Operation *op) const { return passes.lookup(op); }

  /// In the order of the step. Forward ops are numbered in it: positions.
  /// `auxiliary` are ops of the forward pass that the loss does not depend on.
  llvm::ArrayRef<mlir::Operation *> getForward() const { return forward; }
  llvm::ArrayRef<mlir::Operation *> getAuxiliary() const { return auxiliary; }
  llvm::ArrayRef<mlir::Operation *> getBackward() const { return backward; }

  /// A forward op's own number. Of a backward op the number of the last forward
  /// op whose stage it can share: values flow up the forward pass and gradients
  /// down it. Of an auxiliary op the first such one.
  int getPosition(mlir::Operation *op) const { return positions.lookup(op); }

  /// The values of forward and backward ops, and the arguments, that `value`
  /// is made of by repeated ops: itself where it is one of them.
  void getRoots(mlir::Value value, llvm::SetVector<mlir::Value> &roots) const;
  /// The roots of all operands of `op`, those of its regions with them.
  llvm::SetVector<mlir::Value> getOperandRoots(mlir::Operation *op) const;

  /// The parameter that a root is, or is a copy of in another type; null if it
  /// is neither.
  mlir::BlockArgument getReadParameter(mlir::Value root) const {
    return read.lookup(root);
  }

  /// The index of the loss among the micro-batch's sums.
  unsigned getLoss() const { return losses.front(); }
  /// Whether there are results of role loss after the first.
  bool hasMetrics() const { return losses.size() > 1; }
  /// By sum: its value, or the leaves that it adds up.
  llvm::ArrayRef<GradientLeaf> getLeaves(unsigned sum) const {
    return leaves[sum];
  }
  /// By sum: the parameters whose updates take it; and the one that it is the
  /// gradient of, null if it is of none or several.
  llvm::ArrayRef<mlir::BlockArgument> getParameters(unsigned sum) const {
    return parameters[sum];
  }
  mlir::BlockArgument getParameter(unsigned sum) const {
    return parameters[sum].size() == 1 ? parameters[sum].front()
                                       : mlir::BlockArgument();
  }
  /// Whether other stages' gradients wait for what the op makes: it reaches
  /// those of two parameters, not of one alone.
  bool isInputGradient(mlir::Operation *op) const {
    return reached.lookup(op) == kMany;
  }

private:
  explicit StageGraph(const MicroBatch &micro) : micro(&micro) {}
  void findCopies();
  mlir::LogicalResult findLoss();
  void classify();
  llvm::DenseSet<mlir::Operation *>
  findReadByState(const llvm::DenseSet<mlir::Operation *> &ofLoss,
                  const llvm::DenseSet<mlir::Operation *> &ofSum) const;
  void delayState(const llvm::DenseSet<mlir::Operation *> &ofLoss);
  void number();
  void numberDelayed();
  void numberBackward(mlir::Operation *op);
  void pullDown(mlir::Value gradient, int position);
  void findLeaves();
  void findReached();

  static constexpr int kNone = 0, kMany = -1; // else 1 + the sum

  const MicroBatch *micro;
  std::vector<mlir::Operation *> forward, auxiliary, backward;
  /// Of the backward pass, though neither the loss nor a gradient depends on
  /// it.
  llvm::DenseSet<mlir::Operation *> delayed;
  llvm::DenseMap<mlir::Operation *, StepPass> passes;
  llvm::DenseMap<mlir::Operation *, int> positions;
  /// By value of the forward pass, or parameter: the last position that reads
  /// it.
  llvm::DenseMap<mlir::Value, int> lastReader;
  llvm::DenseMap<mlir::Operation *, int> reached;
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> read;
  std::vector<llvm::SmallVector<GradientLeaf, 1>> leaves;
  std::vector<llvm::SmallVector<mlir::BlockArgument, 1>> parameters;
  /// Sums that are results of role loss; metrics follow the first.
  llvm::SmallSetVector<unsigned, 1> losses;
};

/// Calls `callback` on each use, by `op` or in its regions, of a value of the
/// block that `op` is in.
void forEachOperand(mlir::Operation *op,
                    llvm::function_ref<void(mlir::OpOperand &)> callback);

/// Collectives and scalings of many gradients, which hand each of their first
/// operands on alone, as the result of its number.
bool isPerGradient(mlir::Operation *op);
/// How many operands such an op hands on.
unsigned countHandedOn(mlir::Operation *op);

/// The gradient that operand `index` of an op of the update phase hands on
/// alone, as a result: collectives and scalings of many gradients give one for
/// each.
mlir::Value getHandedOn(mlir::OpOperand &use);

} // namespace mpcomm

#endif // MPCOMM_TRANSFORMS_PARALLELIZE_STAGEGRAPH_H
