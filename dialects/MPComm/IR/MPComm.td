//===- MPComm.td - the mpcomm dialect, all of it -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The umbrella: one file per theme, included here so that tools and other
// dialects need one include.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_MPCOMM
#define MPCOMM_IR_MPCOMM

include "ComputeOps.td"
include "GatherOps.td"
include "ConvolutionOps.td"
include "NeuralOps.td"
include "AttentionOps.td"
include "IndexingOps.td"
include "LoopOps.td"
include "OptimizerOps.td"
include "ScalingOps.td"
include "CollectiveOps.td"
include "ShardingOps.td"

#endif // MPCOMM_IR_MPCOMM
