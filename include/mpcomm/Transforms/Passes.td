//===- Passes.td - passes on training graphs and rank programs -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All of these run on the module: rewrites of communication follow one order
// that every rank computes identically, and remarks come out in program order. A file
// for each phase.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_PASSES
#define MPCOMM_TRANSFORMS_PASSES

include "VerifyPasses.td"
include "PrecisionPasses.td"
include "FusionPasses.td"
include "ParallelizePasses.td"
include "ShardPasses.td"
include "CommunicatePasses.td"
include "LayoutPasses.td"

#endif // MPCOMM_TRANSFORMS_PASSES
