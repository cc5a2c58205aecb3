//===- LayoutPasses.td - order of dimensions in memory -*- tablegen -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On Form 4, before the lowering.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_TRANSFORMS_LAYOUTPASSES
#define MPCOMM_TRANSFORMS_LAYOUTPASSES

include "PassOptions.td"

def ChannelsLastPass : Pass<"mpcomm-channels-last", "::mlir::ModuleOp"> {
  let summary = "Gives activations the layout with the channels last";
  let description = [{
    Convolutions, pooling and batch norms on [N, C, H, W] become ops on [N, H,
    W, C] (`channels_last`, `feature_dim = 3`), and so do elementwise ops,
    concatenations, reductions and transposes of their results. In this layout
    the channels of a pixel are contiguous: oneDNN reads them without a copy
    into its own layout, and the statistics of a batch norm are sums of rows.

    Assumes: functions of one block; others are unchanged.

    Guarantees: signatures and filters are unchanged; transposes remain at the
    boundaries, where a batch enters or an activation is flattened. Linear in
    the number of ops.

    Numerics: exact; sums over more than one dimension may be computed in
    another order.

    Example:
    ```mlir
    %y = mpcomm.convolution %x, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1
        : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x32x32xf32>
    ```
    becomes
    ```mlir
    %a = mpcomm.transpose %x, dims = [0, 2, 3, 1] : (tensor<8x3x32x32xf32>) -> tensor<8x32x32x3xf32>
    %b = mpcomm.convolution %a, %w, strides = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1 {channels_last}
        : (tensor<8x32x32x3xf32>, tensor<16x3x3x3xf32>) -> tensor<8x32x32x16xf32>
    %y = mpcomm.transpose %b, dims = [0, 3, 1, 2] : (tensor<8x32x32x16xf32>) -> tensor<8x16x32x32xf32>
    ```

    Counts: an analysis remark `ChannelsLast` for each function (ops changed,
    transposes of activations left).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def SinkMovementPass : Pass<"mpcomm-sink-movement", "::mlir::ModuleOp"> {
  let summary = "Moves transposes and reshapes after what computes";
  let description = [{
    Elementwise ops, reductions and reversals of a transposed tensor work in the
    order of the tensor, and their result is transposed. So a transpose reaches
    a product, which reads any order, or another transpose, and no kernel has to
    write a tensor in another order. Likewise for reshapes that merge dimensions
    or only add and remove dimensions of size 1, also of the rows of a product:
    what is computed on one tensor is computed in one shape, and can be one
    kernel.

    An elementwise op is changed if all its operands are moved in the same way,
    or are constants of one value, or broadcasts that can be made in the other
    order without a transpose.

    Assumes: functions of one block, others are unchanged; runs after
    `mpcomm-fuse-attention`.

    Guarantees: signatures are unchanged. A transpose of what a product writes
    stays, since the product writes any order. No transpose is moved to where it
    would move wider elements at the end.

    Numerics: exact; sums over more than one dimension may be computed in
    another order.

    Example:
    ```mlir
    %t = mpcomm.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %y = math.exp %t : tensor<8x4xf32>
    %s = mpcomm.reduce sum %y, dims = [0] : (tensor<8x4xf32>) -> tensor<4xf32>
    ```
    becomes
    ```mlir
    %y = math.exp %x : tensor<4x8xf32>
    %s = mpcomm.reduce sum %y, dims = [1] : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

def HoistReversePass : Pass<"mpcomm-hoist-reverse", "::mlir::ModuleOp"> {
  let summary = "Moves reversals before what computes";
  let description = [{
    A reversal reads its operand from memory. Elementwise ops whose result only
    a reversal reads, and widenings, become ops on reversed operands: what is
    reversed is in memory already, and no kernel has to write the operand. A
    reshape between that splits dimensions moves along.

    Assumes: runs after `mpcomm-sink-movement`, which leaves no transposes
    between.

    Guarantees: other uses of what is reversed are unchanged.

    Numerics: exact.

    Example:
    ```mlir
    %w = arith.extf %x : tensor<8x2xbf16> to tensor<8x2xf32>
    %r = mpcomm.reverse %w, dims = [1] : (tensor<8x2xf32>) -> tensor<8x2xf32>
    ```
    becomes
    ```mlir
    %v = mpcomm.reverse %x, dims = [1] : (tensor<8x2xbf16>) -> tensor<8x2xbf16>
    %r = arith.extf %v : tensor<8x2xbf16> to tensor<8x2xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mpcomm::MPCommDialect"];
}

#endif // MPCOMM_TRANSFORMS_LAYOUTPASSES
