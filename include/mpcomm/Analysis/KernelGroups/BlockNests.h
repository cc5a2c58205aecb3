//===- BlockNests.h - the linalg ops of a block as loop nests ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a block of linalg ops on tensors as a KernelProblem. Products are not
// nests, because the runtime calls libraries for them. A scatter
// is a nest without loops.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H
#define MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// A block as a problem, and the ops and values of its numbers. The number of
/// an op is its position.
class BlockNests {
public:
  /// Fails, with an error at the op, if no kernel can contain a linalg op.
  /// Time: linear in ops, operands and uses.
  static llvm::FailureOr<BlockNests> read(mlir::Block &block);

  const KernelProblem &getProblem() const { return problem; }
  mlir::Operation *getOp(int op) const { return ops[op]; }
  mlir::Value getValue(int value) const { return values[value]; }
  /// The number of an op or value; -1 if it is not in the block, or not a
  /// tensor.
  int getNumber(mlir::Operation *op) const;
  int getNumber(mlir::Value value) const;
  /// Replaces the value with number `value` by the equal value `by`.
  void replace(int value, mlir::Value by) { values[value] = by; }

private:
  void addOp(mlir::Operation &op);
  llvm::LogicalResult addNest(mlir::Operation &op);
  int addValue(mlir::Value value);
  void addUsers(mlir::Block &block);

  KernelProblem problem;
  std::vector<mlir::Operation *> ops;
  std::vector<mlir::Value> values;
  llvm::DenseMap<mlir::Operation *, int> opNumbers;
  llvm::DenseMap<mlir::Value, int> valueNumbers;
};

/// Whether tensors of kernels can have elements of `type`.
bool isElementOfKernels(mlir::Type type);

/// Whether an op is a view of its operand, or an allocation.
bool isView(mlir::Operation *op);

/// Whether a library of the runtime computes an op, which reads memory, much of
/// it more than once.
bool isLibraryCall(mlir::Operation *op);

/// Whether an op only widens the floats of a tensor.
bool isWidening(mlir::Operation *op);
bool isWideningOf8Bits(mlir::Operation *op);

/// Whether an op repeats the elements of its one operand along further
/// dimensions, without reordering them.
bool isBroadcast(mlir::Operation *op);

/// Tensors that the regions of an op read from outside.
llvm::SmallVector<mlir::Value> getCapturedTensors(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H
