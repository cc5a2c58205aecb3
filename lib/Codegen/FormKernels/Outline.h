//===- Outline.h - a group becomes a kernel and its launch ---- -*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H
#define MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H

#include "FormKernels/Grouping.h"
#include "FormKernels/KernelLibrary.h"

namespace mpcomm {

/// The tensors whose memory the results of a function may take.
struct Donations {
  /// By value that is returned: the argument that donates its buffer.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> ofResult;
  Donations() = default; // none
  explicit Donations(mlir::Block &block);
};

/// One result of a launch, and where it goes.
struct Destination {
  mlir::OpResult result;
  mlir::Value tensor;     // null: a new one
  bool isUpdated = false; // the kernel reads the destination as its input
  bool isInput = false;   // the kernel reads the tensor apart from that
};

/// Chooses destinations, in the order of `operands.outputs`: the tensor that
/// the result starts from; an argument that donates its buffer; with
/// `reuseOperands`, a product or kernel result that only this group reads, and
/// by the index that the result is written by.
llvm::SmallVector<Destination>
chooseDestinations(const Grouping &grouping, const KernelGroup &group,
                   const KernelOperands &operands, const Donations &donations,
                   bool reuseOperands);

/// Makes the kernel (detached) of a group. Arguments are the inputs, then the
/// destinations. Fails, with an error at the op, where a body uses a value that
/// is neither tensor nor constant.
mlir::FailureOr<mlir::func::FuncOp>
outlineGroup(const KernelGroup &group, llvm::ArrayRef<mlir::Value> inputs,
             llvm::ArrayRef<Destination> destinations);

/// The same for a loop marked `mpcomm.scatter_add`; `inputs` are set to the
/// rows and the indices.
mlir::FailureOr<mlir::func::FuncOp>
outlineScatter(mlir::Operation *loop,
               llvm::SmallVectorImpl<mlir::Value> &inputs);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H
