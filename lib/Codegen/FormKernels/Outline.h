//===- Outline.h - a group becomes a kernel and its launch ---- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H

#include "FormKernels/KernelLibrary.h"
#include "mpcomm/Analysis/KernelGroups/BlockNests.h"

namespace mpcomm {

/// The results of a function that may take the memory of an argument: value
/// numbers that are returned, to those of the arguments that donate their
/// buffers.
using Donations = llvm::DenseMap<int, int>;
Donations findDonations(mlir::Block &block, const BlockNests &nests);

/// One result of a launch, and where it goes; values by their numbers.
struct Destination {
  int result;
  int tensor = -1;        // -1: a new one
  bool isUpdated = false; // the kernel reads the destination as its input
  bool isInput = false;   // the kernel reads the tensor apart from that
};

/// Chooses destinations, in the order of `operands.outputs`: the tensor that
/// the result starts from; an argument that donates its buffer; with
/// `reuseOperands`, a product or kernel result that only this group reads, and
/// by the index that the result is written by. `number` is that of the group in
/// `groups`, -1 of one that is not there.
llvm::SmallVector<Destination>
chooseDestinations(const BlockNests &nests, const KernelGroups &groups,
                   int number, const KernelGroup &group,
                   const KernelOperands &operands, const Donations &donations,
                   bool reuseOperands);

/// Makes the kernel (detached) of a group. Arguments are the inputs, then the
/// destinations. Fails, with an error at the op, where a body uses a value that
/// is neither tensor nor constant.
mlir::FailureOr<mlir::func::FuncOp>
outlineGroup(const BlockNests &nests, const KernelGroup &group,
             llvm::ArrayRef<int> inputs,
             llvm::ArrayRef<Destination> destinations);

/// The same for a loop marked `mpcomm.scatter_add`; `inputs` are set to the
/// rows and the indices.
mlir::FailureOr<mlir::func::FuncOp>
outlineScatter(mlir::Operation *loop,
               llvm::SmallVectorImpl<mlir::Value> &inputs);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H
