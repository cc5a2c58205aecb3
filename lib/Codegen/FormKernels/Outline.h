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
#include "mpcomm/Analysis/KernelGroups/Destinations.h"

namespace mpcomm {

/// Makes the kernel (detached) of a group. Arguments are the inputs, then the
/// destinations. Fails, with an error at the op, where a body uses a value that
/// is neither tensor nor constant.
mlir::FailureOr<mlir::func::FuncOp>
outlineGroup(const BlockNests &nests, const KernelGroup &group,
             llvm::ArrayRef<int> inputs,
             llvm::ArrayRef<Destination> destinations);

} // namespace mpcomm

#endif // MPCOMM_LIB_CODEGEN_FORMKERNELS_OUTLINE_H
