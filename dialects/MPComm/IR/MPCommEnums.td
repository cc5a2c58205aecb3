//===- MPCommEnums.td - enumerations -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_IR_ENUMS
#define MPCOMM_IR_ENUMS

include "mlir/IR/EnumAttr.td"
include "MPCommDialect.td"

def MPComm_Role : I32EnumAttr<"Role", "what an argument or a result is for", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"OptimizerState", 1, "optimizer_state">,
    I32EnumAttrCase<"Buffer", 2, "buffer">,
    I32EnumAttrCase<"Batch", 3, "batch">,
    I32EnumAttrCase<"Hyperparameter", 4, "hyperparameter">,
    I32EnumAttrCase<"LossScale", 5, "loss_scale">,
    I32EnumAttrCase<"Rng", 6, "rng">,
    I32EnumAttrCase<"Loss", 7, "loss">,
    I32EnumAttrCase<"Output", 8, "output">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_Reduction : I32EnumAttr<"Reduction", "how elements are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Prod", 1, "prod">,
    I32EnumAttrCase<"Min", 2, "min">,
    I32EnumAttrCase<"Max", 3, "max">,
    I32EnumAttrCase<"Mean", 4, "mean">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_LossReduction
    : I32EnumAttr<"LossReduction", "how rows are combined into a loss", [
    I32EnumAttrCase<"Mean", 0, "mean">,
    I32EnumAttrCase<"Sum", 1, "sum">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_RngDistribution
    : I32EnumAttr<"RngDistribution", "how random numbers are distributed", [
    I32EnumAttrCase<"Uniform", 0, "uniform">,
    I32EnumAttrCase<"Normal", 1, "normal">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_GeluApproximation
    : I32EnumAttr<"GeluApproximation", "which formula of GELU", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Tanh", 1, "tanh">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_ProductKind
    : I32EnumAttr<"ProductKind", "which kernels compute an op's products", [
    I32EnumAttrCase<"MatrixProduct", 0, "product">,
    I32EnumAttrCase<"Convolution", 1, "convolution">,
    I32EnumAttrCase<"Attention", 2, "attention">,
    I32EnumAttrCase<"MaskedAttention", 3, "masked_attention">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_PrecisionClass
    : I32EnumAttr<"PrecisionClass", "in which precision an op may run", [
    I32EnumAttrCase<"LowerPrecision", 0, "lower_precision">,
    I32EnumAttrCase<"FP32", 1, "fp32">,
    I32EnumAttrCase<"Promote", 2, "promote">,
    I32EnumAttrCase<"Any", 3, "any">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

def MPComm_CollectiveKind
    : I32EnumAttr<"CollectiveKind", "which collective", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllGather", 2, "all_gather">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Broadcast", 4, "broadcast">,
    I32EnumAttrCase<"Send", 5, "send">,
    I32EnumAttrCase<"Recv", 6, "recv">,
    I32EnumAttrCase<"Barrier", 7, "barrier">,
    I32EnumAttrCase<"Permute", 8, "permute">,
    I32EnumAttrCase<"Reduce", 9, "reduce">,
    I32EnumAttrCase<"Gather", 10, "gather">,
    I32EnumAttrCase<"Scatter", 11, "scatter">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

/// `direct`: each rank sends to every other rank in one step; `ring`: around a
/// ring or along a chain; `tree`: a pipelined double binary tree; `halving`:
/// recursive halving and doubling; `hierarchical`: inside blocks, across them,
/// and inside again; `measured`: a measured line of the cluster, or a profile.
def MPComm_CollectiveAlgorithm
    : I32EnumAttr<"CollectiveAlgorithm", "how a collective is run", [
    I32EnumAttrCase<"Direct", 0, "direct">,
    I32EnumAttrCase<"Ring", 1, "ring">,
    I32EnumAttrCase<"Tree", 2, "tree">,
    I32EnumAttrCase<"Halving", 3, "halving">,
    I32EnumAttrCase<"Hierarchical", 4, "hierarchical">,
    I32EnumAttrCase<"Measured", 5, "measured">]> {
  let cppNamespace = "::mpcomm";
  let genSpecializedAttr = 0;
}

#endif // MPCOMM_IR_ENUMS
