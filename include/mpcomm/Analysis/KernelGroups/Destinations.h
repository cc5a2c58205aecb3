//===- Destinations.h - where kernels write their results -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the memory of the results of a kernel. Does not depend on IR.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_ANALYSIS_KERNELGROUPS_DESTINATIONS_H
#define MPCOMM_ANALYSIS_KERNELGROUPS_DESTINATIONS_H

#include "mpcomm/Analysis/KernelGroups/KernelGroups.h"
#include "llvm/ADT/DenseMap.h"

namespace mpcomm {

/// The results of a function that may take the memory of an argument: values
/// that are returned, and the arguments that donate their buffers to them.
using Donations = llvm::DenseMap<int, int>;

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
chooseDestinations(const KernelProblem &problem, const KernelGroups &groups,
                   int number, const KernelGroup &group,
                   const KernelOperands &operands, const Donations &donations,
                   bool reuseOperands);

} // namespace mpcomm

#endif // MPCOMM_ANALYSIS_KERNELGROUPS_DESTINATIONS_H
