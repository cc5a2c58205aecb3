//===- Group.h - linalg ops that one kernel runs -------------- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group is a set of ops over one row space: the loops of the op with the most
// of them. `Member::loops` says which loop of the space each loop of an op is.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUP_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUP_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <optional>

namespace mpcomm {

/// Which element of a tensor a point of a row space touches, per dimension: the
/// number of a loop, or -1 - c for the constant c.
using Index = llvm::SmallVector<int64_t>;

struct KernelMember {
  mlir::Operation *op;
  int64_t position;                 // in the block, before anything moved
  llvm::SmallVector<int64_t> loops; // loop of the space for each own loop
};

struct KernelGroup {
  llvm::SmallVector<KernelMember, 1> members; // by position
  llvm::SmallVector<int64_t> space;           // sizes of the loops
  int64_t slot;           // position of the member at which the kernel will run
  bool isScatter = false; // a loop marked mpcomm.scatter_add, alone
};

/// Whether the op starts from values that the caller sees: a result whose
/// init is neither empty nor filled, and read.
bool readsInit(mlir::linalg::LinalgOp op, unsigned result);

/// The index of an operand of a member, in the loops of the group.
Index getIndex(const KernelMember &member, mlir::OpOperand &operand);
/// The index by which a member writes its result.
Index getIndex(const KernelMember &member, mlir::OpResult result);

/// Tensors that the body of a linalg op reads by tensor.extract.
llvm::SmallVector<mlir::Value> getCapturedTensors(mlir::Operation *op);

/// Whether the result is summed up over loops other than the last one alone:
/// it is complete only at the end of the kernel.
bool isAccumulated(const KernelGroup &group, const KernelMember &member);

/// Why the group, with its members' loops, is no kernel; empty if it is one.
/// `isUsedOutside` tells of results that something else needs. Time: linear in
/// the operands of the members.
std::string checkGroup(const KernelGroup &group,
                       llvm::function_ref<bool(mlir::OpResult)> isUsedOutside);

/// The two groups as one, over the space of the one with more loops, if what
/// they share says which loops correspond; the slot is that of `first`.
std::optional<KernelGroup> unite(const KernelGroup &first,
                                 const KernelGroup &second);

/// Tensors that are read from outside and results that are used outside.
struct KernelOperands {
  llvm::SetVector<mlir::Value> inputs;
  llvm::SetVector<mlir::OpResult> outputs;
  int64_t countBytes() const;
};
KernelOperands
getOperands(const KernelGroup &group,
            llvm::function_ref<bool(mlir::OpResult)> isUsedOutside);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_GROUP_H
