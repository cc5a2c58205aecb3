//===- JointPlanning.h - an order of gradients for buckets ------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the IR and the joint choice of buckets and order.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_COMMUNICATE_JOINTPLANNING_H
#define MPCOMM_LIB_TRANSFORMS_COMMUNICATE_JOINTPLANNING_H

#include "Communicate/BucketPlanning.h"
#include "mpcomm/Scheduling/Overlap/Joint.h"

namespace mpcomm {

/// Chooses the order of the step's computation together with the buckets of
/// `candidates`, which are all that the step's function has, in ready order,
/// and each ready before the first use of any. Where another order than the
/// block's is better, the block is put into it; the step has to be read anew
/// then. Nothing, with the reason in `why`, where the order must not be
/// touched, or the step has more than `maxNodes` pieces and candidates.
std::optional<JointPlan> chooseOrder(const StepModel &step,
                                     const CostModel &model,
                                     llvm::ArrayRef<BucketCandidate> candidates,
                                     const BucketLimits &limits,
                                     size_t maxNodes, std::string &why);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_COMMUNICATE_JOINTPLANNING_H
