//===- Grouping.h - which ops run in one kernel --------------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups the linalg ops of one block.
//
// Every op has a slot: the position at which it runs; that of a member is its
// group's slot, which is the position of one of the members, so that slots
// differ. Invariant: each op's slot is greater than the slots of what makes its
// operands. Views and allocations have no slot, they run where they are needed.
// Two groups can merge at a slot greater than those of what both need from
// outside and less than those of what needs either from outside. So no merge
// closes a cycle, and to know it takes time linear in the operands and uses of
// the two groups, not in the size of the graph.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUPING_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUPING_H

#include "FormKernels/Group.h"
#include "llvm/ADT/DenseSet.h"

namespace mpcomm {

class Grouping {
public:
  Grouping(mlir::Block &block, unsigned maxOperands)
      : block(block), maxOperands(maxOperands) {}

  /// Finds the groups. Fails, with an error at the op, on a linalg op that no
  /// kernel can hold.
  mlir::LogicalResult run();

  /// The groups by slot.
  llvm::SmallVector<KernelGroup *> getGroups();
  /// The group of an op, or null.
  KernelGroup *lookup(mlir::Operation *op) const;
  /// Whether something outside of `group` needs the result.
  bool isUsedOutside(const KernelGroup *group, mlir::OpResult result) const;
  /// The greatest slot of what uses the value outside of `group`; -1: nothing.
  int64_t getLastUse(const KernelGroup *group, mlir::Value value) const;
  /// Whether anything outside of `group` needs the value, through views. Time:
  /// up to the first such use.
  bool hasUseOutside(const KernelGroup *group, mlir::Value value) const;

private:
  mlir::LogicalResult collect();
  void growFromProducers();
  void mergeNeighbours();
  bool tryMerge(KernelGroup *first, KernelGroup *second, bool mayHoist);
  bool isWorthwhile(const KernelGroup &first, const KernelGroup &second) const;
  bool areTied(const KernelGroup &first, const KernelGroup &second) const;
  std::optional<int64_t> findSlot(KernelGroup *first, KernelGroup *second,
                                  bool mayHoist);
  int64_t getSlot(mlir::Value value) const;
  int64_t getFirstUse(const KernelGroup *a, const KernelGroup *b,
                      mlir::Value value) const;

  mlir::Block &block;
  unsigned maxOperands;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, KernelGroup *> groupOf;
  llvm::DenseSet<mlir::Operation *> initFills; // that only inits start from
  llvm::SmallVector<std::unique_ptr<KernelGroup>> groups; // null: merged away
  llvm::DenseMap<KernelGroup *, size_t> numberOf;
};

/// Whether an op is a window on the memory of its operand, or an allocation.
bool isView(mlir::Operation *op);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUPING_H
