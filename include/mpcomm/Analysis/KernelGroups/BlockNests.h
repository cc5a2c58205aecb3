//===- BlockNests.h - the linalg ops of a block as loop nests ---*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a block of linalg ops on tensors as a KernelProblem. Products are no
// nests, as the runtime calls libraries for them; loops marked
// mpcomm.scatter_add are.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H
#define MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// A block as a problem, and the ops and values that its numbers stand for.
/// Positions of ops are their numbers.
class BlockNests {
public:
  /// Fails, with an error at the op, on a linalg op that no kernel can hold.
  /// Time: linear in ops, operands and uses.
  static llvm::FailureOr<BlockNests> read(mlir::Block &block);

  const KernelProblem &getProblem() const { return problem; }
  mlir::Operation *getOp(int op) const { return ops[op]; }
  mlir::Value getValue(int value) const { return values[value]; }
  /// The number of an op or value; -1 of what is not in the block, or no
  /// tensor.
  int getNumber(mlir::Operation *op) const;
  int getNumber(mlir::Value value) const;
  /// From now on `value` stands for `by`, which computes the same.
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

/// Whether an op is a window on the memory of its operand, or an allocation.
bool isView(mlir::Operation *op);

/// Whether an op widens the floats of a tensor, and does nothing else.
bool isWidening(mlir::Operation *op);
bool isWideningOf8Bits(mlir::Operation *op);

/// Whether an op repeats the elements of its one operand along further
/// dimensions, without reordering them.
bool isBroadcast(mlir::Operation *op);

/// Tensors that the regions of an op read from outside.
llvm::SmallVector<mlir::Value> getCapturedTensors(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_KERNELGROUPS_BLOCKNESTS_H
