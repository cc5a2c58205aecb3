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

#endif // MPCOMM_TRANSFORMS_LAYOUTPASSES
